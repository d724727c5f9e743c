/** A write of several steps locks all its rows first, in one order for all writes: they never deadlock. */
import { createHash } from 'node:crypto';
import type { TransactionSql } from 'postgres';
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import { lockKeySql, lockNumber } from '../database/advisory-locks.js';
import { query } from '../database/connection.js';
import type { PostgresStep, RowName } from './step.js';
import type { Work } from './work.js';

/** Names share this many locks, because a database has room for a few thousand in all. */
const lockBuckets = 4_096;

/**
 * A row that does not exist cannot be locked, so names are locked, whether the row exists or not. Steps that
 * can read ahead do so in the order of their names, in the same round trip.
 */
export function lockRows(work: Work, steps: readonly PostgresStep<unknown>[]): void {
  const uses = new Map<string, number>();
  for (const { locks } of steps)
    for (const name of new Set(locks.map(nameOf))) uses.set(name, (uses.get(name) ?? 0) + 1);
  const buckets = [...new Set([...uses.keys()].map(bucketOf))].toSorted((a, b) => a - b);
  if (buckets.length === 0) return;
  work.send(
    `SELECT pg_advisory_xact_lock(${lockNumber('writeBucket')}, bucket) FROM unnest($1::int[]) AS bucket`,
    [buckets.map(String)],
  );
  const named = steps.map((step) => ({ step, names: step.locks.map(nameOf).toSorted(compareCodePoints) }));
  for (const { step, names } of named.toSorted((a, b) =>
    compareCodePoints(a.names[0] ?? '', b.names[0] ?? ''),
  ))
    if (names.every((name) => uses.get(name) === 1)) step.readAhead?.(work);
}

/** Whether two of the steps, or one of them twice, name the same row. */
export function hasSharedRows(steps: readonly PostgresStep<unknown>[]): boolean {
  const names = steps.flatMap(({ locks }) => locks.map(nameOf));
  return new Set(names).size < names.length;
}

function nameOf({ table, key }: RowName): string {
  return `${table} ${key}`;
}

/** Keeps other writes from changing the sums of a user until the transaction ends. */
export async function lockUser(tx: TransactionSql, user: string): Promise<void> {
  await query(tx, lockKeySql('userSums'), [user]);
}

function bucketOf(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) % lockBuckets;
}
