/**
 * Answers under an Idempotency-Key: written in the transaction of the request, and counted in the bytes of
 * the user.
 */
import { type Idempotency, checkAnswerBytes } from '../../core/idempotency/idempotency.js';
import { checkQuota, hasQuota } from '../../datastore/quota.js';
import { type AnswerKept, repeatedAnswer } from '../../core/idempotency/kept-answer.js';
import { blake3 } from '../../core/ids/blake3.js';
import { kernelFamilies as families } from './kernel/families.js';
import type { TimerHandler } from './kernel/timers/sweeper.js';
import type { Reader, Transaction } from './kernel/transaction.js';
import type { Limits } from '../../core/settings/limits.js';
import { readUsage } from './datastore/rows.js';

interface KeptAnswer extends AnswerKept {
  expiresAtMs: number;
  /** The user whose bytes it counts for, in hex. */
  user: string;
}

export const keptAnswerTimer = 'kept-answer';

/** The answer stored under the key, or undefined. Throws if the key was used with a different request. */
export function findAnswer(
  reader: Reader,
  idempotency: Idempotency | null | undefined,
  nowMs: number,
): unknown[] | undefined {
  if (idempotency === null || idempotency === undefined) return undefined;
  const stored = reader.get(families.idempotency, rowKey(idempotency));
  if (stored === undefined) return undefined;
  const kept = JSON.parse(stored.toString()) as KeptAnswer;
  return kept.expiresAtMs <= nowMs ? undefined : repeatedAnswer(kept, idempotency);
}

/**
 * Stores the answer. Throws if the answer is too large or exceeds the quota, which undoes the whole write.
 */
export function keepAnswer(
  tx: Transaction,
  user: Buffer,
  idempotency: Idempotency,
  results: readonly unknown[],
  limits: Limits,
): void {
  put(
    tx,
    user,
    idempotency,
    idempotency.holdsSecret === true ? { withheld: 'secret' } : { results: [...results] },
    limits,
  );
}

/** Records the start of a request whose effects are in a store beside the home. */
export function keepStart(tx: Transaction, user: Buffer, idempotency: Idempotency, limits: Limits): void {
  put(tx, user, idempotency, { withheld: 'unknown' }, limits);
}

/**
 * Stores the answer to a request that a store has carried out. The write cannot be undone, so of a large answer only
 * the fact is stored, and no quota refuses it.
 */
export function keepEnd(
  tx: Transaction,
  user: Buffer,
  idempotency: Idempotency,
  results: readonly unknown[],
  limits: Limits,
): void {
  const whole = { results: [...results] };
  const isLarge = encoded(tx, user, idempotency, whole).length > limits.idempotencyAnswerBytesMax;
  put(tx, user, idempotency, isLarge ? { withheld: 'size' } : whole);
}

/** Removes the answer. The key is free again. */
export function dropAnswer(tx: Transaction, user: Buffer, idempotency: Idempotency): void {
  const key = rowKey(idempotency);
  const stored = tx.get(families.idempotency, key);
  if (stored === undefined) return;
  const { expiresAtMs } = JSON.parse(stored.toString()) as KeptAnswer;
  tx.delete(families.idempotency, key);
  tx.unschedule({ atMs: expiresAtMs, kind: keptAnswerTimer, reference: key });
  putKeptBytes(tx, user, Math.max(0, keptBytes(tx, user) - stored.length));
}

function put(
  tx: Transaction,
  user: Buffer,
  idempotency: Idempotency,
  answer: Pick<KeptAnswer, 'results' | 'withheld'>,
  /** Checked if they are given. */
  limits?: Limits,
): void {
  const value = encoded(tx, user, idempotency, answer);
  if (limits !== undefined) checkAnswerBytes(value.length, limits);
  const key = rowKey(idempotency);
  const bytesBefore = keptBytes(tx, user);
  const replaced = tx.get(families.idempotency, key)?.length ?? 0;
  const bytes = bytesBefore - replaced + value.length;
  if (limits !== undefined && hasQuota(limits)) {
    const usage = readUsage(tx, user);
    checkQuota(
      { ...usage, sizeBytes: usage.sizeBytes + bytesBefore },
      { ...usage, sizeBytes: usage.sizeBytes + bytes },
      limits,
    );
  }
  putKeptBytes(tx, user, bytes);
  tx.put(families.idempotency, key, value);
  tx.schedule({ atMs: expiryOf(tx, idempotency), kind: keptAnswerTimer, reference: key });
}

function encoded(
  tx: Transaction,
  user: Buffer,
  idempotency: Idempotency,
  answer: Pick<KeptAnswer, 'results' | 'withheld'>,
): Buffer {
  const kept: KeptAnswer = {
    fingerprint: idempotency.fingerprint,
    expiresAtMs: expiryOf(tx, idempotency),
    user: user.toString('hex'),
    ...answer,
  };
  return Buffer.from(JSON.stringify(kept));
}

function expiryOf({ nowMs }: Transaction, { seconds }: Idempotency): number {
  return nowMs + seconds * 1_000;
}

/** Removes an answer whose time is over. */
export const forgetAnswer: TimerHandler = (tx, reference) => {
  const stored = tx.get(families.idempotency, reference);
  if (stored === undefined) return;
  const kept = JSON.parse(stored.toString()) as KeptAnswer;
  if (kept.expiresAtMs > tx.nowMs) return;
  tx.delete(families.idempotency, reference);
  const user = Buffer.from(kept.user, 'hex');
  putKeptBytes(tx, user, Math.max(0, keptBytes(tx, user) - stored.length));
};

/** Bytes of all answers that are stored for a user. */
export function keptBytes(reader: Reader, user: Buffer): number {
  const stored = reader.get(families.idempotencyBytes, user);
  return stored === undefined ? 0 : Number(stored.readBigUInt64BE());
}

export function putKeptBytes(tx: Transaction, user: Buffer, bytes: number): void {
  if (bytes === 0) {
    tx.delete(families.idempotencyBytes, user);
    return;
  }
  const value = Buffer.alloc(8);
  value.writeBigUInt64BE(BigInt(bytes));
  tx.put(families.idempotencyBytes, user, value);
}

function rowKey({ scope, key }: Idempotency): Buffer {
  return blake3(Buffer.from(JSON.stringify([scope, key])));
}
