/**
 * Where a message lies whose id holds another time: one that an import brought from a server which reads
 * the clock twice, or one whose time `stoa doctor` has mended. All others lie at the time of their id.
 */
import type { Reader, Transaction } from '../kernel/transaction.js';
import { families, nothing, timeOfKey, timedKey } from './rows.js';
import { timeOf } from './words.js';

/** A message's id in bytes, and its time in its room or inbox. */
export interface Placed {
  id: Buffer;
  tsMs: number;
}

export function placeKey(owner: Buffer, id: Buffer): Buffer {
  return Buffer.concat([owner, id]);
}

export function putPlace(tx: Transaction, owner: Buffer, { id, tsMs }: Placed): void {
  if (timeOf(id) !== tsMs) tx.put(families.places, placeKey(owner, id), timedKey(nothing, tsMs));
}

export function deletePlace(tx: Transaction, owner: Buffer, { id, tsMs }: Placed): void {
  if (timeOf(id) !== tsMs) tx.delete(families.places, placeKey(owner, id));
}

/** The times at which a message with this id may lie: its own first. */
export function* placesOf(reader: Reader, owner: Buffer, id: Buffer): Generator<number> {
  yield timeOf(id);
  const place = reader.get(families.places, placeKey(owner, id));
  if (place !== undefined) yield timeOfKey(place);
}
