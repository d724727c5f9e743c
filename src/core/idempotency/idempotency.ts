/** A request that may be repeated: the same key and the same request get the same answer. */
import { limitError } from '../settings/exceeds.js';
import type { Limits } from '../settings/limits.js';

export interface Idempotency {
  /** Whose key it is. Two callers, or two agents of one user, may use the same key. */
  scope: string;
  key: string;
  /** A hash of method, path and body. */
  fingerprint: string;
  /** How long the answer is kept. */
  seconds: number;
  /** The answer contains a secret: only the fact that it was given is stored, and a repeat is refused. */
  holdsSecret?: true;
}

/** Refuses an answer that is too large to be stored, before anything is written. */
export function checkAnswerBytes(sizeBytes: number, limits: Limits): void {
  if (sizeBytes <= limits.idempotencyAnswerBytesMax) return;
  throw limitError('too_large', {
    subject: 'Nothing was written: the response to store for the Idempotency-Key',
    unit: 'bytes',
    limit: 'idempotencyAnswerBytesMax',
    limits,
    received: sizeBytes,
    advice: 'Send the request without the Idempotency-Key, or split it',
  });
}
