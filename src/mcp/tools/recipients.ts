/** The identity that a message goes to, by the name or id that the tool was given. */
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';

/** A name that no agent of the user has is refused, with a similar name. */
export function recipientOf(stoa: Stoa, caller: Caller, to: string): Promise<string> {
  return stoa.messaging.direct.recipient(caller, to);
}
