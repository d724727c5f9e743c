/** Who calls, carried beside a request through the protocol's own notion of it. */
import type { AuthInfo, Server, ServerContext } from '@modelcontextprotocol/server';
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';

/** The proof stays here; the protocol's layers only pass the key to it along. */
const callers = new WeakMap<AuthInfo, Caller>();

/** What to hand to a transport for this caller. */
export function authInfoOf(caller: Caller): AuthInfo {
  const authInfo: AuthInfo = { token: '', clientId: caller.user, scopes: [] };
  callers.set(authInfo, ofOneUser(caller));
  return authInfo;
}

/** An agent's tools are about one user; the operator means `default` unless it names one. */
export function ofOneUser(caller: Caller): Caller {
  return caller.everyUser ? { ...caller, everyUser: false } : caller;
}

/** The caller of a request. One that names no agent goes by the name of its program. */
export function callerOf(server: Server, context: ServerContext): Caller {
  const authInfo = context.http?.authInfo;
  const caller = authInfo === undefined ? undefined : callers.get(authInfo);
  if (caller === undefined)
    throw new StoaError('unauthenticated', 'This request proves nothing about its caller.');
  return namedBy(caller, server.getClientVersion()?.name);
}

export function namedBy(caller: Caller, program: string | undefined): Caller {
  if (caller.agent !== null) return caller;
  return program === undefined || !/^[\x21-\x7e][\x20-\x7e]{0,99}$/.test(program)
    ? caller
    : { ...caller, agent: program };
}
