/** What surrounds every messaging route: CORS, blocks, rates, signatures, and errors as AICQ's clients expect them. */
import { isUtf8 } from 'node:buffer';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { StoaError } from '../../core/errors.js';
import type { Signer, SignedRequest } from '../../messaging/authentication.js';
import type { RoomAccess } from '../../messaging/room-doors.js';
import type { Identity } from '../../messaging/model.js';
import { isRefusal, refuse } from '../../messaging/refusals.js';
import { type MessagingService, principalOf } from '../../messaging/service.js';
import type { RateDecision } from '../../messaging/sliding-windows.js';
import { SharedHeaders, securityHeaders } from '../answer-writer.js';
import { type Authenticator, noCredentials } from '../authentication.js';
import { addressOf } from '../caller-address.js';
import type { ErrorWriter } from '../group.js';
import type { RouteContext } from '../route.js';
import type { Caller } from '../../core/caller.js';

const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'GET, POST, PATCH, DELETE, OPTIONS',
  'access-control-allow-headers':
    'Accept, Authorization, Content-Type, Content-Digest, Last-Event-ID, Signature, Signature-Input, Stoa-Agent, Stoa-User, X-AICQ-Agent, X-AICQ-Nonce, X-AICQ-Room-Key, X-AICQ-Signature, X-AICQ-Timestamp',
  'access-control-expose-headers':
    'Request-Id, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset',
  'access-control-max-age': '86400',
} as const;

export const messagingHeaders = new SharedHeaders({ ...securityHeaders, ...corsHeaders });

export const messagingErrorSchema = z.object({ error: z.string() }).meta({ id: 'MessagingError' });

declare module 'fastify' {
  interface FastifyRequest {
    /** Who signed the request, once that is proven. */
    signer?: Signer;
  }
}

export function messagingOf(request: FastifyRequest): MessagingService {
  return request.server.stoaServer.stoa.messaging;
}

/** Probes are never limited or blocked. */
const probes: ReadonlySet<string> = new Set(['/health']);

/** Before the body is read: CORS, preflights, blocked addresses, and more requests than one address should send. */
export async function beforeMessaging(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.method === 'OPTIONS') {
    void reply.headers({ 'request-id': request.id, ...messagingHeaders.fields });
    await reply.code(204).send();
    return;
  }
  if (probes.has(routePathOf(request))) return;
  const { gate } = messagingOf(request);
  const decision = await gate.admit(addressOf(request));
  if (decision?.allowed === false) throw tooMany(reply, decision);
}

/** Signatures: both schemes here, RFC 9421 alone on /v1 and /mcp. */
export const signatureAuthenticator: Authenticator = {
  name: 'signature',
  needs: 'body',
  claims: (request) => messagingOf(request).signatures.isSigned(request.headers),
  screen: (request) => (isMessagingRoute(request) || !hasLargeBody(request) ? undefined : screened(request)),
  authenticate: async (request) => {
    const messaging = messagingOf(request);
    const isMessaging = isMessagingRoute(request);
    const signer = await verified(request, messaging, isMessaging);
    request.signer = signer;
    if (isMessaging) return principalOf(signer.identity);
    await signer.durable;
    await requireLink(request, signer.identity);
    return principalOf(signer.identity);
  },
};

/** Their bodies are small, and their refusals come in AICQ's order. */
function isMessagingRoute(request: FastifyRequest): boolean {
  return !/^\/(v1|mcp)(\/|$)/.test(routePathOf(request));
}

/** Larger than a message could be, or of a length that nobody knows yet. */
function hasLargeBody({ headers, server }: FastifyRequest): boolean {
  const length = headers['content-length'];
  return length === undefined
    ? headers['transfer-encoding'] !== undefined
    : Number(length) > server.stoaServer.stoa.limits.messagingRequestBytesMax;
}

async function screened(request: FastifyRequest): Promise<void> {
  await requireLink(request, await messagingOf(request).signatures.screen(signedRequestOf(request)));
}

async function requireLink(request: FastifyRequest, { id, link }: Identity): Promise<void> {
  if (link === null)
    throw new StoaError('forbidden', 'This identity is not linked to a user.', {
      fix: 'The user links it with PUT /v1/identities/{identity}/link.',
    });
  if (!(await request.server.stoaServer.stoa.registry.speaksFor(id, link.user, link.agentId))) {
    throw new StoaError('forbidden', 'The agent that this identity is linked to is gone.', {
      fix: 'The user links it to another with PUT /v1/identities/{identity}/link.',
    });
  }
}

/** The body is there once it has been read. Only one of the two schemes looks at the address, so that it is made when it is asked for. */
function signedRequestOf(request: FastifyRequest): SignedRequest {
  const { method, headers, rawBody } = request;
  return {
    method,
    headers,
    rawBody,
    get targetUri() {
      return `${request.protocol}://${headers.host ?? ''}${request.originalUrl}`;
    },
  };
}

