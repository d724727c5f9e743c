/** Callers who hang up before they have their answer. */
import type { FastifyReply } from 'fastify';
import type { Cancellation } from '../core/waiting/cancellation.js';

/** For work that looks from time to time whether somebody still waits for it. */
export function goneOf(reply: FastifyReply): Cancellation {
  return {
    get aborted() {
      return reply.raw.destroyed;
    },
  };
}

/** For work that waits: aborted at once when the caller hangs up, or has hung up already while its request was checked. */
export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  if (reply.raw.destroyed) gone.abort();
  else reply.raw.once('close', () => gone.abort());
  return gone.signal;
}
