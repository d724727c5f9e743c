/** The address that a request comes from. */
import type { FastifyRequest } from 'fastify';
import { callerAddress } from '../../messaging/gate/addresses.js';

/** Forwarding headers are trusted only from configured proxies. */
export function addressOf(request: FastifyRequest): string {
  const header = request.headers['x-forwarded-for'];
  return callerAddress(
    request.socket.remoteAddress ?? '',
    Array.isArray(header) ? header.join(',') : header,
    request.server.stoaServer.stoa.messaging.proxies,
  );
}
