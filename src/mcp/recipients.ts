/** Who a direct message is for, by name or id. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Stoa } from '../index.js';
import { canonicalUuid } from '../messaging/identities/uuid.js';

/**
 * The identity of an agent of the same user: its own, or one that the server keeps for it and creates with
 * the first message to it. An id is taken as it is.
 */
export async function recipientOf(stoa: Stoa, caller: Caller, to: string): Promise<string> {
  const id = canonicalUuid(to);
  if (id !== undefined) return id;
  const isName =
    to.trim() !== '' &&
    Buffer.byteLength(to) <= stoa.limits.agentHeaderBytesMax &&
    !/[\p{Cc}\p{Cs}]/u.test(to);
  if (!isName) throw new StoaError('invalid_request', 'to: is not the name or id of an agent.');
  const own = await stoa.registry.identityOf(caller.user, to);
  if (own !== undefined) return own;
  if (!caller.scopes.write) throw new StoaError('forbidden', 'These credentials can only read.');
  return stoa.messaging.direct.recipientOf({ ...caller, agent: to });
}
