/** Answers under an Idempotency-Key in PostgreSQL: written by the transaction that they answer. */
import { type PostgresSql, type Queryable, query } from './connection.js';
import { migrate } from './migrate.js';
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency.js';
import { StoaError } from '../../core/errors.js';
import { hasQuota } from '../../datastore/quota.js';
import { checkAnswerQuota } from './datastore/usage.js';
import type { Work } from './work.js';

const answerTables = `
  CREATE TABLE kept_answers (
    -- Whose bytes the answer counts as.
    user_id text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    -- Null where the answer holds a secret: only the fact is kept.
    results json,
    size_bytes integer NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, key)
  );
  CREATE INDEX kept_answers_expiry ON kept_answers (expires_at)`;

export function migrateAnswers(sql: PostgresSql): Promise<void> {
  return migrate(sql, 'answers', [answerTables]);
}

/** Two requests with one key wait for each other here. */
export async function lockAnswer(
  work: Work,
  { user }: Caller,
  idempotency: Idempotency | null | undefined,
): Promise<void> {
  if (idempotency === null || idempotency === undefined) return;
  await work.rows('SELECT pg_advisory_xact_lock(hashtextextended($1, 7))', [
    `${user}\n${keyOf(idempotency)}`,
  ]);
}

/** What was answered under the key before, or undefined. Throws where the key came with another request. */
export async function findAnswer(
  sql: Queryable,
  { user }: Caller,
  idempotency: Idempotency | null | undefined,
): Promise<unknown[] | undefined> {
  if (idempotency === null || idempotency === undefined) return undefined;
  const [kept] = await query<{ fingerprint: string; results: string | null }>(
    sql,
    'SELECT fingerprint, results FROM kept_answers WHERE user_id = $1 AND key = $2 AND expires_at > clock_timestamp()',
    [user, keyOf(idempotency)],
  );
  if (kept === undefined) return undefined;
  if (kept.fingerprint !== idempotency.fingerprint)
    throw new StoaError(
      'idempotency_mismatch',
      'The Idempotency-Key was used before with a different request.',
      { fix: 'Use a new key for a new request.' },
    );
  if (kept.results === null)
    throw new StoaError(
      'idempotency_unrepeatable',
      'The request with this Idempotency-Key was carried out before. Its answer held a secret and was not kept.',
      { fix: 'List what exists. If the secret is lost, create it again with a new key.' },
    );
  // `keepAnswer` wrote it.
  return JSON.parse(kept.results) as unknown[];
}

/** Keeps the answer. Throws, and so takes the whole write back, where the answer is too large or over the quota. */
export async function keepAnswer(
  work: Work,
  caller: Caller,
  idempotency: Idempotency | null | undefined,
  results: readonly unknown[],
): Promise<void> {
  if (idempotency === null || idempotency === undefined) return;
  const text = idempotency.holdsSecret === true ? null : JSON.stringify(results);
  const sizeBytes = Buffer.byteLength(text ?? '');
  const { idempotencyAnswerBytesMax } = work.limits;
  if (sizeBytes > idempotencyAnswerBytesMax)
    throw new StoaError(
      'too_large',
      `The answer to this request has ${sizeBytes} bytes. An answer kept under an Idempotency-Key can have ${idempotencyAnswerBytesMax} (idempotencyAnswerBytesMax). Nothing was written.`,
      {
        fix: 'Send the request without the Idempotency-Key, or split it.',
        details: { idempotencyAnswerBytesMax },
      },
    );
  if (hasQuota(work.limits)) await checkAnswerQuota(work, caller.user, sizeBytes);
  await work.rows(
    `INSERT INTO kept_answers (user_id, key, fingerprint, results, size_bytes, expires_at)
      VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 second')
      ON CONFLICT (user_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
        results = excluded.results, size_bytes = excluded.size_bytes, expires_at = excluded.expires_at`,
    [caller.user, keyOf(idempotency), idempotency.fingerprint, text, sizeBytes, idempotency.seconds],
  );
}

function keyOf({ scope, key }: Idempotency): string {
  return JSON.stringify([scope, key]);
}
