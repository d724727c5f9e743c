/** Nonces in the embedded store: each accepted once, remembered over a restart, forgotten by the bucket. */
import { prefixRange } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Reader, Timer, Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../limits.js';
import { uuidBytes, uuidOfBytes } from '../../messaging/uuid.js';
import { NonceFilter } from './messaging-nonce-filter.js';
import { expiryTimers } from './messaging-retention-timers.js';
import { families, nothing } from './messaging-rows.js';

/** Nonces dropped in one step of the sweeper. */
const noncesPerStep = 1_000;
/** A nonce's life spans at most this many buckets beside the current one. */
const bucketsBack = 2;
const bucketBytes = 6;
const agentBytes = 16;

/**
 * Buckets of half a nonce's life: dropping whole buckets needs no timer for each nonce. A filter in
 * memory answers for nearly every new nonce that no bucket has it; only a doubt costs reads.
 */
export class Nonces {
  readonly #limits: Limits;
  readonly #filters = new Map<number, NonceFilter>();
  /** Buckets whose timer is on disk. */
  readonly #timed = new Set<number>();

  constructor(store: Store, limits: Limits) {
    this.#limits = limits;
    for (const { key } of store.range(families.nonces, {})) if (isNonceKey(key)) this.#filter(nonceBucketOf(key)).add(key, bucketBytes);
  }

  isUsed(reader: Reader, agentId: string, nonce: string, nowMs: number): boolean {
    return this.#isIn(reader, this.#keyOf(agentId, nonce), this.#bucketAt(nowMs));
  }

  /** False when it was there already. */
  insert(tx: Transaction, agentId: string, nonce: string): boolean {
    const bucket = this.#bucketAt(tx.nowMs);
    const key = this.#keyOf(agentId, nonce);
    if (this.#isIn(tx, key, bucket)) return false;
    key.writeUIntBE(bucket, 0, bucketBytes);
    // Before it is on disk: whatever becomes of the commit, a filter that knows too much is only slower.
    this.#filter(bucket).add(key, bucketBytes);
    tx.put(families.nonces, key, nothing);
    if (!this.#timed.has(bucket)) tx.schedule(nonceTimer(this.#limits, key));
    return true;
  }

  /** What was inserted at that time is on disk, and the bucket's timer with it: others need not write it again. */
  settled(nowMs: number): void {
    const bucket = this.#bucketAt(nowMs);
    if (this.#timed.has(bucket)) return;
    this.#timed.add(bucket);
    for (const old of this.#timed) if (old < bucket - bucketsBack) this.#timed.delete(old);
    for (const old of this.#filters.keys()) if (old < bucket - bucketsBack) this.#filters.delete(old);
  }

  #isIn(reader: Reader, key: Buffer, current: number): boolean {
    for (let bucket = current; bucket >= current - bucketsBack; bucket -= 1) {
      if (this.#filters.get(bucket)?.mayHave(key, bucketBytes) !== true) continue;
      key.writeUIntBE(bucket, 0, bucketBytes);
      if (reader.get(families.nonces, key) !== undefined) return true;
    }
    return false;
  }

  #filter(bucket: number): NonceFilter {
    const known = this.#filters.get(bucket);
    if (known !== undefined) return known;
    const filter = new NonceFilter();
    this.#filters.set(bucket, filter);
    return filter;
  }

  #bucketAt(nowMs: number): number {
    return nonceBucketAt(this.#limits, nowMs);
  }

  /** Room for a bucket, then agent and nonce. */
  #keyOf(agentId: string, nonce: string): Buffer {
    const nonceBytes = Buffer.byteLength(nonce);
    const key = Buffer.allocUnsafe(bucketBytes + agentBytes + nonceBytes);
    uuidBytes(agentId).copy(key, bucketBytes);
    key.write(nonce, bucketBytes + agentBytes);
    return key;
  }
}

function bucketMs({ nonceSeconds }: Limits): number {
  return (nonceSeconds * 1000) / bucketsBack;
}

export function nonceBucketAt(limits: Limits, nowMs: number): number {
  return Math.floor(nowMs / bucketMs(limits));
}

export function isNonceKey(key: Buffer): boolean {
  return key.length > bucketBytes + agentBytes;
}

export function nonceBucketOf(key: Buffer): number {
  return key.readUIntBE(0, bucketBytes);
}

/** Whose nonce it is, and which. */
export function nonceOfKey(key: Buffer): { agent_id: string; nonce: string } {
  return { agent_id: uuidOfBytes(key.subarray(bucketBytes)), nonce: key.toString('utf8', bucketBytes + agentBytes) };
}

/** Drops the bucket of a nonce when none in it can be used again. */
export function nonceTimer(limits: Limits, key: Buffer): Timer {
  return { atMs: (nonceBucketOf(key) + bucketsBack + 1) * bucketMs(limits), kind: expiryTimers.nonces, reference: key.subarray(0, bucketBytes) };
}

export function dropNonces(tx: Transaction, bucket: Buffer): void {
  const due = Array.from(tx.range(families.nonces, { ...prefixRange(bucket), limit: noncesPerStep }), ({ key }) => key);
  for (const key of due) tx.delete(families.nonces, key);
  if (due.length === noncesPerStep) tx.schedule({ atMs: tx.nowMs, kind: expiryTimers.nonces, reference: bucket });
}
