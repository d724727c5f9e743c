/** The address that a request comes from. */
import type { FastifyRequest } from 'fastify';
import { callerAddress } from '../../messaging/gate/addresses.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null until `addressOf` is asked for the first time. */
    callerAddress: string | null;
  }
}

/** Forwarding headers are trusted only from configured proxies. */
export function addressOf(request: FastifyRequest): string {
  return (request.callerAddress ??= findAddress(request));
}

function findAddress(request: FastifyRequest): string {
  const header = request.headers['x-forwarded-for'];
  return callerAddress(
    request.socket.remoteAddress ?? '',
    Array.isArray(header) ? header.join(',') : header,
    request.server.stoaServer.stoa.messaging.proxies,
  );
}
