/**
 * Nonces in the data directory: each is accepted once, survives a restart, and is removed with its bucket.
 */
import { prefixRange } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Timer, Transaction } from '../../kernel/transaction.js';
import { type Hash, HashSet } from '../../../../core/ids/hash-set.js';
import type { Limits } from '../../../../core/settings/limits.js';
import type { NonceClaim } from '../../../../messaging/port.js';
import { uuidBytes, uuidOfBytes } from '../../../../messaging/identities/uuid.js';
import { ForgottenTimes } from './forgotten-times.js';
import { nonceHash } from './nonce-hash.js';
import { expiryTimers } from '../retention-timers.js';
import { families, nothing } from '../rows.js';

/** Nonces dropped in one step of the sweeper. */
const noncesPerStep = 1_000;
/** A nonce is valid for at most this many buckets besides the current one. */
const bucketsBack = 2;
const bucketBytes = 6;
const timeBytes = 6;
const agentBytes = 16;
/** The offset of agent and nonce in a key. */
const namedAt = bucketBytes + timeBytes;

/**
 * Buckets of half a nonce's life: whole buckets are deleted, so nonces need no timers. Within a bucket nonces
 * are in the order of time, so that those of one commit are neighbours; in random order each would change a
 * different page of the database. Whether a nonce was used is known in memory.
 */
export class Nonces {
  readonly #store: Store;
  readonly #limits: Limits;
  readonly #used = new Map<number, HashSet>();
  /** Buckets whose timer is on disk. */
  readonly #timed = new Set<number>();
  /** The times of buckets that were removed. */
  readonly #forgotten: ForgottenTimes;

  constructor(store: Store, limits: Limits) {
    this.#store = store;
    this.#limits = limits;
    this.#forgotten = ForgottenTimes.read(store);
    for (const { key } of store.range(families.nonces, {})) {
      if (!isNonceKey(key)) continue;
      const bucket = nonceBucketOf(key);
      this.#timed.add(bucket);
      this.#usedIn(bucket).add(nonceHash(key, namedAt));
    }
  }

  /** Whether a nonce that was used between these times may be forgotten. */
  isForgotten(fromMs: number, toMs: number): boolean {
    return this.#forgotten.has(fromMs, toMs);
  }

  isUsed(agentId: string, nonce: string): boolean {
    return this.#isUsed(nonceHash(keyOf(agentId, nonce), namedAt));
  }

