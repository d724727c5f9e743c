/** Who calls, once it is proven: what every service takes as its first argument. */

export interface Scopes {
  /** Without it the caller can only read. */
  write: boolean;
  /** The namespaces of the data store that the caller reaches; null means all. */
  namespaces: readonly string[] | null;
}

export interface Caller {
  kind: 'operator' | 'user' | 'agent';
  /** The user whose things are meant. The operator acts for `default` unless it named one. */
  user: string;
  /** True for the operator who named no user: lists and the feed then cover every user. */
  everyUser: boolean;
  /** The agent's name for access tracking, claimed by header or proven by signature. */
  agent: string | null;
  /** The messaging identity of a signed caller. */
  identity: string | null;
  /** The registry agent that a signed caller is linked to. */
  agentId: string | null;
  scopes: Scopes;
  /** The fencing number sent with `Stoa-Fence`. */
  fence: number | null;
  tokenId: string | null;
  /** From where the request came; undefined inside a program that uses the library. */
  address?: string;
}

export const fullScopes: Scopes = { write: true, namespaces: null };

/** The user of callers that name none. */
export const defaultUser = 'default';

/** The operator, as the library and the CLI without a server act. */
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
