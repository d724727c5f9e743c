/** Increment, append and merge patch, as pure functions of the current value. */
import { StoaError } from '../../core/errors.js';
import type { JsonObject, JsonValue } from '../model.js';

/** A missing document counts as 0. */
export function incremented(key: string, current: JsonValue | undefined, by: number): number {
  if (!Number.isFinite(by))
    throw new StoaError('invalid_request', `The increment is ${by}. Expected a finite number.`, {
      details: { field: 'increment' },
    });
  const value = current ?? 0;
  if (typeof value !== 'number' || current === null) throw mismatch(key, 'number', current);
  const sum = value + by;
  if (!Number.isFinite(sum))
    throw new StoaError(
      'conflict',
      `Key "${key}": ${value} + ${by} is not a finite number. Nothing was written.`,
    );
  return sum;
}

/** A missing document counts as an empty list. */
export function appended(
  key: string,
  current: JsonValue | undefined,
  items: readonly JsonValue[],
): JsonValue[] {
  if (current !== undefined && !Array.isArray(current)) throw mismatch(key, 'list', current);
  return [...(current ?? []), ...items];
}

/**
 * RFC 7396: null removes a member, an object is merged, anything else replaces. Changes `current`, which the
 * caller has just read: a copy of a value with many members takes longer than everything else.
 */
export function mergePatched(current: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch;
  // No member is named __proto__: such a value is not stored, and such a patch is refused.
  const members: JsonObject = isObject(current) ? current : {};
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete members[name];
    else members[name] = mergePatched(Object.hasOwn(members, name) ? members[name] : undefined, change);
  }
  return members;
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function mismatch(key: string, wanted: string, found: JsonValue | undefined): StoaError {
  const kind =
    found === null
      ? 'null'
      : Array.isArray(found)
        ? 'a list'
        : isObject(found)
          ? 'an object'
          : `a ${typeof found}`;
  return new StoaError('conflict', `Key "${key}" holds ${kind}, not a ${wanted}.`, {
    fix: `Set it to a ${wanted} first.`,
    details: { key },
  });
}
