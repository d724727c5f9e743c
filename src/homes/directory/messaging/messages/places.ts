/**
 * Finds a message whose id contains another time than its key: it was imported from a server that reads the
 * clock twice, or `stoa doctor` repaired its time. All other messages are stored at the time of their id.
 */
import type { Reader } from '../../kernel/transaction.js';
import { families, timeOfId, timeOfKey } from '../rows.js';

export function placeKey(owner: Buffer, id: Buffer): Buffer {
  return Buffer.concat([owner, id]);
}

/** The times at which a message with this id may be stored, the time of the id first. */
export function* placesOf(reader: Reader, owner: Buffer, id: Buffer): Generator<number> {
  yield timeOfId(id);
  const place = reader.get(families.places, placeKey(owner, id));
  if (place !== undefined) yield timeOfKey(place);
}
