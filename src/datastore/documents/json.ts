/**
 * Checks whether a value is JSON. Each error names the problem and its path. Uses no Node built-ins, because
 * the client runs it in browsers.
 */
import { StoaError } from '../../core/errors.js';

/** Refused everywhere, because some JSON parsers cannot store a member with this name. */
const prototypeName = '__proto__';

/**
 * Nearly all values are valid, so the first pass only checks. Only an invalid value is walked again to find
 * the path.
 */
export function jsonText(value: unknown, root: string, depthMax: number): string {
  if (isJson(value, depthMax)) {
    const text = JSON.stringify(value);
    // JSON.stringify writes a lone surrogate as an escape. An escaped backslash before the same letters looks
    // the same; walking the value distinguishes the two.
    if (!text.includes('\\ud')) return text;
  }
  checkJson(value, newPlace(root), depthMax);
  return JSON.stringify(value);
}

/** Throws for a value that is not JSON, at any depth. For callers whose limits are checked by the server. */
export function checkIsJson(value: unknown, root: string): void {
  checkJson(value, newPlace(root), Infinity);
}

/** The error for a value that is invalid as a whole. */
export function notJson(root: string, found: string): StoaError {
  return refusal(newPlace(root), found);
}

/**
 * Whether the value is JSON that can be stored. Lone surrogates are not checked. A circular value is deeper
 * than any limit, so it is false too.
 */
function isJson(value: unknown, depthLeft: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value);
    case 'object':
      return (
        value === null ||
        (depthLeft > 0 &&
          (Array.isArray(value)
            ? isJsonList(value, depthLeft - 1)
            : isPlain(value) && areJsonMembers(value, depthLeft - 1)))
      );
    default:
      return false;
  }
}

function isJsonList(items: readonly unknown[], depthLeft: number): boolean {
  for (let index = 0; index < items.length; index += 1) if (!isJson(items[index], depthLeft)) return false;
  return true;
}

function areJsonMembers(object: object, depthLeft: number): boolean {
  for (const name in object)
    if (name === prototypeName || !isJson((object as Record<string, unknown>)[name], depthLeft)) return false;
  return true;
}

/** The position in a value: the objects around it, and the name or index that leads into each of them. */
interface Place {
  readonly root: string;
  readonly ancestors: object[];
  readonly names: (string | number)[];
}

function checkJson(value: unknown, place: Place, depthLeft: number): void {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw refusal(place, 'contains a lone surrogate');
      return;
    case 'boolean':
      return;
    case 'number':
      if (!Number.isFinite(value)) throw refusal(place, `is ${value}`);
      return;
    case 'object':
      if (value !== null) checkObject(value, place, depthLeft);
      return;
    case 'undefined':
      throw refusal(place, 'is undefined');
    default:
      throw refusal(place, `is a ${typeof value}`);
  }
}

function checkObject(value: object, place: Place, depthLeft: number): void {
  if (place.ancestors.includes(value)) throw refusal(place, 'is a circular reference');
  if (depthLeft === 0)
    throw refusal(place, `exceeds ${place.names.length} levels of nesting (valueDepthMax)`);
  place.ancestors.push(value);
  const depth = place.names.length;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      place.names[depth] = index;
      checkJson(value[index], place, depthLeft - 1);
    }
  } else {
    checkPlain(value, place);
    for (const name of Object.keys(value)) {
      place.names[depth] = name;
      if (!name.isWellFormed()) throw refusal(place, 'has a lone surrogate in its name');
      if (name === prototypeName) throw refusal(place, 'has a reserved name');
      checkJson((value as Record<string, unknown>)[name], place, depthLeft - 1);
    }
  }
  place.names.length = depth;
  place.ancestors.pop();
}

function checkPlain(value: object, place: Place): void {
  if (!hasPlainPrototype(value)) throw refusal(place, describe(value));
  if (Object.getOwnPropertySymbols(value).length > 0) throw refusal(place, 'has a symbol as a name');
}

function isPlain(value: object): boolean {
  return hasPlainPrototype(value) && Object.getOwnPropertySymbols(value).length === 0;
}

function hasPlainPrototype(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  // Objects of another realm (a vm context, a test runner) have another Object.prototype, which has no
  // prototype either.
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null;
}

function describe(value: object): string {
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return 'is binary; store it as base64 text';
  return `is an instance of ${value.constructor?.name ?? 'a class'}; store plain objects`;
}

function newPlace(root: string): Place {
  return { root, ancestors: [], names: [] };
}

/** The path is written out only here, because most values are valid. */
function refusal({ root, names }: Place, found: string): StoaError {
  const path = names.reduce<string>(
    (text, name) => (typeof name === 'number' ? `${text}[${name}]` : `${text}.${name}`),
    root,
  );
  const place = (path.length > 200 ? `${path.slice(0, 200)}…` : path).toWellFormed();
  return new StoaError('invalid_request', `The value cannot be stored as JSON: ${place} ${found}.`, {
    details: { field: place },
  });
}
