/**
 * Sign-in to the console. A one-time link carries a code. The code is exchanged once for a session, which is
 * a token that expires: it is checked, listed, revoked and shared between servers like every other token.
 */
import { type Caller, type Scopes, defaultUser, operatorCaller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { type Writer, writeOne } from '../core/write.js';
import type { IdentityPort } from './port.js';
import {
  type TokenRecord,
  hashToken,
  isExpired,
  newToken,
  operatorMark,
  sameHash,
  tokenIdOf,
  tokenRemovedError,
} from './tokens.js';

export interface ConsoleSessionsOptions {
  writer: Writer;
  port: IdentityPort;
  limits: Limits;
  /** The first is the home's. */
  operatorTokenHashes: () => readonly string[] | Promise<readonly string[]>;
  nowMs: () => number;
}

/** A secret that is shown once, and when it expires. */
export interface Issued {
  token: string;
  expiresAtMs: number;
}

/** What a session allows. */
type Grant = Pick<TokenRecord, 'user' | 'scopes' | 'isOperator' | 'grantedBy'>;

export interface SessionFacts {
  kind: Caller['kind'];
  user: string;
  scopes: Scopes;
  expiresAtMs: number | null;
}

/** In the list of the user's tokens. */
const names = { sign_in: 'One-time link of the console', console: 'Console session' } as const;

export class ConsoleSessions {
  readonly #options: ConsoleSessionsOptions;

  constructor(options: ConsoleSessionsOptions) {
    this.#options = options;
  }

  /** The code of a link with the rights of the caller, never with more. */
  async createCode(caller: Caller): Promise<Issued> {
    const { writer, port, limits, nowMs } = this.#options;
    const own = await this.#ownToken(caller);
    // A session grants what its own token granted, so that a chain of links does not outlive the first token.
    const grantedBy = (own?.purpose === 'console' ? own.grantedBy : own?.id) ?? (await this.#operatorMark());
    const grant: Grant = {
      user: caller.everyUser ? defaultUser : caller.user,
      scopes: caller.scopes,
      isOperator: caller.kind === 'operator' && caller.everyUser,
      grantedBy,
    };
    const issued = this.#issue(
      'sign_in',
      grant,
      await this.#endOf(grant, limits.consoleLinkSeconds, nowMs()),
    );
    await port.checkUser(grant.user);
    const step = port.createToken(issued.record, limits.tokensPerUserMax);
    await writeOne(writer, { caller: operatorCaller(), idempotency: null }, step);
    return issued;
  }

  /** Exchanges a code for a session. If two exchanges of one code run at once, one is refused. */
  async signIn(code: string): Promise<Issued & { facts: SessionFacts }> {
    const { writer, port, limits, nowMs } = this.#options;
    const id = tokenIdOf(code);
    const link = id === undefined ? undefined : await port.findToken(id);
    if (link === undefined || link.purpose !== 'sign_in' || !sameHash(hashToken(code), link.hash))
      throw usedCode();
    if (isExpired(link, nowMs()) || !(await this.isGranted(link))) throw usedCode();
    const endMs = await this.#endOf(link, limits.consoleSessionSeconds, nowMs());
    const session = this.#issue('console', link, endMs);
    const taken = port.revokeTokens(link.user, link.id).map((revoked) => {
      if (!revoked.includes(link.id)) throw usedCode();
    });
    await writer.write({ caller: operatorCaller(), idempotency: null }, [
      taken,
      port.createToken(session.record, limits.tokensPerUserMax),
    ]);
    return { ...session, facts: factsOf(session.record) };
  }

  /** Ends the session of the caller. A token of the API stays valid. */
  async signOut(caller: Caller): Promise<void> {
    const { writer, port } = this.#options;
    const record = caller.tokenId === null ? undefined : await port.findToken(caller.tokenId);
    if (record?.purpose !== 'console') return;
    const step = port.revokeTokens(record.user, record.id);
    await writeOne(writer, { caller: operatorCaller(), idempotency: null }, step);
  }

  /** Who the caller is, for the page that the caller looks at. */
  async describe(caller: Caller): Promise<SessionFacts> {
    const record = caller.tokenId === null ? undefined : await this.#options.port.findToken(caller.tokenId);
    return record === undefined
      ? { kind: caller.kind, user: caller.user, scopes: caller.scopes, expiresAtMs: null }
      : { ...factsOf(record), user: caller.user };
  }

  /** Whether the token that a session was made with is still valid. A token of the API was made with none. */
  async isGranted({ grantedBy }: TokenRecord): Promise<boolean> {
    if (grantedBy === null) return true;
    return grantedBy.startsWith('operator:')
      ? grantedBy === (await this.#operatorMark())
      : (await this.#findParent(grantedBy)) !== undefined;
  }

  /** The caller's token; undefined for the operator's. It may have been removed since the request was authenticated. */
  async #ownToken({ tokenId }: Caller): Promise<TokenRecord | undefined> {
    if (tokenId === null) return undefined;
    const own = await this.#options.port.findToken(tokenId);
    if (own === undefined) throw tokenRemovedError();
    return own;
  }

  /** Never later than the token that granted it. */
  async #endOf({ grantedBy }: Grant, seconds: number, nowMs: number): Promise<number> {
    const parent = await this.#findParent(grantedBy);
    return Math.min(nowMs + seconds * 1_000, parent?.expiresAtMs ?? Infinity);
  }

  async #findParent(grantedBy: string | null): Promise<TokenRecord | undefined> {
    return grantedBy === null || grantedBy.startsWith('operator:')
      ? undefined
      : this.#options.port.findToken(grantedBy);
  }

  /** Replaced together with the operator's token. */
  async #operatorMark(): Promise<string> {
    const [home = ''] = await this.#options.operatorTokenHashes();
    return operatorMark(home);
  }

  #issue(
    purpose: keyof typeof names,
    { user, scopes, isOperator, grantedBy }: Grant,
    expiresAtMs: number,
  ): Issued & { record: TokenRecord } {
    const { id, token } = newToken();
    const createdAtMs = this.#options.nowMs();
    const hash = hashToken(token);
    const name = names[purpose];
    return {
      token,
      expiresAtMs,
      record: { id, user, name, purpose, isOperator, grantedBy, hash, scopes, createdAtMs, expiresAtMs },
    };
  }
}

function factsOf({ isOperator, user, scopes, expiresAtMs }: TokenRecord): SessionFacts {
  return { kind: isOperator ? 'operator' : 'user', user, scopes, expiresAtMs };
}

function usedCode(): StoaError {
  return new StoaError(
    'unauthenticated',
    'The sign-in link was used before, has expired or is not complete.',
    { fix: 'Make a new link with "stoa console".' },
  );
}
