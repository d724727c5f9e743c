/** The rows of locks as readable JSON, for `stoa inspect`. */
import { userKeyBytes } from '../../../registry/layout/keys.js';
import { decodeCounters, decodeLock, lockFamilies as families, nameOfHolderKey } from './rows.js';

/** Undefined for a family of another domain. Throws for a row that cannot be read. */
export function decodeLocksEntry(family: string, key: Buffer, value: Buffer): unknown {
  const user_id = key.toString('hex', 0, userKeyBytes);
  switch (family) {
    case families.locks:
      return decodeLock(value);
    case families.locksByHolder:
      return { user_id, name: nameOfHolderKey(key) };
    case families.counters:
      return { user_id, ...decodeCounters(value) };
    default:
      return undefined;
  }
}
