/** Checks what comes in at the door of a service against its schema. */
import type { z } from 'zod';
import { StoaError } from './errors.js';
import { limitDefinitions } from './limits.js';

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

const { default: errorsMax } = limitDefinitions.fieldErrorsMax;
const fieldCharactersMax = 200;

/** The fields that do not fit, up to a limit: a body can have hundreds of thousands. `where` goes before each. */
export function fieldErrors(error: z.ZodError, where: readonly string[] = []): FieldError[] {
  const found: FieldError[] = [];
  for (const issue of error.issues) {
    // Unknown fields are reported where they are, not on the object that holds them.
    const names = issue.code === 'unrecognized_keys' ? issue.keys : [undefined];
    for (const name of names) {
      if (found.length >= errorsMax) return found;
      const path = [...where, ...issue.path, ...(name === undefined ? [] : [name])].join('.');
      found.push({ field: path.slice(0, fieldCharactersMax), message: name === undefined ? issue.message : 'is not known here' });
    }
  }
  return found;
}

const namedMax = 5;

/** A refusal that names the fields: the first few in its sentence, all of them in its details. */
export function invalidFields(errors: readonly FieldError[]): StoaError {
  const sentences = errors.slice(0, namedMax).map(({ field, message }) => (field === '' ? withoutPeriod(message) : `${field}: ${withoutPeriod(message)}`));
  const more = errors.length > namedMax ? `; and ${errors.length - namedMax} more` : '';
  return new StoaError('invalid_request', `${sentences.join('; ')}${more}.`, { details: { errors } });
}

/** Messages are sentences or parts of one; joined they end once. */
function withoutPeriod(message: string): string {
  return message.endsWith('.') ? message.slice(0, -1) : message;
}
