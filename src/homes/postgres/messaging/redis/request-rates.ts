/**
 * Requests per minute of each caller over all servers. The bucket is in Redis, and a server takes requests
 * from it in blocks, so that most requests need no round trip. Redis never gives out more than the limit; a
 * server can keep the rest of a block for a later minute.
 */
import {
  OwnRequestRates,
  type RequestRate,
  type RequestRates,
  bucketRefillMs,
  nextRequestMs,
} from '../../../../core/request-rates.js';
import { StoaError } from '../../../../core/errors.js';
import { within } from '../../../../core/waiting/within.js';
import { type RedisConnection, runScript } from './connection.js';
import type { RedisKeys } from './keys.js';

/** A block is the limit divided by this, so a server keeps at most 5 % of a caller's requests. */
const blocksPerMinute = 20;
/** How long a request waits for its count. Most of /v1 works without Redis. */
const answerMs = 1_000;
/** How long a server counts only its own requests after Redis did not answer. */
const awayMs = 10_000;

/** What this server has of a caller's bucket. */
interface Block {
  own: number;
  /** What Redis had left when it was last asked, with fractions. */
  shared: number;
  emptyUntilMs: number;
  usedAtMs: number;
  /** Requests that wait for the next block. */
  waiting: number;
  asking: Promise<boolean> | undefined;
}

export interface RedisRequestRatesOptions {
  readonly redis: RedisConnection;
  readonly keys: RedisKeys;
  readonly perMinute: number;
  readonly onError: (error: unknown, about: string) => void;
}

export class RedisRequestRates implements RequestRates {
  readonly #options: RedisRequestRatesOptions;
  readonly #alone: OwnRequestRates;
  readonly #blocks = new Map<string, Block>();
  #awayUntilMs = 0;
  #tidiedAtMs = 0;

  constructor(options: RedisRequestRatesOptions) {
    this.#options = options;
    this.#alone = new OwnRequestRates(options.perMinute);
  }

  take(caller: string): RequestRate | Promise<RequestRate> {
    const nowMs = performance.now();
    const block = this.#blockOf(caller, nowMs);
    if (block.own > 0) {
      block.own -= 1;
      return this.#rateOf(block, true);
    }
    if (nowMs < block.emptyUntilMs) return { allowed: false, left: 0, nextInMs: block.emptyUntilMs - nowMs };
    if (nowMs < this.#awayUntilMs) return this.#alone.take(caller);
    return this.#takeNext(caller, block);
  }

  async #takeNext(caller: string, block: Block): Promise<RequestRate> {
    block.waiting += 1;
    try {
      block.asking ??= this.#ask(caller, block).finally(() => {
        block.asking = undefined;
      });
      if (!(await block.asking)) return this.#alone.take(caller);
    } finally {
      block.waiting -= 1;
    }
    return this.take(caller);
  }

  /** Gets the next block. False if Redis does not answer. */
  async #ask(caller: string, block: Block): Promise<boolean> {
    const { redis, keys, perMinute, onError } = this.#options;
    // Requests that came in the same turn are served by one question.
    await Promise.resolve();
    const wanted = Math.max(Math.ceil(perMinute / blocksPerMinute), block.waiting);
    try {
      const args = [keys.requests(caller), perMinute, wanted];
      const answer = await within(answerMs, runScript(redis.commands, 'stoaTakeRequests', args));
      if (answer === undefined)
        throw new StoaError('backend_unavailable', `Redis did not answer within ${answerMs / 1_000} s.`);
      const [granted, left] = answer as [number, string];
      block.own += granted;
      block.shared = Number(left);
      if (granted === 0) block.emptyUntilMs = performance.now() + nextRequestMs(block.shared, perMinute);
      return true;
    } catch (error) {
      onError(error, `counting requests: for ${awayMs / 1_000} s, this server counts only its own`);
      this.#awayUntilMs = performance.now() + awayMs;
      return false;
    }
  }

  #rateOf({ own, shared }: Block, allowed: boolean): RequestRate {
    const { perMinute } = this.#options;
    return { allowed, left: own + Math.floor(shared), nextInMs: nextRequestMs(shared, perMinute) };
  }

  #blockOf(caller: string, nowMs: number): Block {
    this.#tidy(nowMs);
    const found = this.#blocks.get(caller);
    const block = found ?? {
      own: 0,
      shared: 0,
      emptyUntilMs: 0,
      usedAtMs: nowMs,
      waiting: 0,
      asking: undefined,
    };
    if (found === undefined) this.#blocks.set(caller, block);
    block.usedAtMs = nowMs;
    return block;
  }

  /** The bucket of a caller that was silent for a minute is full again. */
  #tidy(nowMs: number): void {
    if (nowMs - this.#tidiedAtMs < bucketRefillMs) return;
    this.#tidiedAtMs = nowMs;
    for (const [caller, { usedAtMs, waiting }] of this.#blocks)
      if (waiting === 0 && nowMs - usedAtMs > bucketRefillMs) this.#blocks.delete(caller);
  }
}
