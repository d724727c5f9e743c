/**
 * All rows of a write are locked first, in one order for all writes: two of them never wait for each other in
 * a ring.
 */
import { createHash } from 'node:crypto';
import type { TransactionSql } from 'postgres';
import { query } from './connection.js';
import type { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';

/** Names share this many locks: a database holds a few thousand for all its connections. */
const lockBuckets = 4_096;

/** A row that does not exist cannot be locked, so names are locked, whether the row exists or not. */
export async function lockRows(work: Work, steps: readonly PostgresStep<unknown>[]): Promise<void> {
  const names = steps.flatMap(({ locks }) => locks.map(({ table, key }) => `${table} ${key}`));
  const buckets = [...new Set(names.map(bucketOf))].toSorted((a, b) => a - b);
  if (buckets.length === 0) return;
  await work.rows(
    "SELECT pg_advisory_xact_lock(hashtext('stoa_write'), bucket) FROM unnest($1::int[]) AS bucket",
    [buckets.map(String)],
  );
}

/** Holds the sums of what a user has until the transaction ends. */
export async function lockUser(tx: TransactionSql, user: string): Promise<void> {
  await query(tx, 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [user]);
}

function bucketOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) % lockBuckets;
}
