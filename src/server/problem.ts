/** Errors on the wire: RFC 9457 problem details, made from the one error table. */
import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import { type ErrorCode, StoaError, errorKinds } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';
import type { LimitName, Limits } from '../core/settings/limits.js';
import { type FieldError, fieldErrors, invalidFields } from '../core/validate.js';

export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'A relative link to the code in the reference.' }),
    title: z.string(),
    status: z.int(),
    // errorKinds is not empty, which Object.keys cannot say.
    code: z
      .enum(Object.keys(errorKinds) as [ErrorCode, ...ErrorCode[]])
      .meta({ description: 'Stable, for programs.' }),
    detail: z.string(),
    fix: z.string().optional().meta({ description: 'What the reader can do about it.' }),
    errors: z
      .array(z.object({ field: z.string(), message: z.string() }))
      .optional()
      .meta({ description: 'The fields that are wrong, each with its reason.' }),
    details: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ description: 'Facts for programs: states, limits, positions.' }),
    request_id: z.string(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457 problem details.' });

export type Problem = z.output<typeof problemSchema>;

export function problemOf(error: StoaError, requestId: string): Problem {
  const { errors, ...details } = error.details ?? {};
  return {
    type: `/reference#${error.code}`,
    title: error.title,
    status: error.status,
    code: error.code,
    detail: error.message,
    ...(error.fix === undefined ? {} : { fix: error.fix }),
    // Field errors are put there by invalidFields alone.
    ...(errors === undefined ? {} : { errors: errors as FieldError[] }),
    ...(Object.keys(details).length === 0 ? {} : { details }),
    request_id: requestId,
  };
}

const fastifyCodes: Readonly<Record<string, [code: ErrorCode, detail: string, fix: string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'unsupported_media_type',
    'The Content-Type is not one that this route reads.',
    'Send application/json.',
  ],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'invalid_request',
    'The body does not have the length that Content-Length names.',
    'Let the HTTP client count the bytes.',
  ],
};

export function isBodyTooLarge(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'FST_ERR_CTP_BODY_TOO_LARGE';
}

/** `limit` is the one that the route has for its bodies. */
export function bodyTooLarge(limit: LimitName, limits: Limits): StoaError {
  return limitError('too_large', {
    subject: 'The request body',
    unit: 'bytes',
    limit,
    limits,
    advice: 'Send several smaller requests',
  });
}

/** Anything that was thrown, as one of ours. What nobody foresaw is `internal` and says nothing of its cause. */
export function stoaErrorOf(thrown: unknown): StoaError {
  if (thrown instanceof StoaError) return thrown;
  if (thrown instanceof z.ZodError) return invalidFields(fieldErrors(thrown));
  const { code, statusCode } = (typeof thrown === 'object' && thrown !== null ? thrown : {}) as {
    code?: unknown;
    statusCode?: unknown;
  };
  const known = typeof code === 'string' ? fastifyCodes[code] : undefined;
  if (known !== undefined) return new StoaError(known[0], known[1], { cause: thrown, fix: known[2] });
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new StoaError(
      'invalid_request',
      `The request could not be read (${STATUS_CODES[statusCode] ?? statusCode}).`,
      { cause: thrown },
    );
  }
  return new StoaError(
    'internal',
    'Something went wrong inside the server; its log has the details under this request id.',
    { cause: thrown },
  );
}
