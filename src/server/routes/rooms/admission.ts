/** The limits of messaging on its routes under /v1: the same counters as on AICQ's routes. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Caller } from '../../../core/caller.js';
import type { StoaError } from '../../../core/errors.js';
import type { MessagingService } from '../../../messaging/service.js';
import { countRequest, onTooMany } from '../messaging/gate.js';

export interface Asked {
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** Counts the request under the endpoint of its route. */
export function admit({ caller, request, reply }: Asked): Promise<MessagingService> {
  return countRequest(request, reply, caller);
}

/** Counts a room that a message creates, like a request that creates one. */
export function admitRoom({ caller, request, reply }: Asked): () => Promise<void> {
  return async () => {
    await countRequest(request, reply, caller, 'create-room');
  };
}

/** A refusal for the rate counts against the address. */
export async function onRoomError(
  error: StoaError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  if (error.status === 429) await onTooMany(error, request, reply);
}

export function wantsStream({ method, headers }: FastifyRequest): boolean {
  return method === 'GET' && headers.accept?.toLowerCase().includes('text/event-stream') === true;
}