  /**
   * The key of the nonce, or undefined if it was used before. The nonce counts as used at once, and is free
   * again if the transaction is undone.
   */
  insert(tx: Transaction, agentId: string, nonce: string): Buffer | undefined {
    const bucket = this.#bucketAt(tx.nowMs);
    const key = keyOf(agentId, nonce);
    const hash = nonceHash(key, namedAt);
    if (this.#isUsed(hash)) return undefined;
    key.writeUIntBE(bucket, 0, bucketBytes);
    key.writeUIntBE(tx.nowMs, bucketBytes, timeBytes);
    this.#usedIn(bucket).add(hash);
    tx.put(families.nonces, key, nothing);
    if (!this.#timed.has(bucket)) tx.schedule(nonceTimer(this.#limits, key));
    tx.onUndone(() => this.#used.get(bucket)?.delete(hash));
    tx.onDurable(() => this.#settled(bucket));
    return key;
  }

  /**
   * The body of a transaction runs at once, so it is known whether the nonce is new before the nonce is on
   * disk. Work that starts now commits with the nonce or after it, never before it.
   */
  async claim(agentId: string, nonce: string): Promise<Omit<NonceClaim, 'rate'>> {
    let key: Buffer | undefined;
    const durable = this.#store.transact((tx) => {
      key = this.insert(tx, agentId, nonce);
    });
    const inserted = key;
    // A refusal by the store (stopped, overloaded) comes before the body has run.
    if (inserted === undefined) await durable;
    // The answer to the request waits for it. A request that is refused in the meantime does not.
    durable.catch(() => undefined);
    return {
      fresh: inserted !== undefined,
      durable,
      release: async () => {
        if (inserted !== undefined) await this.#store.transact((tx) => this.remove(tx, inserted));
      },
    };
  }

  /** Removes a nonce that `insert` has written. It counts as used until the removal is on disk. */
  remove(tx: Transaction, key: Buffer): void {
    tx.delete(families.nonces, key);
    tx.onDurable(() => this.#used.get(nonceBucketOf(key))?.delete(nonceHash(key, namedAt)));
  }

  /** The timer of the bucket is on disk and need not be written again. */
  #settled(bucket: number): void {
    if (this.#timed.has(bucket)) return;
    this.#timed.add(bucket);
    // Of a bucket without a timer, no nonce reached the disk.
    for (const old of this.#used.keys())
      if (old < bucket - bucketsBack && !this.#timed.has(old)) this.#used.delete(old);
  }

  /** Removes a step of a bucket's nonces. */
  drop(tx: Transaction, reference: Buffer): void {
    tx.removesRecords = true;
    const bucket = nonceBucketOf(reference);
    const due = Array.from(
      tx.range(families.nonces, { ...prefixRange(reference), limit: noncesPerStep }),
      ({ key }) => key,
    );
    for (const key of due) tx.delete(families.nonces, key);
    const times = timesOf(this.#limits, bucket);
    const forgotten = ForgottenTimes.read(tx);
    forgotten.add(...times);
    forgotten.write(tx);
    if (due.length === noncesPerStep) tx.schedule({ atMs: tx.nowMs, kind: expiryTimers.nonces, reference });
    tx.onDurable(() => {
      this.#forgotten.add(...times);
      this.#used.delete(bucket);
      this.#timed.delete(bucket);
    });
  }

  /**
   * Looks in every bucket: after the clock was set back, buckets in the future contain nonces that could be
   * used again.
   */
  #isUsed(hash: Hash): boolean {
    for (const used of this.#used.values()) if (used.has(hash)) return true;
    return false;
  }

  #usedIn(bucket: number): HashSet {
    const known = this.#used.get(bucket);
    if (known !== undefined) return known;
    const used = new HashSet();
    this.#used.set(bucket, used);
    return used;
  }

  #bucketAt(nowMs: number): number {
    return nonceBucketAt(this.#limits, nowMs);
  }
}

/** Room for a bucket and a time, then agent and nonce. */
function keyOf(agentId: string, nonce: string): Buffer {
  const key = Buffer.allocUnsafe(namedAt + agentBytes + Buffer.byteLength(nonce));
  uuidBytes(agentId).copy(key, namedAt);
  key.write(nonce, namedAt + agentBytes);
  return key;
}

function bucketMs({ nonceSeconds }: Limits): number {
  return (nonceSeconds * 1000) / bucketsBack;
}

/** Where the bucket begins and ends. */
function timesOf(limits: Limits, bucket: number): [fromMs: number, toMs: number] {
  return [bucket * bucketMs(limits), (bucket + 1) * bucketMs(limits)];
}

export function nonceBucketAt(limits: Limits, nowMs: number): number {
  return Math.floor(nowMs / bucketMs(limits));
}

export function isNonceKey(key: Buffer): boolean {
  return key.length > namedAt + agentBytes;
}

export function nonceBucketOf(key: Buffer): number {
  return key.readUIntBE(0, bucketBytes);
}

export function nonceOfKey(key: Buffer): { agent_id: string; nonce: string } {
  return { agent_id: uuidOfBytes(key.subarray(namedAt)), nonce: key.toString('utf8', namedAt + agentBytes) };
}

/** Removes the bucket of a nonce when none of its nonces can be used again. */
export function nonceTimer(limits: Limits, key: Buffer): Timer {
  return {
    atMs: (nonceBucketOf(key) + bucketsBack + 1) * bucketMs(limits),
    kind: expiryTimers.nonces,
    reference: key.subarray(0, bucketBytes),
  };
}
