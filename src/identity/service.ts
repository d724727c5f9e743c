/** Who a bearer token belongs to, and the tokens of users: made, listed, revoked. */
import { StoaError } from '../errors.js';
import type { Idempotency } from '../core/idempotency.js';
import type { Limits } from '../limits.js';
import { type Page, type PageRequest, decodeCursor, encodeCursor, pageLimit } from '../paging.js';
import { invalidFields, validate } from '../validate.js';
import { type Caller, type Scopes, defaultUser, fullScopes } from '../core/caller.js';
import type { IdentityPort } from './port.js';
import { checkScopeNamespaces } from './scope-namespaces.js';
import {
  type CreateTokenInput,
  type CreatedToken,
  type Token,
  createTokenSchema,
  tokenIdPattern,
  tokenView,
} from './schemas.js';
import {
  type TokenRecord,
  hashToken,
  isExpired,
  newToken,
  publicPart,
  publicPartOf,
  sameHash,
  sameToken,
  tokenIdBytes,
  tokenIdOf,
} from './tokens.js';
import { checkUserId } from './user-key.js';

/** What credentials prove, before the headers of the request add to it. */
export interface ProvenPrincipal {
  kind: Caller['kind'];
  user: string;
  agent: string | null;
  identity: string | null;
  agentId: string | null;
  scopes: Scopes;
  tokenId: string | null;
}

export interface IdentityServiceOptions {
  port: IdentityPort;
  limits: Limits;
  operatorToken: string;
  nowMs: () => number;
  /** The last uses could not be written down; they are tried again. */
  onError: (error: unknown, about: string) => void;
}

interface VerifiedToken {
  token: string;
  principal: ProvenPrincipal;
  expiresAtMs: number;
}

const operator: ProvenPrincipal = {
  kind: 'operator',
  user: defaultUser,
  agent: null,
  identity: null,
  agentId: null,
  scopes: fullScopes,
  tokenId: null,
};

export class IdentityService {
  readonly #port: IdentityPort;
  readonly #limits: Limits;
  readonly #operatorHash: string;
  readonly #nowMs: () => number;
  readonly #onError: IdentityServiceOptions['onError'];
  /** By the part that is no secret. Hashing anew at each request would cost more than the rest of the check. */
  readonly #verified = new Map<string, VerifiedToken>();
  /** Users that were found under this very spelling: it never changes again. */
  readonly #knownUsers = new Set<string>();
  #uses = new Map<string, number>();
  #writingUses: NodeJS.Timeout | undefined;

  constructor(options: IdentityServiceOptions) {
    this.#port = options.port;
    this.#limits = options.limits;
    this.#operatorHash = hashToken(options.operatorToken);
    this.#nowMs = options.nowMs;
    this.#onError = options.onError;
  }

  /** The principal of a bearer token. Throws `unauthenticated` for one that is unknown, revoked or expired. */
  authenticate(token: string): ProvenPrincipal {
    const nowMs = this.#nowMs();
    const known = this.#verified.get(publicPart(token));
    if (known === undefined || known.expiresAtMs <= nowMs || !sameToken(token, known.token))
      return this.#verify(token, nowMs);
    if (known.principal.tokenId !== null) this.#uses.set(known.principal.tokenId, nowMs);
    return known.principal;
  }

