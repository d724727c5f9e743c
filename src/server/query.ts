/** Parameters of a query, which arrive as text. */
import { z } from 'zod';

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
