/** Requests per minute of each caller: a bucket that refills over time. */

export interface RequestRate {
  allowed: boolean;
  /** Requests that the caller has left. */
  left: number;
  /** When the next request is added to the bucket. */
  nextInMs: number;
}

/** Counts the requests of callers, over all servers of a home where these can ask each other. */
export interface RequestRates {
  /** Takes one request. Without a promise if no other server must be asked. */
  take(caller: string): RequestRate | Promise<RequestRate>;
}

export const bucketRefillMs = 60_000;

/** When the next whole request is in a bucket with `left` requests, with fractions. */
export function nextRequestMs(left: number, perMinute: number): number {
  return ((1 - (left % 1)) / perMinute) * bucketRefillMs;
}

interface Bucket {
  /** Requests left, with fractions. */
  left: number;
  atMs: number;
}

/** The requests of one process. */
export class OwnRequestRates implements RequestRates {
  readonly #perMinute: number;
  readonly #buckets = new Map<string, Bucket>();
  #tidiedAtMs = 0;

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  take(caller: string): RequestRate {
    const bucket = this.#bucketOf(caller, Date.now());
    const allowed = bucket.left >= 1;
    if (allowed) bucket.left -= 1;
    return { allowed, left: Math.floor(bucket.left), nextInMs: nextRequestMs(bucket.left, this.#perMinute) };
  }

  #bucketOf(caller: string, nowMs: number): Bucket {
    this.#tidy(nowMs);
    const found = this.#buckets.get(caller);
    if (found === undefined) {
      const bucket = { left: this.#perMinute, atMs: nowMs };
      this.#buckets.set(caller, bucket);
      return bucket;
    }
    const refilled = ((nowMs - found.atMs) / bucketRefillMs) * this.#perMinute;
    found.left = Math.min(this.#perMinute, found.left + Math.max(0, refilled));
    found.atMs = nowMs;
    return found;
  }

  /** A bucket that was not used for a minute is full again, like a new one. */
  #tidy(nowMs: number): void {
    if (nowMs - this.#tidiedAtMs < bucketRefillMs) return;
    this.#tidiedAtMs = nowMs;
    for (const [caller, { atMs }] of this.#buckets)
      if (nowMs - atMs > bucketRefillMs) this.#buckets.delete(caller);
  }
}
