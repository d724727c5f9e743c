/** A write checks the token of its caller again, because it may have waited since the request was authenticated. */
import type { Caller } from '../../../core/caller.js';
import { isExpired, tokenRemovedError } from '../../../identity/tokens.js';
import type { Kernel } from '../kernel/kernel.js';
import { readToken } from './identity.js';

/** Refuses a caller whose token was revoked or has expired. Sees every revocation that was acknowledged. */
export function checkCallerToken(
  { root }: Kernel,
  { tokenId }: Pick<Caller, 'tokenId'>,
  nowMs: number,
): void {
  if (tokenId === null) return;
  const record = readToken(root, Buffer.from(tokenId, 'hex'));
  if (record === undefined || isExpired(record, nowMs)) throw tokenRemovedError();
}
