/**
 * New ids for an import: the same file always gets the same ids, so that an interrupted import can continue.
 */
import { createHash } from 'node:crypto';
import { globalRoomId } from '../../messaging/identities/uuid.js';
import type { MapId } from '../records/kinds.js';

/** `seed` is the hash of the file. Ids that the file does not define are kept. */
export function mapIds(seed: string, isDefined: (type: string, id: string) => boolean): MapId {
  return (type, id) => {
    if (!isDefined(type, id) || id === globalRoomId) return id;
    const hash = createHash('sha256').update(`${seed} ${type} ${id}`).digest('hex');
    if (/^[0-9a-f]{64}$/.test(id)) return hash;
    // The first half of a UUID is its time, and lists are in the order of ids, so the first half is kept.
    return id.replace(
      /([0-9a-fA-F]{4})-([0-9a-fA-F]{12})$/,
      (_, variant: string) => `${variant.slice(0, 1).toLowerCase()}${hash.slice(0, 3)}-${hash.slice(3, 15)}`,
    );
  };
}
