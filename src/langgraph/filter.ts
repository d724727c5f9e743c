/** LangGraph's filters: members of a value, compared for equality or by operators. */
import { StoaError } from '../core/errors.js';

type Test = (found: unknown, wanted: unknown) => boolean;

const operators: Readonly<Record<string, Test>> = {
  $eq: (found, wanted) => isSame(found, wanted),
  $ne: (found, wanted) => !isSame(found, wanted),
  $gt: (found, wanted) => isOrdered(found, wanted, (order) => order > 0),
  $gte: (found, wanted) => isOrdered(found, wanted, (order) => order >= 0),
  $lt: (found, wanted) => isOrdered(found, wanted, (order) => order < 0),
  $lte: (found, wanted) => isOrdered(found, wanted, (order) => order <= 0),
  $in: (found, wanted) => Array.isArray(wanted) && wanted.some((one) => isSame(found, one)),
  $nin: (found, wanted) => !Array.isArray(wanted) || !wanted.some((one) => isSame(found, one)),
};

/** Whether every condition of the filter holds for the value. */
export function matches(
  value: Readonly<Record<string, unknown>>,
  filter: Readonly<Record<string, unknown>>,
): boolean {
  return Object.entries(filter).every(([name, condition]) =>
    holds(Object.hasOwn(value, name) ? value[name] : undefined, condition),
  );
}

function holds(found: unknown, condition: unknown): boolean {
  if (!isObject(condition)) return isSame(found, condition);
  const names = Object.keys(condition);
  if (!names.some((name) => name.startsWith('$'))) return isSame(found, condition);
  return names.every((name) => operatorOf(name)(found, condition[name]));
}

function operatorOf(name: string): Test {
  const test = Object.hasOwn(operators, name) ? operators[name] : undefined;
  // As a plain value an unknown operator would match nothing, without an error.
  if (test === undefined)
    throw new StoaError('invalid_request', `Unknown filter operator "${name}".`, {
      fix: `Use one of ${Object.keys(operators).join(', ')}.`,
    });
  return test;
}

/** Equal as JSON: the order of members does not matter, and undefined members are ignored. */
function isSame(left: unknown, right: unknown): boolean {
  if (left === right) return true;
  if (Array.isArray(left))
    return (
      Array.isArray(right) &&
      left.length === right.length &&
      left.every((item, index) => isSame(item, right[index]))
    );
  if (!isObject(left) || !isObject(right)) return false;
  const names = new Set([...Object.keys(left), ...Object.keys(right)]);
  return [...names].every((name) => isSame(left[name], right[name]));
}

/**
 * Numbers, and texts of numbers, by size; other texts, such as ISO times, by code units; nothing else has an
 * order.
 */
function isOrdered(found: unknown, wanted: unknown, test: (order: number) => boolean): boolean {
  const [left, right] = [numberOf(found), numberOf(wanted)];
  if (left !== undefined && right !== undefined) return test(left - right);
  if (typeof found !== 'string' || typeof wanted !== 'string') return false;
  return test(found < wanted ? -1 : found > wanted ? 1 : 0);
}

function numberOf(value: unknown): number | undefined {
  const number =
    typeof value === 'number'
      ? value
      : typeof value === 'string' && value.trim() !== ''
        ? Number(value)
        : Number.NaN;
  return Number.isFinite(number) ? number : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
