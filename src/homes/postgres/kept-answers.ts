/** Answers under an Idempotency-Key in PostgreSQL: written by the transaction that they answer. */
import { type PostgresSql, type Queryable, query } from './connection.js';
import { migrate } from './migrate.js';
import type { Caller } from '../../core/caller.js';
import { type Idempotency, checkAnswerBytes } from '../../core/idempotency.js';
import { type Usage, checkQuota, hasQuota } from '../../datastore/quota.js';
import { StoaError } from '../../core/errors.js';
import { lockUser } from './locks.js';
import type { Work } from './work.js';

const answerTables = `
  CREATE TABLE kept_answers (
    key text PRIMARY KEY,
    -- Whose bytes the answer counts as.
    user_id text NOT NULL,
    fingerprint text NOT NULL,
    -- Null where the answer holds a secret: only the fact is kept.
    results json,
    size_bytes integer NOT NULL,
    expires_at timestamptz NOT NULL
  );
  CREATE INDEX kept_answers_expiry ON kept_answers (expires_at);
  CREATE INDEX kept_answers_user ON kept_answers (user_id)`;

export function migrateAnswers(sql: PostgresSql): Promise<void> {
  return migrate(sql, 'answers', [answerTables]);
}

/** Two requests with one key wait for each other here. */
export async function lockAnswer(work: Work, idempotency: Idempotency | null | undefined): Promise<void> {
  if (idempotency === null || idempotency === undefined) return;
  await work.rows('SELECT pg_advisory_xact_lock(hashtextextended($1, 7))', [keyOf(idempotency)]);
}

/** What was answered under the key before, or undefined. Throws where the key came with another request. */
export async function findAnswer(
  sql: Queryable,
  idempotency: Idempotency | null | undefined,
): Promise<unknown[] | undefined> {
  if (idempotency === null || idempotency === undefined) return undefined;
  const [kept] = await query<{ fingerprint: string; results: string | null }>(
    sql,
    'SELECT fingerprint, results FROM kept_answers WHERE key = $1 AND expires_at > clock_timestamp()',
    [keyOf(idempotency)],
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

/** What a user has in documents. */
export type DocumentsOf = (sql: Queryable, user: string) => Promise<Usage>;

/** Documents that are kept elsewhere are counted there, without the answers here. */
const documentsElsewhere: DocumentsOf = async () => ({ documents: 0, sizeBytes: 0, namespaces: 0 });

/** Keeps the answer. Throws, and so takes the whole write back, where the answer is too large or over the quota. */
export async function keepAnswer(
  work: Work,
  caller: Caller,
  idempotency: Idempotency | null | undefined,
  results: readonly unknown[],
  documentsOf?: DocumentsOf,
): Promise<void> {
  if (idempotency === null || idempotency === undefined) return;
  const text = idempotency.holdsSecret === true ? null : JSON.stringify(results);
  const sizeBytes = Buffer.byteLength(text ?? '');
  checkAnswerBytes(sizeBytes, work.limits);
  await checkAnswerQuota(work, caller.user, sizeBytes, documentsOf);
  await work.rows(
    `INSERT INTO kept_answers (key, user_id, fingerprint, results, size_bytes, expires_at)
      VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 second')
      ON CONFLICT (key) DO UPDATE SET user_id = excluded.user_id, fingerprint = excluded.fingerprint,
        results = excluded.results, size_bytes = excluded.size_bytes, expires_at = excluded.expires_at`,
    [keyOf(idempotency), caller.user, idempotency.fingerprint, text, sizeBytes, idempotency.seconds],
  );
}

async function checkAnswerQuota(
  { sql: tx, limits }: Work,
  user: string,
  sizeBytes: number,
  documentsOf: DocumentsOf = documentsElsewhere,
): Promise<void> {
  if (!hasQuota(limits)) return;
  await lockUser(tx, user);
  const before = await wholeUsage(tx, user, documentsOf);
  checkQuota(before, { ...before, sizeBytes: before.sizeBytes + sizeBytes }, limits);
}

/** Documents and kept answers of a user. */
export async function wholeUsage(sql: Queryable, user: string, documentsOf: DocumentsOf): Promise<Usage> {
  const documents = await documentsOf(sql, user);
  return { ...documents, sizeBytes: documents.sizeBytes + (await keptBytes(sql, user)) };
}

/** Bytes of all answers that are kept for a user. */
async function keptBytes(sql: Queryable, user: string): Promise<number> {
  const [kept] = await query<{ bytes: string }>(
    sql,
    'SELECT coalesce(sum(size_bytes), 0) AS bytes FROM kept_answers WHERE user_id = $1 AND expires_at > clock_timestamp()',
    [user],
  );
  return Number(kept?.bytes ?? 0);
}

/** Removes answers whose time is over, so many at a time. */
export async function forgetAnswers(sql: Queryable, limit: number): Promise<void> {
  await query(
    sql,
    'DELETE FROM kept_answers WHERE key IN (SELECT key FROM kept_answers WHERE expires_at <= clock_timestamp() LIMIT $1 FOR UPDATE SKIP LOCKED)',
    [limit],
  );
}

function keyOf({ scope, key }: Idempotency): string {
  return JSON.stringify([scope, key]);
}
