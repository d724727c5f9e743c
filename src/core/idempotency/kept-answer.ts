/** What a repeat under an Idempotency-Key gets: the answer that was kept, or why there is none. */
import { StoaError } from '../errors.js';
import type { Idempotency } from './idempotency.js';

/**
 * The answer contains a secret, is too large, or it is unknown whether a store beside the home did the write.
 */
export type Withheld = 'secret' | 'size' | 'unknown';

export interface AnswerKept {
  fingerprint: string;
  /** Missing if only the fact is stored that the request was carried out. */
  results?: unknown[];
  /** Why the answer itself is not stored. */
  withheld?: Withheld;
}

const refusals: Readonly<Record<Withheld, { message: string; fix: string }>> = {
  secret: {
    message:
      'The request with this Idempotency-Key was carried out before. Its answer contained a secret and was not stored.',
    fix: 'List the existing records. If the secret is lost, create a new one with a new Idempotency-Key.',
  },
  size: {
    message:
      'The request with this Idempotency-Key was carried out before. Its answer was too large to store.',
    fix: 'Read the records that the request wrote.',
  },
  unknown: {
    message:
      'The request with this Idempotency-Key was started before but did not finish, because the server stopped or the database failed. It is unknown whether it was carried out.',
    fix: 'Read the current state, and send the missing changes with a new Idempotency-Key.',
  },
};

/**
 * The results of the first request. Throws if the key was used with another request, or if only the fact is
 * kept.
 */
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
