/** Passes the caller of a request through the protocol's layers. */
import type { AuthInfo, Server, ServerContext } from '@modelcontextprotocol/server';
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import type { AgentAnswer } from '../registry/schemas.js';
import { nameCandidates, unusedName } from './sessions/names.js';

/** The caller stays here; the protocol's layers only pass the key of this map. */
const callers = new WeakMap<AuthInfo, Caller>();

/** The value to pass to a transport for this caller. */
export function authInfoOf(caller: Caller): AuthInfo {
  const authInfo: AuthInfo = { token: '', clientId: caller.user, scopes: [] };
  callers.set(authInfo, ofOneUser(caller));
  return authInfo;
}

/** Tools act for one user; for the operator that is `default` unless a user is named. */
export function ofOneUser(caller: Caller): Caller {
  return caller.everyUser ? { ...caller, everyUser: false } : caller;
}

/** The caller of a request. A caller without an agent name gets the name of its program. */
export function callerOf(server: Server, context: ServerContext): Caller {
  const authInfo = context.http?.authInfo;
  const caller = authInfo === undefined ? undefined : callers.get(authInfo);
  if (caller === undefined)
    throw new StoaError('unauthenticated', 'The request has no credentials.', {
      fix: 'Send "Authorization: Bearer TOKEN" or sign the request.',
    });
  return namedBy(caller, server.getClientVersion()?.name);
}

/** The header of an answer that says which agent the client is; percent-encoded, as in a request. */
export const agentHeader = 'stoa-agent';

/** The caller in the name of its session. A signed agent has the name of its identity. */
export function inSession(caller: Caller, agent: string): Caller {
  return caller.kind === 'agent' || agent === '' ? ofOneUser(caller) : { ...ofOneUser(caller), agent };
}

/** How the client of a caller gets another name. */
export interface Naming {
  /** A session keeps the name. Without one, the client sends it with each request. */
  readonly isKept: boolean;
  rename(agent: string): Promise<void>;
  /** The new name, if the call changed it. */
  renamed: string | undefined;
}

const namings = new WeakMap<Caller, Naming>();

/** Each call has its own caller object. */
export function withNaming(caller: Caller, rename?: (agent: string) => Promise<void>): Caller {
  const own = { ...caller };
  const naming: Naming = {
    isKept: rename !== undefined,
    renamed: undefined,
    rename: async (agent) => {
      await rename?.(agent);
      naming.renamed = agent;
    },
  };
  namings.set(own, naming);
  return own;
}

/** Undefined for a caller whose client names itself with each request. */
export function namingOf(caller: Caller): Naming | undefined {
  return namings.get(caller);
}

/** The caller without its name, for a client that chooses another one. */
export function unnamed(caller: Caller): Caller {
  const naming = namings.get(caller);
  const own = { ...caller, agent: null };
  if (naming !== undefined) namings.set(own, naming);
  return own;
}

/**
 * The name of a session whose client gave none. Its agent is made at once, so that sessions that open at the same time,
 * on this server or another, get different names.
 */
export async function makeNamedAgent(
  stoa: Stoa,
  caller: Caller,
  program: string | undefined,
): Promise<string> {
  const quiet = { ...ofOneUser(caller), agent: null, fence: null };
  for (const name of nameCandidates(program)) {
    if ((await agentNamed(stoa, caller, name)) !== undefined) continue;
    try {
      await stoa.registry.createAgent(quiet, { name });
      // Present from now on: an agent that never was would not be forgotten.
      await stoa.registry.recordAgentCall({ ...quiet, agent: name });
      return name;
    } catch (error) {
      if (!(error instanceof StoaError)) throw error;
      if (error.code !== 'already_exists') break;
    }
  }
  // The session can still read: with a token without the write scope, with as many agents as a user may have, or
  // with a full disk. If it can write later, its first write makes the agent.
  return unusedName(program);
}

/** The agent of the user with this name. */
export async function agentNamed(stoa: Stoa, caller: Caller, name: string): Promise<AgentAnswer | undefined> {
  // A signed agent lists only itself, and two agents must not have one name.
  const user = { ...ofOneUser(caller), kind: 'user' as const };
  return (await stoa.registry.listAgents(user, { name, limit: 1 })).items[0];
}

export function namedBy(caller: Caller, program: string | undefined): Caller {
  const agent = caller.agent ?? agentName(program);
  return agent === caller.agent ? caller : { ...caller, agent };
}

/** The name of a program, if an agent can have it. */
export function agentName(program: string | undefined): string | null {
  return program !== undefined && /^[\x21-\x7e][\x20-\x7e]{0,99}$/.test(program) ? program : null;
}
