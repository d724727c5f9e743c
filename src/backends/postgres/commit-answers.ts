/** Answers of commits in PostgreSQL, kept in the commit itself for a repeat under the same key. */
import type { TransactionSql } from 'postgres';
import { StoaError } from '../../errors.js';
import type { Idempotency } from '../../core/idempotency.js';
import { type Queryable, query } from './connection.js';

/** Two requests with one key wait for each other here. */
export async function lockAnswer(tx: TransactionSql, idempotency: Idempotency | null): Promise<void> {
  if (idempotency !== null)
    await query(tx, 'SELECT pg_advisory_xact_lock(hashtextextended($1, 7))', [keyOf(idempotency)]);
}

export async function answeredBefore(
  sql: Queryable,
  idempotency: Idempotency | null,
): Promise<unknown[] | undefined> {
  if (idempotency === null) return undefined;
  const [kept] = await query<{ fingerprint: string; results: string }>(
    sql,
    'SELECT fingerprint, results FROM commit_answers WHERE key = $1 AND expires_at > clock_timestamp()',
    [keyOf(idempotency)],
  );
  if (kept === undefined) return undefined;
  if (kept.fingerprint !== idempotency.fingerprint) {
    throw new StoaError(
      'idempotency_mismatch',
      'This Idempotency-Key was used before with another request.',
      { fix: 'Use a new key for a new request.' },
    );
  }
  // `keepAnswer` below wrote it.
  return JSON.parse(kept.results) as unknown[];
}

export async function keepAnswer(
  sql: Queryable,
  idempotency: Idempotency | null,
  results: readonly unknown[],
): Promise<void> {
  if (idempotency === null) return;
  await query(
    sql,
    `INSERT INTO commit_answers (key, fingerprint, results, expires_at) VALUES ($1, $2, $3, clock_timestamp() + $4 * interval '1 second')
      ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, results = excluded.results, expires_at = excluded.expires_at`,
    [keyOf(idempotency), idempotency.fingerprint, JSON.stringify(results), idempotency.seconds],
  );
}

function keyOf({ scope, key }: Idempotency): string {
  return JSON.stringify([scope, key]);
}
