/** The changes that identity announces, the same on every home. Only the operator sees them. */
import type { Change } from '../core/change.js';
import type { TokenRecord } from './tokens.js';

export function tokenChange(
  kind: 'token.created' | 'token.revoked' | 'token.expired',
  { id, user }: Pick<TokenRecord, 'id' | 'user'>,
): Change {
  return { domain: 'identity', kind, id, user, version: null, audience: 'operator' };
}
