/** Runs around every messaging route: blocks, rate limits, signatures, and errors in AICQ's format. */
import { isUtf8 } from 'node:buffer';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { StoaError } from '../../../core/errors.js';
import type { Signer, SignedRequest } from '../../../messaging/identities/authentication.js';
import type { RoomAccess, RoomReference } from '../../../messaging/rooms/doors.js';
import type { Identity, Room } from '../../../messaging/model.js';
import { refusalSentence, refuse } from '../../../messaging/refusals.js';
import { principalOf } from '../../../messaging/identities/signed-caller.js';
import type { MessagingService } from '../../../messaging/service.js';
import type { Endpoint } from '../../../messaging/gate/rate-limits.js';
import type { RateDecision } from '../../../messaging/gate/sliding-windows.js';
import { serverHeaders } from '../../answer/answer-writer.js';
import { type Authenticator, noCredentials } from '../../request/authentication.js';
import { addressOf } from '../../request/caller-address.js';
import type { ErrorWriter } from '../../group.js';
import type { RouteContext } from '../../route.js';
import type { Caller } from '../../../core/caller.js';

export const messagingErrorSchema = z.object({ error: z.string() }).meta({ id: 'MessagingError' });

declare module 'fastify' {
  interface FastifyRequest {
    /** The signer, after the signature was verified. */
    signer?: Signer;
    /** The look-up of the room that a post names, which began while the nonce was used up. */
    roomAhead?: Promise<Room | undefined>;
  }
}

function messagingOf(request: FastifyRequest): MessagingService {
  return request.server.stoaServer.stoa.messaging;
}

/** Probes are never limited or blocked. */
const probes: ReadonlySet<string> = new Set(['/health']);

/** Before the body is read: OPTIONS, blocked addresses, and the request limit of an address. */
export async function beforeMessaging(request: FastifyRequest, reply: FastifyReply): Promise<void> {
  if (request.method === 'OPTIONS') {
    void reply.headers({ 'request-id': request.id, ...serverHeaders.fields });
    await reply.code(204).send();
    return;
  }
  if (probes.has(routePathOf(request))) return;
  const { gate } = messagingOf(request);
  const decision = await gate.admit(addressOf(request));
  if (decision?.allowed === false) throw tooMany(reply, decision);
}

/** Signatures: both schemes on messaging routes, only RFC 9421 on /v1 and /mcp. */
export const signatureAuthenticator: Authenticator = {
  name: 'signature',
  needs: 'body',
  claims: (request) => messagingOf(request).signatures.isSigned(request.headers),
  screen: (request) => (isMessagingRoute(request) || !hasLargeBody(request) ? undefined : screened(request)),
  authenticate: async (request) => {
    const messaging = messagingOf(request);
    if (isMessagingRoute(request)) return messagingPrincipal(request, messaging);
    const { identity, durable } = (request.signer = await messaging.signatures.verify(
      signedRequestOf(request),
      { messageSignaturesOnly: true },
    ));
    await durable;
    if (request.routeOptions.config.route?.needsNoLink === true)
      return principalOf(await withLiveLink(request, identity));
    await requireLink(request, identity);
    return principalOf(identity);
  },
};

/** The nonce is used up and the request counted while the home looks up the link, and the room of a post. */
async function messagingPrincipal(request: FastifyRequest, messaging: MessagingService) {
  const { signatures, gate, settings } = messaging;
  const limit = gate.limitFor(request.method, routePathOf(request));
  const checked = await countedIfRefused(
    request,
    signatures.check(signedRequestOf(request), { messageSignaturesOnly: settings.requireMessageSignatures }),
  );
  const using = countedIfRefused(
    request,
    signatures.useNonce(checked, {
      countedFor: (agentId) =>
        limit === undefined ? undefined : gate.countedFor(limit, addressOf(request), agentId),
    }),
  );
  // The router gives texts by name. Other routes have more to read first.
  const { room } = request.params as { room?: string };
  if (request.method === 'POST' && room !== undefined) request.roomAhead = messaging.rooms.ahead(room);
  const [signer, identity] = await Promise.all([using, withLiveLink(request, checked.identity)]);
  request.signer = signer;
  return principalOf(identity);
}

/**
 * Until an agent is verified, requests count by address, so that guessing is limited. A database that does
 * not answer is not a guess: agents behind one address would be blocked because of it.
 */
async function countedIfRefused<Result>(request: FastifyRequest, checking: Promise<Result>): Promise<Result> {
  try {
    return await checking;
  } catch (error) {
    if (error instanceof StoaError && error.status < 500) await countByAddress(request, messagingOf(request));
    throw error;
  }
}

