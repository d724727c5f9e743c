/** From the headers of a request to its caller: each kind of credentials has an authenticator. */
import type { FastifyRequest } from 'fastify';
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { IdentityService, ProvenPrincipal } from '../identity/service.js';
import { checkUserId } from '../identity/user-key.js';
import type { LimitName, Limits } from '../core/settings/limits.js';
import { addressOf } from './caller-address.js';
import { limitError } from '../core/settings/exceeds.js';
import { invalidCharacterIn } from '../core/text/invalid-character.js';

export interface Authenticator {
  readonly name: string;
  /** `headers` is asked before the body is read; `body` has the bytes of the body in `request.rawBody`. */
  readonly needs: 'headers' | 'body';
  /** True when the request carries this kind of credentials. The first that claims it decides alone. */
  claims(request: FastifyRequest): boolean;
  /** Of those that need the body: refuses by the headers alone what would be refused anyway, before the body is read. */
  screen?(request: FastifyRequest): void | Promise<void>;
  /** Who it is. Throws `unauthenticated` when the credentials prove nothing. */
  authenticate(request: FastifyRequest): ProvenPrincipal | Promise<ProvenPrincipal>;
}

const bearer = /^Bearer +([\x21-\x7e]+)$/i;

/** `Authorization: Bearer …`: the operator and users. */
export function bearerAuthenticator(identity: IdentityService): Authenticator {
  return {
    name: 'bearer',
    needs: 'headers',
    claims: (request) => request.headers.authorization !== undefined,
    authenticate: (request) => {
      const token = tokenOf(request.headers.authorization ?? '');
      if (token === undefined)
        throw new StoaError('unauthenticated', 'The Authorization header is not "Bearer" and a token.', {
          fix: 'Send "Authorization: Bearer TOKEN".',
        });
      return identity.authenticate(token);
    },
  };
}

/** Nearly all clients write it with one space; the rest of the grammar is looked at only where that is not so. */
function tokenOf(header: string): string | undefined {
  return header.startsWith('Bearer ') && header.length > 7 && header.charCodeAt(7) !== 0x20
    ? header.slice(7)
    : bearer.exec(header)?.[1];
}

/** `details.reason` of a request without credentials: AICQ has a sentence of its own for it. */
export const noCredentials = 'noCredentials';

export function missingCredentials(): StoaError {
  return new StoaError('unauthenticated', 'The request has no credentials.', {
    details: { reason: noCredentials },
    fix: 'Send "Authorization: Bearer" and a token: the operator\'s is in operator.token of the data directory, others are made with "stoa token create".',
  });
}

/** What the credentials prove, with what `Stoa-User`, `Stoa-Agent` and `Stoa-Fence` add. */
export function callerOf(principal: ProvenPrincipal, request: FastifyRequest, limits: Limits): Caller {
  const { headers } = request;
  const isPlain =
    headers['stoa-user'] === undefined &&
    headers['stoa-agent'] === undefined &&
    headers['stoa-fence'] === undefined;
  return {
    ...(isPlain ? plainCaller(principal) : namedCaller(principal, request, limits)),
    address: addressOf(request),
  };
}

/** The headers with which a request says more of itself than its credentials do. */
const naming = ['Stoa-User', 'Stoa-Agent', 'Stoa-Fence'] as const;

function namedCaller(principal: ProvenPrincipal, { headers, raw }: FastifyRequest, limits: Limits): Caller {
  for (const name of naming) {
    // Node joins what is given twice with a comma, which would make a third name of two.
    if (occurrences(raw.rawHeaders, name.toLowerCase()) > 1)
      throw new StoaError('invalid_request', `${name} is given more than once.`, { fix: 'Send it once.' });
  }
  const namedUser = text(headers['stoa-user'], 'Stoa-User', 'userIdBytesMax', limits);
  const namedAgent = text(headers['stoa-agent'], 'Stoa-Agent', 'agentHeaderBytesMax', limits);
  const fence = fenceOf(headers['stoa-fence']);
  return {
    ...principal,
    user: userOf(principal, namedUser, limits),
    everyUser: principal.kind === 'operator' && namedUser === undefined,
    agent: agentOf(principal, namedAgent),
    fence,
  };
}

/** Names and values stand by turns. `headersDistinct` is not there on requests that come without a connection, as the offline command sends them. */
function occurrences(rawHeaders: readonly string[], name: string): number {
  let found = 0;
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (rawHeaders[index]?.toLowerCase() === name) found += 1;
  return found;
}

function plainCaller(principal: ProvenPrincipal): Caller {
  return { ...principal, everyUser: principal.kind === 'operator', fence: null };
}

function userOf(principal: ProvenPrincipal, named: string | undefined, limits: Limits): string {
  if (named === undefined) return principal.user;
  const user = checkUserId(named, limits);
  if (principal.kind !== 'operator' && user !== principal.user) {
    throw new StoaError('forbidden', 'Only the operator can act for another user.', {
      fix: 'Leave Stoa-User away.',
    });
  }
  return user;
}

function agentOf(principal: ProvenPrincipal, named: string | undefined): string | null {
  if (principal.kind !== 'agent') return named ?? null;
  if (named !== undefined && named !== principal.agent) {
    throw new StoaError('forbidden', 'A signed agent goes by its own name.', {
      fix: 'Leave Stoa-Agent away.',
    });
  }
  return principal.agent;
}

/** Percent-encoded UTF-8, because headers carry ASCII only. */
function text(
  header: string | string[] | undefined,
  name: string,
  limit: LimitName,
  limits: Limits,
): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header !== 'string') throw new StoaError('invalid_request', `${name} is given more than once.`);
  let decoded: string;
  try {
    decoded = header.includes('%') ? decodeURIComponent(header) : header;
  } catch (error) {
    throw new StoaError('invalid_request', `${name} is not percent-encoded UTF-8.`, {
      cause: error,
      fix: 'Write "%" itself as %25.',
    });
  }
  if (decoded === '')
    throw new StoaError('invalid_request', `The ${name} header is empty.`, {
      fix: 'Give it a value, or leave it out.',
    });
  const received = Buffer.byteLength(decoded);
  if (received > limits[limit])
    throw limitError('invalid_request', {
      subject: `The ${name} header`,
      unit: 'bytes',
      limit,
      limits,
      received,
      advice: 'Use a shorter name',
    });
  const character = invalidCharacterIn(decoded);
  if (character !== undefined)
    throw new StoaError('invalid_request', `The ${name} header contains ${character}.`);
  // Header bytes above ASCII arrive as Latin-1, which would make another name of the same letters.
  if (/[^\x20-\x7e]/.test(header))
    throw new StoaError('invalid_request', `${name} is not percent-encoded.`, {
      fix: 'Percent-encode its UTF-8 bytes.',
    });
  return decoded;
}

function fenceOf(header: string | string[] | undefined): number | null {
  if (header === undefined) return null;
  if (typeof header !== 'string' || !/^\d{1,15}$/.test(header))
    throw new StoaError('invalid_request', 'Stoa-Fence is one whole number.');
  return Number(header);
}
