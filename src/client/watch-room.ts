/** A room watched: its newest messages, then what is said and deleted. No Node built-ins. */
import { rooms } from '../api/messaging/operations.js';
import { followStream } from './follow.js';
import type { RoomClient, RoomMessage } from './rooms.js';
import type { Transport } from './transport.js';
import { type WatchEvent, type WatchSettings, untilAnswered } from './watch.js';

export type RoomChange =
  | { kind: 'message'; message: RoomMessage }
  /** Somebody took the message back. */
  | { kind: 'deleted'; id: string };

type RoomEvent = WatchEvent<RoomMessage, RoomChange>;

/** As many as a page of a room holds. */
const pageMessages = 200;
/** The newest messages that the reader has, so many of them, are remembered to find those that go while the server is away. */
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
  let after = since === undefined ? undefined : Number(since);
  for (let isRepeat = false; !signal.aborted; isRepeat = true) {
    const held = new HeldMessages(after === undefined);
    if (after === undefined) {
      const read = () => room.read({ limit: pageMessages, signal });
      const items = (await (isRepeat ? untilAnswered(read, signal) : read())).messages.toReversed();
      for (const message of items) held.add(message);
      if (items.length > 0) yield { kind: 'snapshot', items };
      after = items.at(-1)?.ts ?? 0;
      yield { kind: 'live', position: String(after) };
    }
    yield* live(transport, room, place, held, after, signal);
    if (signal.aborted) return;
    yield { kind: 'resync', detail: 'Messages of earlier times were imported into the room.' };
    after = undefined;
  }
}

/** Until the signal ends it, or until only a new snapshot can tell what is there. */
async function* live(
  transport: Transport,
  room: RoomClient,
  place: Place,
  held: HeldMessages,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<RoomEvent> {
  let position = String(after);
  let wasAway = false;
  const onReconnect = (): void => {
    wasAway = true;
  };
  const settings = { signal, after, onReconnect };
  for await (const { event, id, data } of followStream(transport, rooms.stream, { ...place }, settings)) {
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
      // What was found to be gone has been told already.
      if (held.remove(gone)) yield { kind: 'changes', items: [{ kind: 'deleted', id: gone }], position };
    } else if (event === 'position') {
      yield { kind: 'live', position };
    } else if (event === 'imported') {
      return;
    }
  }
}

class HeldMessages {
  /** Times by id, in the order of the room. */
  readonly #times = new Map<string, number>();
  #areAll: boolean;

  /** A reader who goes on from a position has others too, of which nothing is known here. */
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

  /** False for what the reader is known not to have. */
  remove(id: string): boolean {
    return this.#times.delete(id) || !this.#areAll;
  }

  /** Those that the room has no longer, from the newest back to the oldest that is remembered. */
  async missingFrom(room: RoomClient, signal: AbortSignal): Promise<string[]> {
    const oldest = this.#times.values().next().value;
    if (oldest === undefined) return [];
    const present = new Set<string>();
    for (let before: number | undefined, more = true; more;) {
      const page = await untilAnswered(() => room.read({ limit: pageMessages, before, signal }), signal);
      for (const { id } of page.messages) present.add(id);
      before = page.messages.at(-1)?.ts;
      more = page.has_more && before !== undefined && before > oldest;
    }
    const gone = [...this.#times.keys()].filter((id) => !present.has(id));
    for (const id of gone) this.#times.delete(id);
    return gone;
  }
}
