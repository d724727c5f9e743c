/** Filters on the values of documents, as LangGraph has them: members compared for equality or by operators. */
import { StoaError } from '../core/errors.js';
import { compareCodePoints } from '../datastore/documents/code-point-order.js';

type Test = (found: unknown, wanted: unknown) => boolean;

const operators: Readonly<Record<string, Test>> = {
  $eq: (found, wanted) => isSame(found, wanted),
  $ne: (found, wanted) => !isSame(found, wanted),
  $gt: (found, wanted) => isOrdered(found, wanted, (order) => order > 0),
  $gte: (found, wanted) => isOrdered(found, wanted, (order) => order >= 0),
  $lt: (found, wanted) => isOrdered(found, wanted, (order) => order < 0),
  $lte: (found, wanted) => isOrdered(found, wanted, (order) => order <= 0),
  $in: (found, wanted) => isAmong(found, wanted),
  $nin: (found, wanted) => !isAmong(found, wanted),
};
/** Operators of other databases that join conditions. As names of members they would match nothing, without an error. */
const joining: readonly string[] = ['$and', '$or', '$nor', '$not'];

/** A checked filter: each member of a value with the conditions that it must meet. */
export type Filter = (value: unknown) => boolean;

/** Checks a filter once. The result is called for each value. */
export function filterOf(filter: Readonly<Record<string, unknown>>): Filter {
  const conditions = Object.entries(filter).map(([name, condition]) => {
    if (Object.hasOwn(operators, name) || joining.includes(name)) throw misplaced(name);
    return { name, holds: conditionOf(condition) };
  });
  return (value) => conditions.every(({ name, holds }) => holds(memberOf(value, name)));
}

/** The member of a value: by its name, or by a path with dots if no member has that name. */
export function memberOf(value: unknown, name: string): unknown {
  if (!isObject(value)) return undefined;
  if (Object.hasOwn(value, name)) return value[name];
  let found: unknown = value;
  for (const part of name.split('.')) {
    if (!isObject(found) || !Object.hasOwn(found, part)) return undefined;
    found = found[part];
  }
  return found;
}

function conditionOf(condition: unknown): (found: unknown) => boolean {
  if (!isObject(condition)) return (found) => isSame(found, condition);
  const names = Object.keys(condition);
  if (!names.some((name) => name.startsWith('$'))) return (found) => isSame(found, condition);
  const tests = names.map((name) => ({ test: operatorOf(name, condition[name]), wanted: condition[name] }));
  return (found) => tests.every(({ test, wanted }) => test(found, wanted));
}

function operatorOf(name: string, wanted: unknown): Test {
  const test = Object.hasOwn(operators, name) ? operators[name] : undefined;
  // As a plain value an unknown operator would match nothing, without an error.
  if (test === undefined)
    throw new StoaError('invalid_request', `Unknown filter operator "${name}".`, {
      fix: `Use one of ${Object.keys(operators).join(', ')}.`,
    });
  if ((name === '$in' || name === '$nin') && !Array.isArray(wanted))
    throw new StoaError('invalid_request', `The filter operator ${name} has no list of values.`, {
      fix: `Write it as {"${name}": ["open", "done"]}.`,
    });
  return test;
}

function misplaced(name: string): StoaError {
  return new StoaError('invalid_request', `The filter has ${name} in the place of a member of the value.`, {
    fix: 'Name members, each with its condition: {"priority": {"$gte": 2}}. All conditions must hold.',
  });
}

function isAmong(found: unknown, wanted: unknown): boolean {
  return Array.isArray(wanted) && wanted.some((one) => isSame(found, one));
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

/** The order of members for sorting: numbers, texts, false and true; everything else comes last. */
export function compareMembers(left: unknown, right: unknown): number {
  const [a, b] = [sortRank(left), sortRank(right)];
  if (a !== b || a === 3) return a - b;
  if (typeof left === 'string' && typeof right === 'string') return compareCodePoints(left, right);
  return Number(left) - Number(right);
}

function sortRank(value: unknown): 0 | 1 | 2 | 3 {
  if (typeof value === 'number') return 0;
  if (typeof value === 'string') return 1;
  return typeof value === 'boolean' ? 2 : 3;
}
