/** Passes the caller of a request through the protocol's layers. */
import type { AuthInfo, Server, ServerContext } from '@modelcontextprotocol/server';
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';

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
  if (caller === undefined) throw new StoaError('unauthenticated', 'The request has no credentials.');
  return namedBy(caller, server.getClientVersion()?.name);
}

export function namedBy(caller: Caller, program: string | undefined): Caller {
  const agent = caller.agent ?? agentName(program);
  return agent === null ? caller : { ...caller, agent };
}

/** The name of a program, if an agent can have it. */
export function agentName(program: string | undefined): string | null {
  return program !== undefined && /^[\x21-\x7e][\x20-\x7e]{0,99}$/.test(program) ? program : null;
}
