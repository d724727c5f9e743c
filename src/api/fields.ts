/** Schemas that several groups share: path parameters, query parameters and pages. */
import { z } from 'zod';
import { decodeSegment } from '../core/text/path-segment.js';

/** A path parameter that may be written with `~`. The router has already percent-decoded it. */
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
      { message: `must be a whole number, ${minimum} or more` },
    )
    .transform(Number)
    .meta({ type: 'integer', minimum });
}

/** `1` or `true`, `0` or `false`. The name without a value means true. */
export function queryBoolean(): z.ZodType<boolean, string> {
  return z
    .enum(['', '1', 'true', '0', 'false'])
    .transform((value) => value === '' || value === '1' || value === 'true')
    .meta({ type: 'boolean', enum: undefined });
}

/** The query parameters of every list. The service lowers a limit that is too high. */
export const pageQuery = {
  limit: queryInteger(1)
    .optional()
    .meta({ description: 'Items on the page. A value that is too high is lowered to the maximum.' }),
  cursor: z
    .string()
    .min(1)
    .max(4_096)
    .optional()
    .meta({ description: 'The `next_cursor` of the previous page.' }),
};

/** A page of a list. */
export function pageOf<Item extends z.ZodType>(
  item: Item,
): z.ZodObject<{ items: z.ZodArray<Item>; next_cursor: z.ZodNullable<z.ZodString> }> {
  return z.object({ items: z.array(item), next_cursor: z.string().nullable() });
}

/** Added to the description of an operation that reports its progress. */
export const progressAbout =
  'With `Accept: text/event-stream` the response is a stream of events: `progress` with `done` and ' +
  '`total`, and at the end `done` with the answer or `error` with a problem. Events keep the ' +
  'connection from idling during long work.';
