/** The authenticated caller. Every service takes it as its first argument. */
import { StoaError } from './errors.js';

export interface Scopes {
  /** Without it the caller can only read. */
  write: boolean;
  /** The namespaces of the data store that the caller reaches; null means all. */
  namespaces: readonly string[] | null;
}

export interface Caller {
  kind: 'operator' | 'user' | 'agent';
  /**
   * The user whose data the request acts on. For the operator it is `default` unless the operator names a
   * user.
   */
  user: string;
  /** True for an operator who named no user: lists and the feed then cover every user. */
  everyUser: boolean;
  /** The agent's name for access tracking, claimed by header or proven by signature. */
  agent: string | null;
  /** The messaging identity of a signed caller. */
  identity: string | null;
  /** The key that signed the request. */
  publicKey?: string | undefined;
  /** The registry agent that a signed caller is linked to. */
  agentId: string | null;
  scopes: Scopes;
  /** The fencing number sent with `Stoa-Fence`. */
  fence: number | null;
  tokenId: string | null;
  /** The address that sent the request; undefined if a program uses the library. */
  address?: string;
}

export const fullScopes: Scopes = { write: true, namespaces: null };

/** Throws if the caller's credentials can only read. */
export function requireWriteScope({ scopes }: Pick<Caller, 'scopes'>): void {
  if (!scopes.write)
    throw new StoaError('forbidden', 'The request writes, but its credentials can only read.', {
      fix: 'Use a token with the write scope.',
    });
}

/** Throws unless the operator calls. `may` says what only the operator may do. */
export function requireOperator({ kind }: Pick<Caller, 'kind'>, may = 'do this'): void {
  if (kind !== 'operator')
    throw new StoaError('forbidden', `The caller is not the operator. Only the operator can ${may}.`, {
      fix: "Use the operator's token, in operator.token of the data directory.",
    });
}

/** The user of a caller who names none. */
export const defaultUser = 'default';

/** The operator: the caller of the library and of the CLI without a server. */
export function operatorCaller(user?: string, agent?: string): Caller {
  return {
    kind: 'operator',
    user: user ?? defaultUser,
    everyUser: user === undefined,
    agent: agent ?? null,
    identity: null,
    agentId: null,
    scopes: fullScopes,
    fence: null,
    tokenId: null,
  };
}
