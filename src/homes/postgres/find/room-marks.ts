/**
 * Marks of whole rooms. Messages are in Redis, so the transaction that deletes a room or changes how long it
 * keeps its messages cannot list them. It marks the room; the filing then marks each message of the room that
 * the index has.
 */
import { Slices } from '../../../core/waiting/yielding.js';
import type { EntryName } from '../../../find/model.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { DeadPlaces } from '../../../find/segments/segment.js';
import type { Work } from '../write/work.js';
import { markNames } from './reindex/reindex.js';
import { messagesOwner } from './schema.js';
import { type SegmentRow, segmentColumns } from './segment-rows.js';

/** In place of the id of a message, which is never empty. */
const wholeRoom = '';
/** Messages that are marked in one statement. */
const namesPerStatement = 5_000;

/** In the transaction that changes the room. */
export function markRoom(work: Pick<Work, 'send'>, room: string): void {
  work.send(`INSERT INTO find.marks (owner, kind, collection, id) VALUES ($1, 'messages', $2, $3)`, [
    messagesOwner,
    room,
    wholeRoom,
  ]);
}

export function isRoomMark({ kind, id }: Pick<EntryName, 'kind' | 'id'>): boolean {
  return kind === 'messages' && id === wholeRoom;
}

/** Marks the messages of these rooms that the index has. Only the server that files does this. */
export async function markMessagesOf(work: Work, rooms: ReadonlySet<string>): Promise<void> {
  const rows = await work.rows<SegmentRow>(`SELECT ${segmentColumns} FROM find.segments WHERE owner = $1`, [
    messagesOwner,
  ]);
  const slices = new Slices();
  for (const { catalog: bytes, dead: deadBytes } of rows) {
    const catalog = new Catalog(bytes);
    const dead = new DeadPlaces(deadBytes);
    const names: EntryName[] = [];
    for (const { kind, collection, from, to } of catalog.ranges) {
      if (kind !== 'messages' || !rooms.has(collection)) continue;
      for (let place = from; place < to; place += 1) {
        if (!dead.has(place)) names.push(catalog.name(place));
        const pause = slices.pause();
        if (pause !== undefined) await pause;
      }
    }
    for (let at = 0; at < names.length; at += namesPerStatement)
      await markNames(work.sql, messagesOwner, names.slice(at, at + namesPerStatement));
  }
}
