/** Who calls, carried beside a request through the protocol's own notion of it. */
import type { AuthInfo, Server, ServerContext } from '@modelcontextprotocol/server';
import { StoaError } from '../errors.js';
import type { Caller } from '../identity/caller.js';

/** The proof stays here; the protocol's layers only pass the key to it along. */
const callers = new WeakMap<AuthInfo, Caller>();

/** What to hand to a transport for this caller. */
export function authInfoOf(caller: Caller): AuthInfo {
  const authInfo: AuthInfo = { token: '', clientId: caller.user, scopes: [] };
  // An agent's tools are about one user; the operator means `default` unless it names one.
  callers.set(authInfo, caller.everyUser ? { ...caller, everyUser: false } : caller);
  return authInfo;
}

/** The caller of a request. One that names no agent goes by the name of its program. */
export function callerOf(server: Server, context: ServerContext): Caller {
  const authInfo = context.http?.authInfo;
  const caller = authInfo === undefined ? undefined : callers.get(authInfo);
  if (caller === undefined) throw new StoaError('unauthenticated', 'This request proves nothing about its caller.');
  if (caller.agent !== null) return caller;
  const program = server.getClientVersion()?.name;
  return program === undefined || !/^[\x21-\x7e][\x20-\x7e]{0,99}$/.test(program) ? caller : { ...caller, agent: program };
}
