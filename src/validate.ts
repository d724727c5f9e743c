/** Checks what comes in at the door of a service against its schema. */
import type { z } from 'zod';
import { StoaError } from './errors.js';

/** The value as the schema has it. Throws `invalid_request`, naming every field that does not fit. */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  const errors = outcome.error.issues.flatMap((issue) => {
    // Unknown fields are reported where they are, not on the object that holds them.
    const names = issue.code === 'unrecognized_keys' ? issue.keys : [undefined];
    return names.map((name) => ({
      field: [...issue.path, ...(name === undefined ? [] : [name])].join('.'),
      message: name === undefined ? issue.message : 'is not known here',
    }));
  });
  const sentences = errors.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));
  throw new StoaError('invalid_request', `${sentences.join('; ')}.`, { details: { errors } });
}
