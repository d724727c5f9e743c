/** Converts an error answer into the error that the server threw. No Node built-ins. */
import { type ErrorCode, StoaError, errorKinds } from '../../core/errors.js';

export function refusalOf(status: number, text: string, retryAfterSeconds?: number): StoaError {
  const problem = problemIn(text);
  const { code, title, fix, errors } = problem;
  const known =
    typeof code === 'string' && Object.hasOwn(errorKinds, code) ? (code as ErrorCode) : codeOfStatus(status);
  // The messaging routes have another format, with the sentence in `error`.
  const sentence = [problem['detail'], problem['error'], title].find((words) => typeof words === 'string');
  const details = {
    ...(typeof problem['details'] === 'object' && problem['details']),
    ...(Array.isArray(errors) && { errors }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
  return new StoaError(known, sentence ?? `The server answered ${status}.`, {
    ...(typeof fix === 'string' && { fix }),
    ...(Object.keys(details).length > 0 && { details }),
  });
}

function problemIn(text: string): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? { ...body } : {};
  } catch {
    // Something between the client and the server answered, such as a proxy.
    return {};
  }
}

/** For answers that Stoa did not write, such as a proxy's. */
function codeOfStatus(status: number): ErrorCode {
  const codes: Record<number, ErrorCode> = {
    401: 'unauthenticated',
    403: 'forbidden',
    404: 'not_found',
    409: 'conflict',
    412: 'version_conflict',
    413: 'too_large',
    429: 'rate_limited',
  };
  return codes[status] ?? (status >= 500 ? 'unreachable' : 'invalid_request');
}
