/** Checks what comes in at the door of a service against its schema. */
import type { z } from 'zod';
import { StoaError } from './errors.js';

export interface FieldError {
  /** The path to it, joined with dots: `labels.team`, or with its place in a request: `query.limit`. */
  field: string;
  message: string;
}

/** The value as the schema has it. Throws `invalid_request`, naming every field that does not fit. */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw invalidFields(fieldErrors(outcome.error));
}

/** Every field that does not fit; `where` goes before each. */
export function fieldErrors(error: z.ZodError, where: readonly string[] = []): FieldError[] {
  return error.issues.flatMap((issue) => {
    // Unknown fields are reported where they are, not on the object that holds them.
    const names = issue.code === 'unrecognized_keys' ? issue.keys : [undefined];
    return names.map((name) => ({
      field: [...where, ...issue.path, ...(name === undefined ? [] : [name])].join('.'),
      message: name === undefined ? issue.message : 'is not known here',
    }));
  });
}

const namedMax = 5;

/** A refusal that names the fields: the first few in its sentence, all of them in its details. */
export function invalidFields(errors: readonly FieldError[]): StoaError {
  const sentences = errors.slice(0, namedMax).map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));
  const more = errors.length > namedMax ? `; and ${errors.length - namedMax} more` : '';
  return new StoaError('invalid_request', `${sentences.join('; ')}${more}.`, { details: { errors } });
}
