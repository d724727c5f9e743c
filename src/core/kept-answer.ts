/** What a repeat under an Idempotency-Key gets: the answer that was kept, or why there is none. */
import { StoaError } from './errors.js';
import type { Idempotency } from './idempotency.js';
import type { Limits } from './settings/limits.js';

/** It holds a secret, it is too large, or nobody knows whether a store beside the home did what was asked. */
export type Withheld = 'secret' | 'size' | 'unknown';

export interface AnswerKept {
  fingerprint: string;
  /** Missing where only the fact is kept. */
  results?: unknown[];
  /** Why only the fact is kept. */
  withheld?: Withheld;
}

const refusals: Readonly<Record<Withheld, { message: string; fix: string }>> = {
  secret: {
    message:
      'The request with this Idempotency-Key was carried out before. Its answer held a secret and was not kept.',
    fix: 'List what exists. If the secret is lost, create it again with a new key.',
  },
  size: {
    message:
      'The request with this Idempotency-Key was carried out before. Its answer was too large to be kept.',
    fix: 'Read what it wrote.',
  },
  unknown: {
    message:
      'The request with this Idempotency-Key was started before and did not end: the server stopped or the database failed. Whether it was carried out is not known.',
    fix: 'Read what is there, and send what is missing with a new key.',
  },
};

/** The results of the first request. Throws where the key came with another request, or only the fact is kept. */
export function repeatedAnswer(kept: AnswerKept, { fingerprint }: Idempotency): unknown[] {
  if (kept.fingerprint !== fingerprint)
    throw new StoaError(
      'idempotency_mismatch',
      'The Idempotency-Key was used before with a different request.',
      { fix: 'Use a new key for a new request.' },
    );
  if (kept.results !== undefined) return kept.results;
  const { message, fix } = refusals[kept.withheld ?? 'secret'];
  throw new StoaError('idempotency_unrepeatable', message, { fix });
}

/** Refuses a write whose answer is too large to be kept. */
export function checkAnswerBytes(bytes: number, { idempotencyAnswerBytesMax }: Limits): void {
  if (bytes <= idempotencyAnswerBytesMax) return;
  throw new StoaError(
    'too_large',
    `The answer to this request has ${bytes} bytes. An answer kept under an Idempotency-Key can have ${idempotencyAnswerBytesMax} (idempotencyAnswerBytesMax). Nothing was written.`,
    {
      fix: 'Send the request without the Idempotency-Key, or split it.',
      details: { idempotencyAnswerBytesMax },
    },
  );
}
