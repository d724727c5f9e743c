/**
 * Answers on the socket to bytes that Node could not parse as a request, with the same headers and body as
 * other errors.
 */
import { STATUS_CODES, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { randomUUID } from 'node:crypto';
import { StoaError } from '../../core/errors.js';
import { fixFor, limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import { securityHeaders } from './answer-writer.js';
import { problemOf } from './problem.js';

const shared = Object.entries(securityHeaders).map(([name, value]) => `${name}: ${value}`);

export function clientErrorAnswer(
  limits: Limits,
): (error: Error & { code?: string }, socket: Socket) => void {
  return (error, socket) => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return;
    if (socket.writable && !owesAnswer(socket)) socket.write(responseTo(meaningOf(error.code, limits)));
    socket.destroy();
  };
}

/**
 * Whether an answer to an earlier request is missing, or has begun: the client would take this one for it, or
 * for a part of it.
 */
function owesAnswer(socket: Socket): boolean {
  // Node's own handler looks at the same property; there is no public one.
  const answer = '_httpMessage' in socket ? socket._httpMessage : null;
  return answer instanceof ServerResponse && (answer.req.complete || answer.headersSent);
}

function meaningOf(code: string | undefined, limits: Limits): StoaError {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return limitError('headers_too_large', {
      subject: 'The first line and headers of the request',
      unit: 'bytes',
      limit: 'headerBytesMax',
      limits,
      advice: 'Send shorter headers or a shorter path',
    });
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new StoaError(
      'request_timeout',
      `The request did not arrive completely within ${limits.requestSecondsMax} seconds (requestSecondsMax).`,
      {
        fix: fixFor('Send several smaller requests', 'requestSecondsMax'),
        details: { requestSecondsMax: limits.requestSecondsMax },
      },
    );
  }
  return new StoaError('invalid_request', 'The server cannot parse this HTTP request.');
}

function responseTo(error: StoaError): string {
  const requestId = randomUUID();
  const body = JSON.stringify(problemOf(error, requestId));
  return [
    `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}`,
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `Request-Id: ${requestId}`,
    ...shared,
    'Connection: close',
    '',
    body,
  ].join('\r\n');
}
