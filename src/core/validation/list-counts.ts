/**
 * Counts list items before a schema validates them: a schema reports each invalid item, and a body can have
 * millions.
 */
import { z } from 'zod';
import { limitError } from '../settings/exceeds.js';

/** Counts the items of the lists in a value. `path` leads to the value. */
type Count = (value: unknown, itemsMax: number, path: string) => void;

/**
 * What is to count, made once for each schema. Walking the schemas for each commit took 55 µs: an operation has
 * twenty forms.
 */
const counts = new WeakMap<z.core.$ZodType, { readonly count: Count | undefined }>();

/**
 * Refuses a value that has a list of more than `itemsMax` items where the schema validates each item. Lists
 * inside free JSON are not counted.
 */
export function checkListCounts(schema: z.core.$ZodType, value: unknown, itemsMax: number): void {
  countOf(schema)?.(value, itemsMax, '');
}

/** Undefined if the schema has no list whose items it validates. */
function countOf(schema: z.core.$ZodType): Count | undefined {
  const known = counts.get(schema);
  if (known !== undefined) return known.count;
  const count = newCount(schema);
  counts.set(schema, { count });
  return count;
}

function newCount(schema: z.core.$ZodType): Count | undefined {
  if (schema instanceof z.ZodArray) return isFree(schema.element) ? undefined : listCount(schema.element);
  if (schema instanceof z.ZodRecord)
    return isFree(schema.valueType) ? undefined : recordCount(schema.valueType);
  if (schema instanceof z.ZodObject) return objectCount(schema.shape);
  if (schema instanceof z.ZodDiscriminatedUnion) return kindCount(schema);
  if (schema instanceof z.ZodUnion) return anyCount(schema.options);
  if (schema instanceof z.ZodPipe) return countOf(schema.in);
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodReadonly
  )
    return countOf(schema.unwrap());
  return undefined;
}

function listCount(element: z.core.$ZodType): Count {
  const count = countOf(element);
  return (value, itemsMax, path) => {
    if (!Array.isArray(value)) return;
    refuseAbove(value.length, itemsMax, path);
    if (count !== undefined)
      for (const [index, item] of value.entries()) count(item, itemsMax, `${path}[${index}]`);
  };
}

function recordCount(valueType: z.core.$ZodType): Count {
  const count = countOf(valueType);
  return (value, itemsMax, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const members = Object.entries(value);
    refuseAbove(members.length, itemsMax, path);
    if (count !== undefined) for (const [name, member] of members) count(member, itemsMax, `${path}.${name}`);
  };
}

function objectCount(shape: Readonly<Record<string, z.core.$ZodType>>): Count | undefined {
  const counted = Object.entries(shape).flatMap(([name, member]) => {
    const count = countOf(member);
    return count === undefined ? [] : [{ name, count }];
  });
  if (counted.length === 0) return undefined;
  return (value, itemsMax, path) => {
    if (typeof value !== 'object' || value === null) return;
    for (const { name, count } of counted)
      if (Object.hasOwn(value, name))
        count((value as Readonly<Record<string, unknown>>)[name], itemsMax, `${path}.${name}`);
  };
}

/** Zod validates only the option that the value names. */
function kindCount({ options, def }: z.ZodDiscriminatedUnion): Count | undefined {
  const byKind = new Map<unknown, Count>();
  for (const option of options) {
    const kind = option instanceof z.ZodObject ? option.shape[def.discriminator] : undefined;
    if (!(kind instanceof z.ZodLiteral)) return anyCount(options);
    const count = countOf(option);
    if (count !== undefined) for (const name of kind.values) byKind.set(name, count);
  }
  if (byKind.size === 0) return undefined;
  return (value, itemsMax, path) => {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, def.discriminator)) return;
    byKind.get((value as Readonly<Record<string, unknown>>)[def.discriminator])?.(value, itemsMax, path);
  };
}

function anyCount(options: readonly z.core.$ZodType[]): Count | undefined {
  const counted = options.map(countOf).filter((count) => count !== undefined);
  if (counted.length === 0) return undefined;
  return (value, itemsMax, path) => {
    for (const count of counted) count(value, itemsMax, path);
  };
}

/** Whether the schema accepts any JSON. */
function isFree(schema: z.core.$ZodType): boolean {
  return schema instanceof z.ZodUnknown || schema instanceof z.ZodAny || schema instanceof z.ZodLazy;
}

function refuseAbove(count: number, itemsMax: number, path: string): void {
  if (count <= itemsMax) return;
  const field = path.slice(1, 200);
  throw limitError('invalid_request', {
    subject: field === '' ? 'The list' : `The list "${field}"`,
    unit: 'items',
    limit: 'listItemsMax',
    limits: { listItemsMax: itemsMax },
    received: count,
    advice: 'Send several requests',
    details: { field },
  });
}
