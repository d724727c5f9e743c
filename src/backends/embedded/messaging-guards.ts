/** Nonces in the embedded store: each accepted once, remembered over a restart, forgotten by the bucket. */
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../limits.js';
import { uuidBytes } from '../../messaging/uuid.js';
import { expiryTimers } from './messaging-retention-timers.js';
import { families, nothing } from './messaging-rows.js';
import { prefixRange } from '../../kernel/engine.js';

/** Nonces dropped in one step of the sweeper. */
const noncesPerStep = 1_000;
/** A nonce's life spans at most this many buckets beside the current one. */
const bucketsBack = 2;

/**
 * Buckets of half a nonce's life: dropping whole buckets needs no timer for each nonce, and a
 * lookup is three reads.
 */
function bucketMs(limits: Limits): number {
  return (limits.nonceSeconds * 1000) / bucketsBack;
}

function nonceKey(bucket: number, agentId: string, nonce: string): Buffer {
  const prefix = bucketKey(bucket);
  return Buffer.concat([prefix, uuidBytes(agentId), Buffer.from(nonce)]);
}

function bucketKey(bucket: number): Buffer {
  const key = Buffer.allocUnsafe(6);
  key.writeUIntBE(bucket, 0, 6);
  return key;
}

export function isNonceUsed(reader: Reader, limits: Limits, agentId: string, nonce: string, nowMs: number): boolean {
  const current = Math.floor(nowMs / bucketMs(limits));
  for (let back = 0; back <= bucketsBack; back += 1) {
    if (reader.get(families.nonces, nonceKey(current - back, agentId, nonce)) !== undefined) return true;
  }
  return false;
}

/** False when it was there already. */
export function insertNonce(tx: Transaction, limits: Limits, agentId: string, nonce: string): boolean {
  if (isNonceUsed(tx, limits, agentId, nonce, tx.nowMs)) return false;
  const bucket = Math.floor(tx.nowMs / bucketMs(limits));
  tx.put(families.nonces, nonceKey(bucket, agentId, nonce), nothing);
  tx.schedule({ atMs: (bucket + bucketsBack + 1) * bucketMs(limits), kind: expiryTimers.nonces, reference: bucketKey(bucket) });
  return true;
}

export function dropNonces(tx: Transaction, bucket: Buffer): void {
  const due = Array.from(tx.range(families.nonces, { ...prefixRange(bucket), limit: noncesPerStep }), ({ key }) => key);
  for (const key of due) tx.delete(families.nonces, key);
  if (due.length === noncesPerStep) tx.schedule({ atMs: tx.nowMs, kind: expiryTimers.nonces, reference: bucket });
}
