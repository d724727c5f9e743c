/** Answers under an Idempotency-Key: written by the transaction that they answer, counted in their user's bytes. */
import type { Idempotency } from '../../core/idempotency.js';
import { checkQuota } from '../../datastore/quota.js';
import { StoaError } from '../../errors.js';
import { blake3 } from '../../kernel/blake3.js';
import { kernelFamilies as families } from '../../kernel/families.js';
import type { TimerHandler } from '../../kernel/sweeper.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../limits.js';
import { readUsage } from '../../backends/embedded/datastore-rows.js';

export interface KeptAnswer {
  fingerprint: string;
  expiresAtMs: number;
  /** Whose bytes it counts as, in hex. */
  user: string;
  /** Missing where the answer holds a secret: only the fact is kept. */
  results?: unknown[];
}

export const keptAnswerTimer = 'kept-answer';

/** What was answered under the key before, or undefined. Throws where the key came with another request. */
export function findAnswer(
  reader: Reader,
  idempotency: Idempotency | null | undefined,
  nowMs: number,
): unknown[] | undefined {
  if (idempotency === null || idempotency === undefined) return undefined;
  const stored = reader.get(families.idempotency, rowKey(idempotency));
  if (stored === undefined) return undefined;
  const kept = JSON.parse(stored.toString()) as KeptAnswer;
  if (kept.expiresAtMs <= nowMs) return undefined;
  if (kept.fingerprint !== idempotency.fingerprint)
    throw new StoaError(
      'idempotency_mismatch',
      'The Idempotency-Key was used before with a different request.',
      { fix: 'Use a new key for a new request.' },
    );
  if (kept.results === undefined)
    throw new StoaError(
      'idempotency_unrepeatable',
      'The request with this Idempotency-Key was carried out before. Its answer held a secret and was not kept.',
      { fix: 'List what exists. If the secret is lost, create it again with a new key.' },
    );
  return kept.results;
}

/** Keeps the answer. Throws, and so takes the whole write back, where the answer is too large or over the quota. */
export function keepAnswer(
  tx: Transaction,
  user: Buffer,
  idempotency: Idempotency,
  results: readonly unknown[],
  limits: Limits,
): void {
  const expiresAtMs = tx.nowMs + idempotency.seconds * 1_000;
  const kept: KeptAnswer = {
    fingerprint: idempotency.fingerprint,
    expiresAtMs,
    user: user.toString('hex'),
    ...(idempotency.holdsSecret !== true && { results: [...results] }),
  };
  const value = Buffer.from(JSON.stringify(kept));
  checkAnswerBytes(value.length, limits);
  const key = rowKey(idempotency);
  const bytesBefore = keptBytes(tx, user);
  const replaced = tx.get(families.idempotency, key)?.length ?? 0;
  const bytes = bytesBefore - replaced + value.length;
  const usage = readUsage(tx, user);
  checkQuota(
    { ...usage, sizeBytes: usage.sizeBytes + bytesBefore },
    { ...usage, sizeBytes: usage.sizeBytes + bytes },
    limits,
  );
  putKeptBytes(tx, user, bytes);
  tx.put(families.idempotency, key, value);
  tx.schedule({ atMs: expiresAtMs, kind: keptAnswerTimer, reference: key });
}

function checkAnswerBytes(bytes: number, { idempotencyAnswerBytesMax }: Limits): void {
  if (bytes <= idempotencyAnswerBytesMax) return;
  throw new StoaError(
    'too_large',
    `The answer to this request has ${bytes} bytes. An answer kept under an Idempotency-Key can have ${idempotencyAnswerBytesMax} (idempotencyAnswerBytesMax). Nothing was written.`,
    {
      fix: 'Send the request without the Idempotency-Key, or split it.',
      details: { idempotencyAnswerBytesMax },
    },
  );
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

/** Bytes of all answers that are kept for a user. */
export function keptBytes(reader: Reader, user: Buffer): number {
  const stored = reader.get(families.idempotencyBytes, user);
  return stored === undefined ? 0 : Number(stored.readBigUInt64BE());
}

function putKeptBytes(tx: Transaction, user: Buffer, bytes: number): void {
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
