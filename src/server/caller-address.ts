/** From which address a request comes. */
import type { FastifyRequest } from 'fastify';
import { callerAddress } from '../messaging/addresses.js';

/** Forwarding headers count only from configured proxies. */
export function addressOf(request: FastifyRequest): string {
  const header = request.headers['x-forwarded-for'];
  return callerAddress(
    request.socket.remoteAddress ?? '',
    Array.isArray(header) ? header.join(',') : header,
    request.server.stoaServer.stoa.messaging.proxies,
  );
}
