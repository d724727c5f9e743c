/** Errors in the response: RFC 9457 problem details, made from the error table. */
import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import { type ErrorCode, StoaError, errorKinds } from '../../core/errors.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { LimitName, Limits } from '../../core/settings/limits.js';
import { type FieldError, fieldErrors, invalidFields } from '../../core/validation/validate.js';

export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'A relative link to the code in the reference.' }),
    title: z.string(),
    status: z.int(),
    // errorKinds is not empty, which the type of Object.keys does not say.
    code: z
      .enum(Object.keys(errorKinds) as [ErrorCode, ...ErrorCode[]])
      .meta({ description: 'A stable code for programs.' }),
    detail: z.string(),
    fix: z.string().optional().meta({ description: 'What the reader can do about it.' }),
    errors: z
      .array(z.object({ field: z.string(), message: z.string() }))
      .optional()
      .meta({ description: 'The invalid fields, each with its reason.' }),
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
    // Only invalidFields sets these errors.
    ...(errors === undefined ? {} : { errors: errors as FieldError[] }),
    ...(Object.keys(details).length === 0 ? {} : { details }),
    request_id: requestId,
  };
}

const fastifyCodes: Readonly<Record<string, [code: ErrorCode, detail: string, fix: string]>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'unsupported_media_type',
    'The Content-Type is not supported by this route.',
    'Send application/json.',
  ],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'invalid_request',
    'The length of the body is not the one in Content-Length.',
    'Let the HTTP client count the bytes.',
  ],
};

export function isBodyTooLarge(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'FST_ERR_CTP_BODY_TOO_LARGE';
}

/** `limit` is the body limit of the route. */
export function bodyTooLarge(limit: LimitName, limits: Limits): StoaError {
  return limitError('too_large', {
    subject: 'The request body',
    unit: 'bytes',
    limit,
    limits,
    advice: 'Send several smaller requests',
  });
}

/**
 * Any thrown value as a StoaError. An unexpected one becomes `internal`, without its cause in the sentence.
 */
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
