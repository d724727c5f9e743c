/** The name under which the server keeps the identity of a user who acts without an agent. */
import { createHash } from 'node:crypto';

/** 64 hex digits, like the id of an agent, which is the name for an agent. */
export function ownerOfUser(user: string): string {
  return createHash('sha256')
    .update(JSON.stringify([user, null]))
    .digest('hex');
}
