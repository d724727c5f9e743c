/**
 * Counts list items before a schema validates them: a schema reports each invalid item, and a body can have
 * millions.
 */
import { z } from 'zod';
import { limitError } from './settings/exceeds.js';

/**
 * Refuses a value that has a list of more than `itemsMax` items where the schema validates each item. Lists
 * inside free JSON are not counted.
 */
export function checkListCounts(schema: z.core.$ZodType, value: unknown, itemsMax: number, path = ''): void {
  if (typeof value !== 'object' || value === null) return;
  if (schema instanceof z.ZodArray) {
    if (!Array.isArray(value) || isFree(schema.element)) return;
    refuseAbove(value.length, itemsMax, path);
    for (const [index, item] of value.entries())
      checkListCounts(schema.element, item, itemsMax, `${path}[${index}]`);
  } else if (schema instanceof z.ZodRecord) {
    if (Array.isArray(value) || isFree(schema.valueType)) return;
    const members = Object.entries(value);
    refuseAbove(members.length, itemsMax, path);
    for (const [name, member] of members)
      checkListCounts(schema.valueType, member, itemsMax, `${path}.${name}`);
  } else if (schema instanceof z.ZodObject) {
    for (const [name, member] of Object.entries(schema.shape))
      if (Object.hasOwn(value, name))
        checkListCounts(
          member,
          (value as Readonly<Record<string, unknown>>)[name],
          itemsMax,
          `${path}.${name}`,
        );
  } else if (schema instanceof z.ZodUnion) {
    for (const option of schema.options) checkListCounts(option, value, itemsMax, path);
  } else if (schema instanceof z.ZodPipe) {
    checkListCounts(schema.in, value, itemsMax, path);
  } else if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodReadonly
  ) {
    checkListCounts(schema.unwrap(), value, itemsMax, path);
  }
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
