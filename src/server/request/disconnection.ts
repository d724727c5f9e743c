/** Detects callers who disconnect before their answer is sent. */
import type { FastifyReply } from 'fastify';
import type { Cancellation } from '../../core/waiting/cancellation.js';

/** For work that checks from time to time whether the caller is still connected. */
export function disconnectionOf(reply: FastifyReply): Cancellation {
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
export function disconnectSignal(reply: FastifyReply): AbortSignal {
  const disconnected = new AbortController();
  if (reply.raw.destroyed) disconnected.abort();
  else
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) disconnected.abort();
    });
  return disconnected.signal;
}
