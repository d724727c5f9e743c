/** Detects callers who disconnect before their answer is sent. */
import type { FastifyReply } from 'fastify';
import type { Cancellation } from '../../core/waiting/cancellation.js';

/** For work that checks from time to time whether the caller is still connected. */
export function goneOf(reply: FastifyReply): Cancellation {
  return {
    get aborted() {
      return reply.raw.destroyed;
    },
  };
}

/**
 * For work that waits: aborted when the caller disconnects, also if that was before this call. The end of an
 * answered request aborts nothing, because an abort makes an error with a trace.
 */
export function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  if (reply.raw.destroyed) gone.abort();
  else
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) gone.abort();
    });
  return gone.signal;
}
