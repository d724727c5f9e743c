/** Checks the path, query, headers and body of a request against the schemas of its route. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { type FieldError, check, fieldErrors } from '../../core/validation/validate.js';
import { parseJsonBody } from './json-body.js';
import { type Route } from '../route.js';

/** For routes without a query: every parameter is unknown. */
export const emptyQuery = z.strictObject({});

export function checked(
  schema: z.ZodType | undefined,
  value: unknown,
  where: string,
  errors: FieldError[],
  errorsMax: number,
  listItemsMax?: number,
): unknown {
  if (schema === undefined) return undefined;
  const result = check(schema, value, listItemsMax);
  if (result.success) return result.data;
  errors.push(...fieldErrors(result.error, [where], errorsMax - errors.length));
  return undefined;
}

export function checkedBody(
  route: Route,
  accepted: readonly string[],
  request: FastifyRequest,
  rawBody: Buffer,
  limits: Limits,
  errors: FieldError[],
): unknown {
  const { fieldErrorsMax, listItemsMax } = limits;
  if (rawBody.length === 0)
    return route.body === undefined
      ? undefined
      : checked(route.body, undefined, 'body', errors, fieldErrorsMax);
  requireContentType(request, accepted);
  const value = parseJsonBody(rawBody, limits);
  if (route.body !== undefined)
    return checked(route.body, value, 'body', errors, fieldErrorsMax, listItemsMax);
  const isEmpty = typeof value === 'object' && value !== null && Object.keys(value).length === 0;
  if (!isEmpty)
    throw new StoaError('invalid_request', 'The request has a body, which this route does not accept.', {
      fix: 'Send no body.',
    });
  return undefined;
}

function requireContentType(request: FastifyRequest, accepted: readonly string[]): void {
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new StoaError(
      'unsupported_media_type',
      `The Content-Encoding "${encoding.slice(0, 100)}" is not supported.`,
      { fix: 'Send the body without encoding.' },
    );
  }
  const given = request.headers['content-type'];
  // Nearly all clients send exactly this.
  if (given !== undefined && accepted.includes(given)) return;
  const mediaType = given?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (accepted.includes(mediaType)) return;
  throw new StoaError(
    'unsupported_media_type',
    given === undefined
      ? 'The request has a body but no Content-Type header.'
      : `The Content-Type "${mediaType.slice(0, 100)}" is not supported by this route.`,
    { fix: `Send ${accepted.join(' or ')}.` },
  );
}
