/** Limits on the fields of a request. The error names the field, the limit and the number received. */
import type { StoaError } from '../errors.js';
import { exceeds, limitError } from './exceeds.js';
import type { LimitName, Limits } from './limits.js';

/** A character is a code point: the same number on every backend. */
export function checkCharacters(
  field: string,
  text: string | undefined,
  limit: LimitName,
  limits: Limits,
): void {
  // A text never has more code points than UTF-16 units.
  if (text === undefined || text.length <= limits[limit]) return;
  checkCount(field, [...text].length, 'characters', limit, limits);
}

export function checkBytes(field: string, text: string | undefined, limit: LimitName, limits: Limits): void {
  if (text !== undefined) checkCount(field, Buffer.byteLength(text), 'bytes', limit, limits);
}

export function checkCount(
  field: string,
  received: number | undefined,
  unit: string,
  limit: LimitName,
  limits: Limits,
): void {
  if (received !== undefined && received > limits[limit])
    throw fieldTooLarge(field, received, unit, limit, limits);
}

function fieldTooLarge(
  field: string,
  received: number,
  unit: string,
  limit: LimitName,
  limits: Limits,
): StoaError {
  const exceeded = { subject: field, unit, limit, limits, received };
  const message = exceeds({ ...exceeded, subject: '' }).trimStart();
  return limitError('invalid_request', {
    ...exceeded,
    advice: `Send fewer ${unit}`,
    details: { errors: [{ field, message }] },
  });
}
