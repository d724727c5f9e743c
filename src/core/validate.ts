/** Checks what comes in at the door of a service against its schema. */
import { z } from 'zod';
import { StoaError } from './errors.js';
import { limitDefinitions } from './settings/limits.js';
import { checkListCounts } from './list-counts.js';

export interface FieldError {
  /** The path to it, joined with dots: `labels.team`, or with its place in a request: `query.limit`. */
  field: string;
  message: string;
}

/**
 * What a schema gave last. A route checks a body and hands it to its service, which checks whatever
 * it is handed: when that is this very value and the same schema, once is enough.
 */
let newest: { schema: z.ZodType; value: unknown } | undefined;

/** As `schema.safeParse`, remembered for the service that is called with the outcome. */
export function check(
  schema: z.ZodType,
  value: unknown,
  listItemsMax: number = limitDefinitions.listItemsMax.default,
): z.ZodSafeParseResult<unknown> {
  checkListCounts(schema, value, listItemsMax);
  const outcome = schema.safeParse(value);
  // A default is not checked by the schema that it stands for.
  if (outcome.success && value !== undefined)
    newest = {
      schema: schema instanceof z.ZodDefault ? (schema.unwrap() as z.ZodType) : schema,
      value: outcome.data,
    };
  return outcome;
}

/** The value as the schema has it. Throws `invalid_request`, naming every field that does not fit. */
export function validate<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  if (newest !== undefined && newest.value === value && newest.schema === schema) {
    newest = undefined;
    // It came out of this schema.
    return value as z.output<Schema>;
  }
  checkListCounts(schema, value, limitDefinitions.listItemsMax.default);
  const outcome = schema.safeParse(value);
  if (outcome.success) return outcome.data;
  throw invalidFields(fieldErrors(outcome.error));
}

const fieldCharactersMax = 200;

/** The fields that do not fit, up to a limit: a body can have hundreds of thousands. `where` goes before each. */
export function fieldErrors(
  error: z.ZodError,
  where: readonly string[] = [],
  errorsMax: number = limitDefinitions.fieldErrorsMax.default,
): FieldError[] {
  const found: FieldError[] = [];
  for (const issue of error.issues) {
    // Unknown fields are reported where they are, not on the object that holds them.
    const names = issue.code === 'unrecognized_keys' ? issue.keys : [undefined];
    for (const name of names) {
      if (found.length >= errorsMax) return found;
      const path = [...where, ...issue.path, ...(name === undefined ? [] : [name])].join('.');
      found.push({
        field: path.slice(0, fieldCharactersMax),
        message: name === undefined ? messageOf(issue) : 'is not known here',
      });
    }
  }
  return found;
}

/** What a schema says about a field that is not there is about its own insides. */
function messageOf({ code, message }: z.core.$ZodIssue): string {
  return code === 'invalid_type' && message.endsWith('received undefined') ? 'is missing' : message;
}

const namedMax = 5;

/** A refusal that names the fields: the first few in its sentence, all of them in its details. */
export function invalidFields(errors: readonly FieldError[]): StoaError {
  const sentences = errors
    .slice(0, namedMax)
    .map(({ field, message }) =>
      field === '' ? withoutPeriod(message) : `${field}: ${withoutPeriod(message)}`,
    );
  const more = errors.length > namedMax ? `; and ${errors.length - namedMax} more` : '';
  return new StoaError('invalid_request', `${sentences.join('; ')}${more}.`, { details: { errors } });
}

/** Messages are sentences or parts of one; joined they end once. */
function withoutPeriod(message: string): string {
  return message.endsWith('.') ? message.slice(0, -1) : message;
}