async function verified(
  request: FastifyRequest,
  messaging: MessagingService,
  isMessaging: boolean,
): Promise<Signer> {
  const messageSignaturesOnly = !isMessaging || messaging.settings.requireMessageSignatures;
  try {
    return await messaging.signatures.verify(signedRequestOf(request), { messageSignaturesOnly });
  } catch (error) {
    // While no agent is verified, requests count by address: guessing is not free.
    if (isMessaging) await countByAddress(request, messaging);
    throw error;
  }
}

async function countByAddress(request: FastifyRequest, { gate }: MessagingService): Promise<void> {
  const limit = gate.limitFor(request.method, routePathOf(request));
  const decision = limit === undefined ? undefined : await gate.take(limit, addressOf(request), null);
  if (decision?.allowed === false) throw refuse('rate', { details: { decision } });
}

type Context<Params, Body> = RouteContext<
  Params,
  Readonly<Record<string, unknown>>,
  Body,
  unknown,
  Caller | null
>;

/** A handler that runs within its rate, and whose answer waits until the nonce is on disk. */
export function limited<Params, Body, Answer>(
  handler: (context: Context<Params, Body>, messaging: MessagingService) => Promise<Answer>,
) {
  return async (context: Context<Params, Body>): Promise<Answer> => {
    const { request, reply, caller } = context;
    const messaging = messagingOf(request);
    const limit = messaging.gate.limitFor(request.method, routePathOf(request));
    if (limit !== undefined) {
      const decision = await messaging.gate.take(limit, addressOf(request), caller);
      if (decision !== undefined) showRate(reply, decision);
      if (decision?.allowed === false) throw tooMany(reply, decision);
    }
    const answer = await handler(context, messaging);
    await request.signer?.durable;
    return answer;
  };
}

export function accessOf(request: FastifyRequest): RoomAccess {
  const key = request.headers['x-aicq-room-key'];
  return { key: typeof key === 'string' ? headerText(key) : undefined, address: addressOf(request) };
}

/** Node reads headers as Latin-1, the way browsers send them; other clients send the bytes of UTF-8. */
function headerText(header: string): string {
  if (!/[\x80-\xff]/.test(header)) return header;
  const bytes = Buffer.from(header, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : header;
}

export function signatureOf(request: FastifyRequest): Signer['signature'] | null {
  return request.signer?.signature ?? null;
}

function showRate(reply: FastifyReply, { limit, remaining, resetAtMs }: RateDecision): void {
  void reply
    .header('x-ratelimit-limit', limit)
    .header('x-ratelimit-remaining', remaining)
    .header('x-ratelimit-reset', Math.ceil(resetAtMs / 1000));
}

function tooMany(reply: FastifyReply, decision: RateDecision): StoaError {
  showRate(reply, decision);
  return refuse('rate', { details: { decision } });
}

/** `{"error": …}`, in AICQ's words where the server has words of its own. */
export const writeMessagingError: ErrorWriter = async (error, request, reply) => {
  if (error.status === 429) await onTooMany(error, request, reply);
  if (error.status === 503) void reply.header('retry-after', '1');
  return reply
    .code(error.status)
    .header('content-type', 'application/json; charset=utf-8')
    .send(JSON.stringify({ error: sentenceOf(error) }));
};

async function onTooMany(error: StoaError, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { gate, port } = messagingOf(request);
  const { decision, retry_after_seconds: seconds } = (error.details ?? {}) as {
    decision?: RateDecision;
    retry_after_seconds?: number;
  };
  if (decision !== undefined) showRate(reply, decision);
  const wait =
    decision === undefined ? (seconds ?? 1) : Math.ceil((decision.resetAtMs - port.nowMs()) / 1000);
  void reply.header('retry-after', String(Math.max(1, wait)));
  await gate.refused(
    addressOf(request),
    `${error.message}: ${request.method} ${request.matchedPath ?? 'unknown path'}`,
  );
}

function sentenceOf(error: StoaError): string {
  if (isRefusal(error)) return error.message;
  switch (error.code) {
    case 'unauthenticated':
      return error.details?.['reason'] === noCredentials
        ? refuse('missingAuthHeaders').message
        : error.message;
    case 'too_large':
      return refuse('requestLarge').message;
    case 'unsupported_media_type':
      return refuse('contentType').message;
    case 'not_found':
      return refuse('route').message;
    case 'method_not_allowed':
      return refuse('method').message;
    default:
      return error.message;
  }
}

/** The route's own path, not the request's: that has many spellings, and each would have limits of its own. */
function routePathOf(request: FastifyRequest): string {
  return request.matchedPath ?? '';
}
