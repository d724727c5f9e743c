/**
 * Where a message lies whose id holds another time: one that an import brought from a server which reads
 * the clock twice, or one whose time `stoa doctor` has mended. All others lie at the time of their id.
 */
import type { Reader } from '../kernel/transaction.js';
import { families, timeOfKey } from './rows.js';
import { timeOf } from './words.js';

export function placeKey(owner: Buffer, id: Buffer): Buffer {
  return Buffer.concat([owner, id]);
}

/** The times at which a message with this id may lie: its own first. */
export function* placesOf(reader: Reader, owner: Buffer, id: Buffer): Generator<number> {
  yield timeOf(id);
  const place = reader.get(families.places, placeKey(owner, id));
  if (place !== undefined) yield timeOfKey(place);
}
