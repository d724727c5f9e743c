/** Rooms: create, list, read, post and search. Private rooms need their key. */
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Step, Writer } from '../../core/write.js';
import type { Limits } from '../../core/settings/limits.js';
import type { RoomPlace, RoomText } from '../messages/drafts.js';
import type { MessageHub } from '../messages/hub.js';
import type { Message, Room } from '../model.js';
import type { MessagePlace, MessagingPort, Page, Span } from '../port.js';
import type { CheckedSignature } from '../identities/proof.js';
import { refuse } from '../refusals.js';
import type { RoomAccess, RoomDoors } from './doors.js';
import { type MessagingSteps, type Posted, writePrepared } from '../steps.js';
import { queryWords } from '../messages/tokenizer.js';
import { ulidTimeMs } from '../messages/ulid.js';
import { canonicalRoomId } from '../identities/uuid.js';

export interface RoomsOptions {
  writer: Writer;
  port: MessagingPort;
  limits: Limits;
  steps: MessagingSteps;
  doors: RoomDoors;
  hub: MessageHub;
}

export interface SearchRequest {
  query: string;
  limit: number;
  room: string | undefined;
  afterMs: number;
  /** Null begins with the newest message. */
  from: SearchPosition | null;
}

/** Where the next page of a search begins: before a time, or after the last message shown. */
export interface SearchPosition {
  beforeMs: number;
  last: MessagePlace | null;
}

export interface SearchPage {
  results: { message: Message; room: Room }[];
  /** Null at the end. */
  next: SearchPosition | null;
  /** The search stopped at its limit of steps. */
  truncated: boolean;
}

export class Rooms {
  readonly #options: RoomsOptions;

  constructor(options: RoomsOptions) {
    this.#options = options;
  }

  create(
    caller: Caller | null,
    input: { name: string; is_private: boolean; key: string },
    signature: CheckedSignature | null,
    idempotency: Idempotency | null = null,
  ): Promise<Room> {
    return this.#write(caller, (steps) => steps.createRoom(caller, input, signature), idempotency);
  }

  /** The room, if the caller may enter it. The operator may enter every room. */
  enter(caller: Caller | null, id: string, access: RoomAccess): Promise<Room> {
    return this.#options.doors.enter(caller, id, access);
  }

  find(id: string): Promise<Room> {
    return this.#options.doors.find(id);
  }

  channels(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    return this.#options.port.publicRooms(limit, offset);
  }

  /** With `waitMs`, a page that would be empty waits for the next message. */
  async read(room: Room, span: Span, waitMs: number, signal: AbortSignal): Promise<Page<Message>> {
    const { port, hub } = this.#options;
    const page = await port.messages(room.id, span);
    if (page.items.length > 0 || waitMs === 0 || !('afterMs' in span)) return page;
    const came = await hub.wait({ kind: 'room', id: room.id }, span.afterMs, waitMs, signal);
    return came ? port.messages(room.id, span) : page;
  }

  async message(room: Room, messageId: string): Promise<Message> {
    const message = await this.#options.port.message(room.id, messageId);
    if (message === undefined) throw refuse('messageUnknown');
    return message;
  }

  /** The whole thread of a message. Any message of the thread can be named. */
  async thread(
    room: Room,
    messageId: string,
    afterMs: number,
    limit: number,
  ): Promise<{ rootId: string; page: Page<Message> }> {
    const message = await this.#options.port.message(room.id, messageId);
    const rootId = message?.rootId ?? messageId;
    if (ulidTimeMs(rootId) === undefined) throw refuse('messageUnknown');
    const page = await this.#options.port.thread(room.id, rootId, afterMs, limit);
    // The first message may be gone while its answers still exist.
    if (message === undefined && page.items.length === 0) throw refuse('messageUnknown');
    return { rootId, page };
  }

  /** `read` is called after the caller's access to the room was checked. */
  post(
    caller: Caller | null,
    place: RoomPlace,
    read: () => RoomText,
    signature: CheckedSignature | null,
    idempotency: Idempotency | null = null,
  ): Promise<Posted> {
    return this.#write(caller, (steps) => steps.post(caller, place, read, signature), idempotency);
  }

  remove(caller: Caller | null, roomId: string, messageId: string): Promise<void> {
    return this.#write(caller, (steps) => steps.deleteMessage(caller, roomId, messageId));
  }

  /** Public rooms only, newest first. A query without a usable word finds nothing. */
  async search({ query, limit, room, afterMs, from }: SearchRequest): Promise<SearchPage> {
    const { port, limits } = this.#options;
    if (query === '') throw refuse('queryMissing');
    if ([...query].length > limits.searchQueryCharactersMax) throw refuse('queryLong');
    const roomId = room === undefined ? null : canonicalRoomId(room);
    if (roomId === undefined) throw refuse('roomId');
    const words = queryWords(query);
    if (words.length === 0) return { results: [], next: null, truncated: false };
    // One more than is shown, to know whether there are more.
    const { messages: found, restBeforeMs } = await port.search({
      words,
      roomId,
      afterMs,
      beforeMs: from?.beforeMs ?? null,
      last: from?.last ?? null,
      limit: limit + 1,
    });
    const messages = found.slice(0, limit);
    const rooms = await port.rooms([...new Set(messages.map((message) => message.roomId))]);
    const results = messages.flatMap((message) => {
      const itsRoom = rooms.get(message.roomId);
      return itsRoom === undefined || itsRoom.isPrivate ? [] : [{ message, room: itsRoom }];
    });
    const last = messages.at(-1);
    if (found.length > limit && last !== undefined) {
      const { roomId: lastRoom, id: messageId, tsMs } = last;
      return { results, next: { beforeMs: tsMs, last: { roomId: lastRoom, messageId } }, truncated: false };
    }
    const next = restBeforeMs === null ? null : { beforeMs: restBeforeMs, last: null };
    return { results, next, truncated: next !== null };
  }

  #write<Result>(
    caller: Caller | null,
    prepare: (steps: MessagingSteps) => Promise<Step<Result>>,
    idempotency: Idempotency | null = null,
  ): Promise<Result> {
    const { writer, steps } = this.#options;
    return writePrepared(writer, caller, () => prepare(steps), idempotency);
  }
}
