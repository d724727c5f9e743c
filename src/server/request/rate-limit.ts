/** The optional limit of requests per minute on /v1 and /mcp for each caller, and its headers. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import { type RequestRate, type RequestRates, bucketRefillMs } from '../../core/request-rates.js';
import { countedAddress, plainAddress } from '../../messaging/gate/addresses.js';

const windowSeconds = bucketRefillMs / 1_000;

export class RateLimit {
  readonly #perMinute: number;
  readonly #rates: RequestRates;

  constructor(perMinute: number, rates: RequestRates) {
    this.#perMinute = perMinute;
    this.#rates = rates;
  }

  /** Takes one request from the caller's bucket, and always sets the headers. */
  take(request: FastifyRequest, reply: FastifyReply, caller: Caller | null): void | Promise<void> {
    const rate = this.#rates.take(
      caller === null
        ? `ip ${countedAddress(plainAddress(request.ip))}`
        : `${caller.kind} ${caller.identity ?? caller.tokenId ?? caller.user}`,
    );
    return rate instanceof Promise ? rate.then((later) => this.#show(reply, later)) : this.#show(reply, rate);
  }

  #show(reply: FastifyReply, { allowed, left, nextInMs }: RequestRate): void {
    const secondsToNext = Math.max(1, Math.ceil(nextInMs / 1_000));
    void reply.header('ratelimit-policy', `"default";q=${this.#perMinute};w=${windowSeconds}`);
    void reply.header('ratelimit', `"default";r=${left};t=${secondsToNext}`);
    if (allowed) return;
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
}
