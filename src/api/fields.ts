/** Schemas that the operations of several groups share: parameters of paths and queries, and pages. */
import { z } from 'zod';
import { decodeSegment } from '../core/text/path-segment.js';

/** A path parameter that may be written with `~`. The router has undone the percent-encoding before. */
export const pathSegment = z
  .string()
  .meta({ description: 'Percent-encoded, or `~` followed by the base64url of the UTF-8 bytes.' })
  .transform((segment, context) => {
    const text = decodeSegment(segment);
    if (text === undefined) {
      context.addIssue({
        code: 'custom',
        message: 'After "~" the segment must be unpadded base64url of UTF-8 text.',
      });
      return z.NEVER;
    }
    if (text.length === 0) {
      context.addIssue({ code: 'custom', message: 'The segment is empty.' });
      return z.NEVER;
    }
    return text;
  });

/** A whole number, written in digits. */
export function queryInteger(minimum = 0): z.ZodType<number, string> {
  return z
    .custom<string>(
      (value) => typeof value === 'string' && /^\d{1,15}$/.test(value) && Number(value) >= minimum,
      { message: `must be a whole number from ${minimum}` },
    )
    .transform(Number)
    .meta({ type: 'integer', minimum });
}

/** `1` or `true`, `0` or `false`; the name alone means yes. */
export function queryBoolean(): z.ZodType<boolean, string> {
  return z
    .enum(['', '1', 'true', '0', 'false'])
    .transform((value) => value === '' || value === '1' || value === 'true')
    .meta({ type: 'boolean', enum: undefined });
}

/** What every list takes. A limit above the largest is clamped by the service. */
export const pageQuery = {
  limit: queryInteger(1)
    .optional()
    .meta({ description: 'Items on the page; clamped to the largest allowed.' }),
  cursor: z
    .string()
    .min(1)
    .max(4_096)
    .optional()
    .meta({ description: 'The `next_cursor` of the page before.' }),
};

/** A page of a list. */
export function pageOf<Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; next_cursor: z.ZodNullable<z.ZodString> }> {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}

/** For the description of an operation that reports its progress. */
export const progressAbout =
  'With `Accept: text/event-stream` it answers events as soon as there is progress: `progress` with `done` and `total`, at the end `done` with what would have been the answer, or `error` with a problem. The connection never idles, however long it takes.';
