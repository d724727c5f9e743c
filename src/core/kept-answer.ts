/** What a repeat under an Idempotency-Key gets: the answer that was kept, or why there is none. */
import { StoaError } from './errors.js';
import type { Idempotency } from './idempotency.js';

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