  /** Refuses a second spelling of a known user. Whoever takes a user from outside asks here, before anything of that user is read. */
  checkUser(user: string): void {
    if (this.#knownUsers.has(user) || !this.#port.isKnownUser(user)) return;
    if (this.#knownUsers.size >= this.#limits.tokensCachedMax) this.#knownUsers.clear();
    this.#knownUsers.add(user);
  }

  /** Whether the token behind a caller is still good: a stream lives longer than the request that proved it. */
  isLive({ tokenId }: Pick<Caller, 'tokenId'>): boolean {
    if (tokenId === null) return true;
    const known = this.#verified.get(publicPartOf(tokenId)) ?? this.#port.findToken(tokenId);
    return known !== undefined && (known.expiresAtMs ?? Infinity) > this.#nowMs();
  }

  async createToken(
    caller: Caller,
    user: string,
    input: CreateTokenInput,
    idempotency: Idempotency | null,
  ): Promise<CreatedToken> {
    onlyOperator(caller);
    const { name, expires_in, expires_at, scopes } = validate(createTokenSchema, input);
    this.#checkName(name);
    checkScopeNamespaces(scopes.namespaces ?? null, 'body.scopes.namespaces', this.#limits);
    const nowMs = this.#nowMs();
    const expiresAtMs = expires_in !== undefined ? nowMs + expires_in * 1_000 : (expires_at ?? null);
    if (expiresAtMs !== null && expiresAtMs <= nowMs) {
      throw new StoaError('invalid_request', 'expires_at is in the past.', {
        details: { errors: [{ field: 'body.expires_at', message: 'is in the past.' }] },
      });
    }
    const owner = checkUserId(user, this.#limits.userIdBytesMax);
    this.checkUser(owner);
    const { id, token } = newToken();
    const record: TokenRecord = {
      id,
      user: owner,
      name,
      hash: hashToken(token),
      scopes: { write: scopes.write ?? true, namespaces: scopes.namespaces ?? null },
      createdAtMs: nowMs,
      expiresAtMs,
    };
    await this.#port.createToken(record, this.#limits.tokensPerUserMax, idempotency);
    return { ...tokenView(record, undefined), token };
  }

  /** In the order of their ids, without their secrets. */
  listTokens(caller: Caller, user: string, page: PageRequest = {}): Page<Token> {
    onlyOperator(caller);
    const owner = checkUserId(user, this.#limits.userIdBytesMax);
    const list = JSON.stringify(['tokens', owner]);
    const limit = pageLimit(page.limit, this.#limits);
    const found = this.#port.listTokens(
      owner,
      limit + 1,
      decodeCursor(list, page.cursor, tokenIdBytes)?.toString('hex'),
    );
    const items = found
      .slice(0, limit)
      .map(({ record, lastUsedAtMs }) => tokenView(record, this.#uses.get(record.id) ?? lastUsedAtMs));
    const last = found.length > limit ? items.at(-1) : undefined;
    return {
      items,
      next_cursor: last === undefined ? null : encodeCursor(list, Buffer.from(last.token_id, 'hex')),
    };
  }

  /** Revokes one token of a user, or all; a token that is not there is `not_found`. They are refused from this moment on. */
  async revokeTokens(caller: Caller, user: string, tokenId: string | undefined): Promise<string[]> {
    onlyOperator(caller);
    if (tokenId !== undefined && !tokenIdPattern.test(tokenId))
      throw new StoaError('invalid_id_digits', 'A token id has 20 hexadecimal digits.');
    const revoked = await this.#port.revokeTokens(checkUserId(user, this.#limits.userIdBytesMax), tokenId);
    if (tokenId !== undefined && revoked.length === 0)
      throw new StoaError('not_found', `The user has no token ${tokenId}.`);
    for (const id of revoked) this.forget(id);
    return revoked;
  }

  /** Drops what is remembered of a token that is no longer good. */
  forget(tokenId: string): void {
    this.#verified.delete(publicPartOf(tokenId));
    this.#uses.delete(tokenId);
  }

  start(): void {
    this.#writingUses ??= setInterval(() => void this.flush(), this.#limits.tokenUseSeconds * 1_000);
    this.#writingUses.unref();
  }

  /** Writes down when tokens were last used. */
  async flush(): Promise<void> {
    if (this.#uses.size === 0) return;
    const uses = this.#uses;
    this.#uses = new Map();
    try {
      await this.#port.recordUses(uses);
    } catch (error) {
      for (const [id, atMs] of uses) if (!this.#uses.has(id)) this.#uses.set(id, atMs);
      this.#onError(error, 'recording the last use of tokens');
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#writingUses);
    await this.flush();
  }

  #checkName(name: string): void {
    const { tokenNameCharactersMax } = this.#limits;
    if (Array.from(name).length > tokenNameCharactersMax)
      throw invalidFields([
        { field: 'body.name', message: `has at most ${tokenNameCharactersMax} characters` },
      ]);
  }

  #verify(token: string, nowMs: number): ProvenPrincipal {
    const hash = hashToken(token);
    if (sameHash(hash, this.#operatorHash))
      return this.#remember({ token, principal: operator, expiresAtMs: Infinity });
    const id = tokenIdOf(token);
    const record = id === undefined ? undefined : this.#port.findToken(id);
    if (record === undefined || !sameHash(hash, record.hash) || isExpired(record, nowMs)) {
      throw new StoaError('unauthenticated', 'The bearer token is unknown, revoked or expired.', {
        fix: 'Make a new one with "stoa token create".',
      });
    }
    this.#uses.set(record.id, nowMs);
    const principal: ProvenPrincipal = {
      kind: 'user',
      user: record.user,
      agent: null,
      identity: null,
      agentId: null,
      scopes: record.scopes,
      tokenId: record.id,
    };
    return this.#remember({ token, principal, expiresAtMs: record.expiresAtMs ?? Infinity });
  }

  #remember(verified: VerifiedToken): ProvenPrincipal {
    if (this.#verified.size >= this.#limits.tokensCachedMax) this.#verified.clear();
    this.#verified.set(publicPart(verified.token), verified);
    return verified.principal;
  }
}

function onlyOperator(caller: Caller): void {
  if (caller.kind !== 'operator') throw new StoaError('forbidden', 'Only the operator manages tokens.');
}
