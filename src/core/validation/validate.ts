/** Validates the input of a service against its schema. */
import { z } from 'zod';
import { StoaError } from '../errors.js';
import { limitDefinitions } from '../settings/limits.js';
import { checkListCounts } from './list-counts.js';
import { fieldComplaint } from './field-complaint.js';

export interface FieldError {
  /**
   * The path of the field, joined with dots: `labels.team`. In a request it begins with its part:
   * `query.limit`.
   */
  field: string;
  message: string;
}

/** An issue has the value that it is about. */
const withInput = { reportInput: true } as const;

/**
 * The newest output of a schema. A route validates a body and passes it to its service, which validates
 * its input too. If the service gets this same value with the same schema, the second check is skipped.
 */
let newest: { schema: z.ZodType; value: unknown } | undefined;

/** As `schema.safeParse`. The output is remembered for the service that is called with it. */
export function check(
  schema: z.ZodType,
  value: unknown,
  listItemsMax: number = limitDefinitions.listItemsMax.default,
): z.ZodSafeParseResult<unknown> {
  checkListCounts(schema, value, listItemsMax);
  const outcome = schema.safeParse(value, withInput);
  // A default value is not validated by its schema, so it is not remembered.
  if (outcome.success && value !== undefined)
    newest = {
      schema: schema instanceof z.ZodDefault ? (schema.unwrap() as z.ZodType) : schema,
      value: outcome.data,
    };
  return outcome;
}

/** The output of the schema. Throws `invalid_request`, which names every invalid field. */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  if (newest !== undefined && newest.value === value && newest.schema === schema) {
    newest = undefined;
    // The value is an output of this schema.
    return value as z.output<Schema>;
  }
  checkListCounts(schema, value, limitDefinitions.listItemsMax.default);
  const outcome = schema.safeParse(value, withInput);
  if (outcome.success) return outcome.data;
  throw invalidFields(fieldErrors(outcome.error));
}

const fieldCharactersMax = 200;

/**
 * The invalid fields, up to a limit, because a body can have hundreds of thousands. `where` is added before
 * each.
 */
export function fieldErrors(
  error: z.ZodError,
  where: readonly string[] = [],
  errorsMax: number = limitDefinitions.fieldErrorsMax.default,
): FieldError[] {
  const found: FieldError[] = [];
  for (const issue of error.issues) {
    // An unknown field is reported under its own name, not under the object that contains it.
    const names = issue.code === 'unrecognized_keys' ? issue.keys : [undefined];
    for (const name of names) {
      if (found.length >= errorsMax) return found;
      const path = [...where, ...issue.path, ...(name === undefined ? [] : [name])].join('.');
      found.push({
        field: path.slice(0, fieldCharactersMax),
        message: name === undefined ? fieldComplaint(issue) : 'is unknown',
      });
    }
  }
  return found;
}

const namedMax = 5;

/** An error that names the invalid fields: the first few in its sentence, all of them in its details. */
export function invalidFields(errors: readonly FieldError[]): StoaError {
  const sentences = errors
    .slice(0, namedMax)
    .map(({ field, message }) => sentenceOf(field, withoutPeriod(message)));
  const more = errors.length > namedMax ? `; and ${errors.length - namedMax} more` : '';
  return new StoaError('invalid_request', `${sentences.join('; ')}${more}.`, { details: { errors } });
}

/** `body.name is missing`, or `body.name: The text contains …` for a message that is a sentence. */
function sentenceOf(field: string, message: string): string {
  if (field === '') return message;
  return /^[a-z]/.test(message) ? `${field} ${message}` : `${field}: ${message}`;
}

/** Joined messages end with one period. */
function withoutPeriod(message: string): string {
  return message.endsWith('.') ? message.slice(0, -1) : message;
}
