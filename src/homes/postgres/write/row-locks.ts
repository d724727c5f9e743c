/** A write of several steps locks all its rows first, in one order for all writes: they never deadlock. */
import { createHash } from 'node:crypto';
import type { TransactionSql } from 'postgres';
import { lockKeySql, lockNumber } from '../database/advisory-locks.js';
import { query } from '../database/connection.js';
import type { PostgresStep } from './step.js';
import type { Work } from './work.js';

/** Names share this many locks, because a database has room for a few thousand in all. */
const lockBuckets = 4_096;

/** A row that does not exist cannot be locked, so names are locked, whether the row exists or not. */
export async function lockRows(work: Work, steps: readonly PostgresStep<unknown>[]): Promise<void> {
  const names = steps.flatMap(({ locks }) => locks.map(({ table, key }) => `${table} ${key}`));
  const buckets = [...new Set(names.map(bucketOf))].toSorted((a, b) => a - b);
  if (buckets.length === 0) return;
  await work.rows(
    `SELECT pg_advisory_xact_lock(${lockNumber('writeBucket')}, bucket) FROM unnest($1::int[]) AS bucket`,
    [buckets.map(String)],
  );
}

/** Keeps other writes from changing the sums of a user until the transaction ends. */
export async function lockUser(tx: TransactionSql, user: string): Promise<void> {
  await query(tx, lockKeySql('userSums'), [user]);
}

function bucketOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) % lockBuckets;
}
