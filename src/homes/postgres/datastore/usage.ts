/** What a user has in all: documents, and answers that are kept for it. */
import { checkQuota, type Usage } from '../../../datastore/quota.js';
import { type Queryable, query } from '../connection.js';
import type { Work } from '../work.js';
import { usageByNamespace } from './counts.js';

/** Refuses to keep an answer that would take its user over the quota of bytes. */
export async function checkAnswerQuota(
  { sql: tx, limits }: Work,
  user: string,
  difference: number,
): Promise<void> {
  await lockUser(tx, user);
  const before = await wholeUsage(tx, user);
  checkQuota(before, { ...before, sizeBytes: before.sizeBytes + difference }, limits);
}

/** Documents and kept answers of a user. */
export async function wholeUsage(tx: Queryable, user: string): Promise<Usage> {
  return withAnswers(usageOf(await usageByNamespace(tx, user)), await keptBytes(tx, user));
}

export function withAnswers(documents: Usage, answerBytes: number): Usage {
  return { ...documents, sizeBytes: documents.sizeBytes + answerBytes };
}

/** Holds the sums of a user's documents until the transaction ends. */
export async function lockUser(tx: Queryable, user: string): Promise<void> {
  await query(tx, 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [user]);
}

export function usageOf(namespaces: Awaited<ReturnType<typeof usageByNamespace>>): Usage {
  return {
    documents: namespaces.reduce((sum, { documents }) => sum + documents, 0),
    sizeBytes: namespaces.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    namespaces: namespaces.length,
  };
}

/** Bytes of all answers that are kept for a user. */
export async function keptBytes(sql: Queryable, user: string): Promise<number> {
  const [kept] = await query<{ bytes: string }>(
    sql,
    'SELECT coalesce(sum(size_bytes), 0) AS bytes FROM kept_answers WHERE user_id = $1 AND expires_at > clock_timestamp()',
    [user],
  );
  return Number(kept?.bytes ?? 0);
}
