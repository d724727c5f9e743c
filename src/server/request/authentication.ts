/** Finds the caller from the headers of a request. Each kind of credentials has an authenticator. */
import type { FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import type { IdentityService, ProvenPrincipal } from '../../identity/service.js';
import { checkUserId } from '../../identity/user-key.js';
import type { LimitName, Limits } from '../../core/settings/limits.js';
import { addressOf } from './caller-address.js';
import { limitError } from '../../core/settings/exceeds.js';
import { invalidCharacterIn } from '../../core/text/invalid-character.js';

export interface Authenticator {
  readonly name: string;
  /** `headers`: called before the body is read. `body`: called when `request.rawBody` has the body. */
  readonly needs: 'headers' | 'body';
  /** True if the request has this kind of credentials. The first authenticator that returns true is used. */
  claims(request: FastifyRequest): boolean;
  /**
   * For authenticators that need the body: refuses what the headers alone show to be invalid, before the body
   * is read.
   */
  screen?(request: FastifyRequest): void | Promise<void>;
  /** The principal. Throws `unauthenticated` for invalid credentials. */
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
        throw new StoaError(
          'unauthenticated',
          'The Authorization header is not "Bearer" followed by a token.',
          { fix: 'Send "Authorization: Bearer TOKEN".' },
        );
      return identity.authenticate(token);
    },
  };
}

/** Nearly all clients send one space; the full pattern is used only for the others. */
function tokenOf(header: string): string | undefined {
  return header.startsWith('Bearer ') && header.length > 7 && header.charCodeAt(7) !== 0x20
    ? header.slice(7)
    : bearer.exec(header)?.[1];
}

/** `details.reason` of a request without credentials: AICQ has its own sentence for it. */
export const noCredentials = 'noCredentials';

export function missingCredentials(): StoaError {
  return new StoaError('unauthenticated', 'The request has no credentials.', {
    details: { reason: noCredentials },
    fix: 'Send "Authorization: Bearer TOKEN" or sign the request. The operator\'s token is in operator.token in the data directory; "stoa token create" creates tokens of users.',
  });
}

/** The caller from the credentials and the headers `Stoa-User`, `Stoa-Agent` and `Stoa-Fence`. */
export function callerOf(principal: ProvenPrincipal, request: FastifyRequest, limits: Limits): Caller {
  const { headers } = request;
  const isPlain =
    headers['stoa-user'] === undefined &&
    headers['stoa-agent'] === undefined &&
    headers['stoa-fence'] === undefined;
  return isPlain
    ? caller(principal, request, principal.user, principal.kind === 'operator', principal.agent, null)
    : namedCaller(principal, request, limits);
}

/** Written field by field: copying the principal with a spread took 6 µs, a fifth of a GET. */
function caller(
  { kind, identity, publicKey, agentId, scopes, tokenId }: ProvenPrincipal,
  request: FastifyRequest,
  user: string,
  everyUser: boolean,
  agent: string | null,
  fence: number | null,
): Caller {
  const address = addressOf(request);
  return { kind, user, everyUser, agent, identity, publicKey, agentId, scopes, fence, tokenId, address };
}

/** The headers that add a user, an agent or a fence to the credentials. */
const naming = ['Stoa-User', 'Stoa-Agent', 'Stoa-Fence'] as const;

function namedCaller(principal: ProvenPrincipal, request: FastifyRequest, limits: Limits): Caller {
  const { headers, raw } = request;
  for (const name of naming) {
    // Node joins repeated headers with a comma, which would make a third name.
    if (occurrences(raw.rawHeaders, name.toLowerCase()) > 1)
      throw new StoaError('invalid_request', `The request has more than one ${name} header.`, {
        fix: 'Send one value.',
      });
  }
  const namedUser = text(headers['stoa-user'], 'Stoa-User', 'userIdBytesMax', limits);
  const namedAgent = text(headers['stoa-agent'], 'Stoa-Agent', 'agentHeaderBytesMax', limits);
  const fence = fenceOf(headers['stoa-fence']);
  return caller(
    principal,
    request,
    userOf(principal, namedUser, limits),
    principal.kind === 'operator' && namedUser === undefined,
    agentOf(principal, namedAgent),
    fence,
  );
}

/**
 * Names and values are in turn. `headersDistinct` is missing on requests without a connection, which the
 * offline command sends.
 */
function occurrences(rawHeaders: readonly string[], name: string): number {
  let found = 0;
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (rawHeaders[index]?.toLowerCase() === name) found += 1;
  return found;
}

function userOf(principal: ProvenPrincipal, named: string | undefined, limits: Limits): string {
  if (named === undefined) return principal.user;
  const user = checkUserId(named, limits);
  if (principal.kind !== 'operator' && user !== principal.user) {
    throw new StoaError(
      'forbidden',
      'The Stoa-User header names another user, and only the operator can act for others.',
      { fix: 'Remove the Stoa-User header.' },
    );
  }
  return user;
}

function agentOf(principal: ProvenPrincipal, named: string | undefined): string | null {
  if (principal.kind !== 'agent') return named ?? null;
  if (named !== undefined && named !== principal.agent && named.toLowerCase() !== principal.agentId) {
    throw new StoaError(
      'forbidden',
      'The Stoa-Agent header is not the name of the agent that signed the request.',
      { fix: 'Remove the Stoa-Agent header.' },
    );
  }
  return principal.agent;
}

/** Percent-encoded UTF-8, because headers can contain only ASCII. */
function text(
  header: string | string[] | undefined,
  name: string,
  limit: LimitName,
  limits: Limits,
): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header !== 'string')
    throw new StoaError('invalid_request', `The request has more than one ${name} header.`);
  let decoded: string;
  try {
    decoded = header.includes('%') ? decodeURIComponent(header) : header;
  } catch (error) {
    throw new StoaError('invalid_request', `The ${name} header is not percent-encoded UTF-8.`, {
      cause: error,
      fix: 'Write "%" as %25.',
    });
  }
  if (decoded === '')
    throw new StoaError('invalid_request', `The ${name} header is empty.`, {
      fix: 'Send a value, or remove the header.',
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
  // Header bytes above ASCII arrive as Latin-1, which would change the name.
  if (/[^\x20-\x7e]/.test(header))
    throw new StoaError('invalid_request', `The ${name} header is not percent-encoded.`, {
      fix: 'Percent-encode the UTF-8 bytes of the name.',
    });
  return decoded;
}

function fenceOf(header: string | string[] | undefined): number | null {
  if (header === undefined) return null;
  if (typeof header !== 'string' || !/^\d{1,15}$/.test(header))
    throw new StoaError(
      'invalid_request',
      `The Stoa-Fence header is not a whole number of 1 to 15 digits: "${String(header).slice(0, 100)}".`,
      { fix: 'Send the fencing number of the lease.' },
    );
  return Number(header);
}
