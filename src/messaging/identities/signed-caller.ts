/** The rights of a signed identity, and whether it still has them after a request has waited. */
import type { Caller } from '../../core/caller.js';
import type { Identity } from '../model.js';
import { refuse } from '../refusals.js';

type SignedPrincipal = Pick<
  Caller,
  'kind' | 'user' | 'agent' | 'identity' | 'publicKey' | 'agentId' | 'scopes' | 'tokenId'
>;

/** The rights of a signed identity: messaging always, the data of its user if it is linked. */
export function principalOf(identity: Identity): SignedPrincipal {
  const { link } = identity;
  return {
    kind: 'agent',
    user: link?.user ?? '',
    agent: link?.agentName ?? identity.name,
    identity: identity.id,
    publicKey: identity.publicKey,
    agentId: link?.agentId ?? null,
    scopes: { write: link?.write ?? true, namespaces: link === null ? [] : link.namespaces },
    tokenId: null,
  };
}

/** A caller that signed its request. */
export type SignedCaller = SignedPrincipal & { identity: string; publicKey: string };

export function isSigned(caller: SignedPrincipal): caller is SignedCaller {
  return caller.identity !== null && caller.publicKey !== undefined;
}

/**
 * Refuses a caller whose key or link is no longer the one that its request was authenticated with.
 * `isLinked`: whether the registry has the link. It loses the link when the agent is deleted.
 */
export function checkSigner(caller: SignedCaller, now: Identity | undefined, isLinked: boolean): void {
  if (now?.publicKey !== caller.publicKey) throw refuse('signature');
  if (caller.agentId === null) return;
  const { user, agent, agentId, scopes } = principalOf(now);
  const isSame =
    isLinked &&
    user === caller.user &&
    // The server notes a call without a name, so that the note does not count as a call.
    (agent === caller.agent || caller.agent === null) &&
    agentId === caller.agentId &&
    scopes.write === caller.scopes.write &&
    JSON.stringify(scopes.namespaces) === JSON.stringify(caller.scopes.namespaces);
  if (!isSame) throw refuse('signerLink');
}
