/** The optional limit of requests per minute on /v1 for each caller: a bucket that refills over time. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import { countedAddress, plainAddress } from '../../messaging/gate/addresses.js';

interface Bucket {
  /** Requests left, with fractions. */
  left: number;
  atMs: number;
}

const windowSeconds = 60;

export class RateLimit {
  readonly #perMinute: number;
  readonly #buckets = new Map<string, Bucket>();
  #tidiedAtMs = 0;

  constructor(perMinute: number) {
    this.#perMinute = perMinute;
  }

  /** Takes one request from the caller's bucket, and always sets the headers. */
  take(request: FastifyRequest, reply: FastifyReply, caller: Caller | null): void {
    const nowMs = Date.now();
    const bucket = this.#bucketOf(
      caller === null
        ? `ip ${countedAddress(plainAddress(request.ip))}`
        : `${caller.kind} ${caller.identity ?? caller.tokenId ?? caller.user}`,
      nowMs,
    );
    const refused = bucket.left < 1;
    if (!refused) bucket.left -= 1;
    const secondsToNext = Math.ceil(((1 - (bucket.left % 1)) / this.#perMinute) * windowSeconds);
    void reply.header('ratelimit-policy', `"default";q=${this.#perMinute};w=${windowSeconds}`);
    void reply.header('ratelimit', `"default";r=${Math.floor(bucket.left)};t=${secondsToNext}`);
    if (!refused) return;
    void reply.header('retry-after', String(secondsToNext));
    throw new StoaError(
      'rate_limited',
      `The caller exceeds ${this.#perMinute} requests per minute (requestsPerMinuteMax).`,
      {
        fix: `Try again in ${secondsToNext} s.`,
        details: { requestsPerMinuteMax: this.#perMinute },
      },
    );
  }

  #bucketOf(name: string, nowMs: number): Bucket {
    this.#tidy(nowMs);
    const found = this.#buckets.get(name);
    if (found === undefined) {
      const bucket = { left: this.#perMinute, atMs: nowMs };
      this.#buckets.set(name, bucket);
      return bucket;
    }
    const refilled = ((nowMs - found.atMs) / (windowSeconds * 1_000)) * this.#perMinute;
    found.left = Math.min(this.#perMinute, found.left + Math.max(0, refilled));
    found.atMs = nowMs;
    return found;
  }

  /** A bucket that was not used for a window is full again, like a new one. */
  #tidy(nowMs: number): void {
    if (nowMs - this.#tidiedAtMs < windowSeconds * 1_000) return;
    this.#tidiedAtMs = nowMs;
    for (const [name, { atMs }] of this.#buckets)
      if (nowMs - atMs > windowSeconds * 1_000) this.#buckets.delete(name);
  }
}
