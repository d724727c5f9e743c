/** A write checks its caller again, because it may have waited since the request was authenticated. */
import type { Caller } from '../../../core/caller.js';
import { isExpired, tokenRemovedError } from '../../../identity/tokens.js';
import { userKey } from '../../../identity/user-key.js';
import { checkSigner, isSigned } from '../../../messaging/identities/signed-caller.js';
import { uuidBytes } from '../../../messaging/identities/uuid.js';
import { idBytes } from '../../../registry/ids.js';
import { linkByIdentityKey } from '../../../registry/layout/keys.js';
import { agentSigns } from '../../../registry/refusals.js';
import type { Kernel } from '../kernel/kernel.js';
import { readIdentity } from '../messaging/identities/identities.js';
import { registryFamilies } from '../registry/families.js';
import { readToken } from './identity.js';

/** The identities that speak for an agent of a user, by its name. */
export type IdentitiesOf = (user: string, agent: string) => readonly string[];

/**
 * Refuses a caller whose token was revoked or has expired, whose agent has its own key by now, or whose key
 * or link has changed. Sees everything that was acknowledged.
 */
export function checkCaller(
  kernel: Kernel,
  caller: Caller,
  nowMs: number,
  identitiesOf: IdentitiesOf | undefined,
): void {
  const { tokenId, user, agent, agentId } = caller;
  if (tokenId !== null) {
    const record = readToken(kernel.root, Buffer.from(tokenId, 'hex'));
    if (record === undefined || isExpired(record, nowMs)) throw tokenRemovedError();
    if (agent !== null && (identitiesOf?.(user, agent).length ?? 0) > 0) throw agentSigns(agent);
  } else if (isSigned(caller)) {
    const { identity } = caller;
    const linked =
      agentId === null
        ? undefined
        : kernel
            .storeOf(userKey(user))
            .get(registryFamilies.identityLinks, linkByIdentityKey(identity))
            ?.equals(idBytes(agentId));
    checkSigner(caller, readIdentity(kernel.root, uuidBytes(identity)), linked === true);
  }
}
