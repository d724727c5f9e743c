/**
 * Checks the percent-encoding of URLs: the decoded bytes must be UTF-8, or two texts would become the same.
 */
import { StoaError } from '../../core/errors.js';
import { type FieldError, invalidFields } from '../../core/validation/validate.js';

const reason = 'is not percent-encoded UTF-8; write "%" as %25';
const shownCharactersMax = 100;

/**
 * The query parameters of a URL that are not valid text, up to `errorsMax`. The router would leave them
 * undecoded.
 */
export function encodingErrors(url: string, errorsMax: number): FieldError[] {
  const at = url.indexOf('?');
  if (at < 0 || !url.includes('%', at)) return [];
  const wrong = url
    .slice(at + 1)
    .split('&')
    .filter((pair) => !isEncodedText(pair));
  return wrong
    .slice(0, errorsMax)
    .map((pair) => ({ field: `query.${shown(pair.split('=', 1)[0] ?? '')}`, message: reason }));
}

/** The error for a URL that the router could not decode. It names the invalid segments. */
export function badPath(url: string, cause: unknown): StoaError {
  const segments = (url.split('?', 1)[0] ?? '').split('/').filter((segment) => !isEncodedText(segment));
  const { message, details } = invalidFields(
    segments.map((segment) => ({ field: 'path', message: `the segment "${shown(segment)}" ${reason}` })),
  );
  return new StoaError('invalid_request', message, {
    cause,
    ...(details !== undefined && { details }),
    fix: 'Write "%" as %25.',
  });
}

function isEncodedText(part: string): boolean {
  if (!part.includes('%')) return true;
  try {
    // The result is used, because bundlers would remove the call alone as having no effect.
    return decodeURIComponent(part) !== '';
  } catch {
    // decodeURIComponent throws only for an invalid encoding.
    return false;
  }
}

function shown(text: string): string {
  return text.slice(0, shownCharactersMax);
}
