/** The rows of locks as readable JSON, for `stoa inspect`. */
import { userKeyBytes } from '../../../registry/layout/keys.js';
import type { RowDecoders } from '../kernel/inspect/kernel-rows.js';
import { decodeCounters, decodeLock, lockFamilies as families, nameOfHolderKey } from './rows.js';

export const lockRows: RowDecoders = {
  [families.locks]: (_key, value) => decodeLock(value),
  [families.locksByHolder]: (key) => ({ user_id: userOf(key), name: nameOfHolderKey(key) }),
  [families.counters]: (key, value) => ({ user_id: userOf(key), ...decodeCounters(value) }),
};

function userOf(key: Buffer): string {
  return key.toString('hex', 0, userKeyBytes);
}
