/** A room watched: its newest messages, then what is said and deleted. No Node built-ins. */
import { followStream } from './follow.js';
import type { RoomClient, RoomMessage } from './rooms.js';
import type { Transport } from './transport.js';
import { type WatchEvent, type WatchSettings, untilAnswered } from './watch.js';

export type RoomChange =
  | { kind: 'message'; message: RoomMessage }
  /** Somebody took the message back. */
  | { kind: 'deleted'; id: string };

/** As many as a page of a room holds. */
const newestMessages = 200;

export async function* watchRoom(transport: Transport, room: RoomClient, place: { path: string; headers: Readonly<Record<string, string>> }, { since, signal }: WatchSettings): AsyncGenerator<WatchEvent<RoomMessage, RoomChange>> {
  /** The newest messages that the reader has, in order, to find those that go while the server is away. */
  const told = new Map<string, number>();
  const tell = ({ id, ts }: RoomMessage): void => {
    told.set(id, ts);
    for (const [oldest] of told) if (told.size > newestMessages) told.delete(oldest);
  };
  let after = since === undefined ? undefined : Number(since);
  if (after === undefined) {
    const items = (await room.read({ limit: newestMessages })).messages.toReversed();
    items.forEach(tell);
    if (items.length > 0) yield { kind: 'snapshot', items };
    after = items.at(-1)?.ts ?? 0;
    yield { kind: 'live', position: String(after) };
  }
  let position = String(after);
  let wasAway = false;
  const onReconnect = (): void => {
    wasAway = true;
  };
  for await (const { event, id, data } of followStream(transport, `${place.path}/stream`, { signal, after, headers: place.headers, onReconnect })) {
    if (wasAway) {
      wasAway = false;
      const deleted = await deletedSince(room, told, signal);
      if (deleted.length > 0) yield { kind: 'changes', items: deleted.map((gone) => ({ kind: 'deleted', id: gone })), position };
    }
    position = id ?? position;
    // The route declares what its events hold.
    if (event === 'message') {
      const message = JSON.parse(data) as RoomMessage;
      tell(message);
      yield { kind: 'changes', items: [{ kind: 'message', message }], position };
    } else if (event === 'deleted') {
      const { id: gone } = JSON.parse(data) as { id: string };
      told.delete(gone);
      yield { kind: 'changes', items: [{ kind: 'deleted', id: gone }], position };
    } else if (event === 'position') {
      yield { kind: 'live', position };
    }
  }
}

/** Those of the told messages that the room's newest page should hold and does not. */
async function deletedSince(room: RoomClient, told: Map<string, number>, signal: AbortSignal): Promise<string[]> {
  const { messages, has_more: hasMore } = await untilAnswered(() => room.read({ limit: newestMessages }), signal);
  const present = new Set(messages.map(({ id }) => id));
  const oldestMs = hasMore ? (messages.at(-1)?.ts ?? 0) : 0;
  const gone = [...told].flatMap(([id, ts]) => (ts >= oldestMs && !present.has(id) ? [id] : []));
  for (const id of gone) told.delete(id);
  return gone;
}
