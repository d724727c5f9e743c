/** Watches a room: its newest messages, then new and deleted messages. No Node built-ins. */
import { messages } from '../../api/rooms/operations.js';
import { followStream } from './follow.js';
import type { RoomClient, RoomMessage } from '../rooms.js';
import type { Transport } from '../transport/transport.js';
import { type WatchEvent, type WatchSettings, untilAnswered } from './watch.js';

export type RoomChange =
  | { kind: 'message'; message: RoomMessage }
  /** The message was deleted. */
  | { kind: 'deleted'; id: string };

type RoomEvent = WatchEvent<RoomMessage, RoomChange>;

/** The size of a page of a room. */
const pageMessages = 200;
/**
 * Messages of the reader that are remembered, newest first, to find those deleted while the server was
 * unreachable.
 */
const rememberedMessages = 10_000;

/** Which room, and the key of a private one. */
export interface Place {
  room: string;
  key: string | undefined;
}

export async function* watchRoom(
  transport: Transport,
  room: RoomClient,
  place: Place,
  { since, signal }: WatchSettings,
): AsyncGenerator<RoomEvent> {
  let after = since === undefined ? undefined : timeOf(since);
  for (let isRepeat = false; !signal.aborted; isRepeat = true) {
    const held = new HeldMessages(after === undefined);
    if (after === undefined) {
      const read = () => room.read({ limit: pageMessages, signal });
      const items = (await (isRepeat ? untilAnswered(read, signal) : read())).items.toReversed();
      for (const message of items) held.add(message);
      if (items.length > 0) yield { kind: 'snapshot', items };
      after = items.at(-1)?.ts ?? timeOf('0');
      yield { kind: 'live', position: positionOf(after) };
    }
    yield* live(transport, room, place, held, after, signal);
    if (signal.aborted) return;
    yield { kind: 'resync', detail: 'Older messages were imported into the room.' };
    after = undefined;
  }
}

/** Runs until the signal is aborted, or until a new snapshot is needed. */
async function* live(
  transport: Transport,
  room: RoomClient,
  place: Place,
  held: HeldMessages,
  after: string,
  signal: AbortSignal,
): AsyncGenerator<RoomEvent> {
  let position = positionOf(after);
  let wasAway = false;
  const onReconnect = (): void => {
    wasAway = true;
  };
  const settings = { signal, after, onReconnect };
  for await (const { event, id, data } of followStream(transport, messages.list, { ...place }, settings)) {
    if (wasAway) {
      wasAway = false;
      const items = (await held.missingFrom(room, signal)).map((gone): RoomChange => ({
        kind: 'deleted',
        id: gone,
      }));
      if (items.length > 0) yield { kind: 'changes', items, position };
    }
    position = id ?? position;
    // The route declares what its events hold.
    if (event === 'message') {
      const message = JSON.parse(data) as RoomMessage;
      held.add(message);
      yield { kind: 'changes', items: [{ kind: 'message', message }], position };
    } else if (event === 'deleted') {
      const { id: gone } = JSON.parse(data) as { id: string };
      // A deletion that was found by comparing has already been reported.
      if (held.remove(gone)) yield { kind: 'changes', items: [{ kind: 'deleted', id: gone }], position };
    } else if (event === 'position') {
      yield { kind: 'live', position };
    } else if (event === 'imported') {
      return;
    }
  }
}

/** A position of the stream is the time of a message in milliseconds. */
function timeOf(position: string): string {
  return new Date(Number(position)).toISOString();
}

function positionOf(time: string): string {
  return String(Date.parse(time));
}

class HeldMessages {
  /** Times by id, in the order of the room. */
  readonly #times = new Map<string, string>();
  #areAll: boolean;

  /** A reader who continues from a position has other messages too, which are unknown here. */
  constructor(areAll: boolean) {
    this.#areAll = areAll;
  }

  add({ id, ts }: RoomMessage): void {
    this.#times.set(id, ts);
    for (const [oldest] of this.#times) {
      if (this.#times.size <= rememberedMessages) return;
      this.#times.delete(oldest);
      this.#areAll = false;
    }
  }

  /** False for a message that the reader does not have. */
  remove(id: string): boolean {
    return this.#times.delete(id) || !this.#areAll;
  }

  /** The remembered messages that the room no longer has. */
  async missingFrom(room: RoomClient, signal: AbortSignal): Promise<string[]> {
    const oldest = this.#times.values().next().value;
    if (oldest === undefined) return [];
    const present = new Set<string>();
    for (let before: string | undefined, more = true; more;) {
      const page = await untilAnswered(() => room.read({ limit: pageMessages, before, signal }), signal);
      for (const { id } of page.items) present.add(id);
      before = page.items.at(-1)?.ts;
      // Times are written alike, so their texts are in the order of the times.
      more = page.next_cursor !== null && before !== undefined && before > oldest;
    }
    const gone = [...this.#times.keys()].filter((id) => !present.has(id));
    for (const id of gone) this.#times.delete(id);
    return gone;
  }
}
