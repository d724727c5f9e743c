/** The percent-encoding of URLs: what it stands for must be UTF-8, or two texts would become one. */
import { StoaError } from '../core/errors.js';
import { type FieldError, invalidFields } from '../core/validate.js';

const reason = 'is not percent-encoded UTF-8; "%" itself is %25';
const shownCharactersMax = 100;

/** The parameters in the query of a URL that stand for no text, up to `errorsMax`. The router would leave them as they were written. */
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

/** For a URL that the router gave up on: which of its segments is to blame. */
export function badPath(url: string, cause: unknown): StoaError {
  const segments = (url.split('?', 1)[0] ?? '').split('/').filter((segment) => !isEncodedText(segment));
  const { message, details } = invalidFields(
    segments.map((segment) => ({ field: 'path', message: `the segment "${shown(segment)}" ${reason}` })),
  );
  return new StoaError('invalid_request', message, {
    cause,
    ...(details !== undefined && { details }),
    fix: 'Write "%" itself as %25.',
  });
}

function isEncodedText(part: string): boolean {
  if (!part.includes('%')) return true;
  try {
    // What it gives is used: bundlers take the call alone for one that does nothing, and leave it out.
    return decodeURIComponent(part) !== '';
  } catch {
    // There is nothing else that it throws for.
    return false;
  }
}

function shown(text: string): string {
  return text.slice(0, shownCharactersMax);
}