/** Messaging bodies are small, and their errors must come in AICQ's order. */
function isMessagingRoute(request: FastifyRequest): boolean {
  return !/^\/(v1|mcp)(\/|$)/.test(routePathOf(request));
}

/** Whether the body is larger than a message can be, or has an unknown length. */
function hasLargeBody({ headers, server }: FastifyRequest): boolean {
  const length = headers['content-length'];
  return length === undefined
    ? headers['transfer-encoding'] !== undefined
    : Number(length) > server.stoaServer.stoa.limits.messagingRequestBytesMax;
}

async function screened(request: FastifyRequest): Promise<void> {
  await requireLink(request, await messagingOf(request).signatures.screen(signedRequestOf(request)));
}

/** Messaging needs no link; one whose agent was deleted does not open the rooms of its user. */
async function withLiveLink(request: FastifyRequest, identity: Identity): Promise<Identity> {
  const { id, link } = identity;
  if (link === null || link.agentId === null) return identity;
  const { registry } = request.server.stoaServer.stoa;
  return (await registry.speaksFor(id, link.user, link.agentId)) ? identity : { ...identity, link: null };
}

async function requireLink(request: FastifyRequest, { id, link }: Identity): Promise<void> {
  if (link === null || link.agentId === null)
    throw new StoaError('forbidden', 'This identity is not linked to an agent.', {
      fix: 'Ask the user to link it with PUT /v1/identities/{identity}/link.',
    });
  if (!(await request.server.stoaServer.stoa.registry.speaksFor(id, link.user, link.agentId))) {
    throw new StoaError('forbidden', 'The agent that this identity is linked to was deleted.', {
      fix: 'Ask the user to link it to another agent with PUT /v1/identities/{identity}/link.',
    });
  }
}

/**
 * The body is set after it was read. Only one of the two schemes uses the URL, so it is computed on demand.
 */
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

/** After a wait: the address may be blocked now, and the caller may have lost its rights. */
export async function admitAgain(request: FastifyRequest): Promise<void> {
  const { stoa } = request.server.stoaServer;
  await stoa.messaging.gate.admitAgain(addressOf(request));
  if (request.caller !== null) await stoa.home.checkCaller(request.caller);
}

/** A handler with a rate limit, whose answer waits until the nonce is on disk. */
export function limited<Params, Body, Answer>(
  handler: (context: Context<Params, Body>, messaging: MessagingService) => Promise<Answer>,
) {
  return async (context: Context<Params, Body>): Promise<Answer> => {
    const { request, reply, caller } = context;
    const messaging = await countRequest(request, reply, caller);
    const answer = await handler(context, messaging);
    await request.signer?.durable;
    return answer;
  };
}

/** Counts a request under the endpoint of its route or another, and refuses it if there were too many. */
export async function countRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  caller: Caller | null,
  endpoint?: Endpoint,
): Promise<MessagingService> {
  const messaging = messagingOf(request);
  const { gate } = messaging;
  const limit =
    endpoint === undefined ? gate.limitFor(request.method, routePathOf(request)) : gate.limitOf(endpoint);
  if (limit === undefined) return messaging;
  const decision = request.signer?.rate ?? (await gate.take(limit, addressOf(request), caller));
  if (decision !== undefined) showRate(reply, decision);
  if (decision?.allowed === false) throw tooMany(reply, decision);
  return messaging;
}

/** AICQ's routes take the id of a room, not its name. */
export function byId(room: string): RoomReference {
  return { room, byName: false };
}

export function accessOf(request: FastifyRequest): RoomAccess {
  const key = request.headers['x-aicq-room-key'];
  return { key: typeof key === 'string' ? headerText(key) : undefined, address: addressOf(request) };
}

/** Node reads headers as Latin-1, as browsers send them; other clients send UTF-8 bytes. */
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

/** `{"error": …}`, with AICQ's sentence for errors that AICQ has. */
export const writeMessagingError: ErrorWriter = async (error, request, reply) => {
  if (error.status === 429) await onTooMany(error, request, reply);
  if (error.status === 503) void reply.header('retry-after', '1');
  return reply
    .code(error.status)
    .header('content-type', 'application/json; charset=utf-8')
    .send(JSON.stringify({ error: sentenceOf(error) }));
};

export async function onTooMany(
  error: StoaError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
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
  const sentence = refusalSentence(error);
  if (sentence !== undefined) return sentence;
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

/**
 * The path of the route, because the path of a request has many spellings, and each would get its own limits.
 */
function routePathOf(request: FastifyRequest): string {
  return request.matchedPath ?? '';
}
