/** Rooms: create, list, read, post and search. Private rooms need their key. */
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import type { Step, Writer } from '../../core/write.js';
import type { Limits } from '../../core/settings/limits.js';
import type { RoomPlace, RoomText } from '../messages/drafts.js';
import type { MessageHub } from '../messages/hub.js';
import type { Message, Room } from '../model.js';
import type { MessagingPort, Page, RoomName, RoomUpdate, Span } from '../port.js';
import type { CheckedSignature } from '../identities/proof.js';
import { refuse } from '../refusals.js';
import type { RoomAccess, RoomDoors, RoomReference } from './doors.js';
import { type MessagingSteps, type Posted, type RoomInput, writePrepared } from '../steps.js';
import { type SearchPage, type SearchRequest, searchRooms } from './search.js';
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

export class Rooms {
  readonly #options: RoomsOptions;

  constructor(options: RoomsOptions) {
    this.#options = options;
  }

  create(
    caller: Caller | null,
    input: RoomInput,
    signature: CheckedSignature | null,
    idempotency: Idempotency | null = null,
  ): Promise<Room> {
    return this.#write(caller, (steps) => steps.createRoom(caller, input, signature), idempotency);
  }

  /** The room, if the caller may enter it. The operator may enter every room. */
  enter(caller: Caller | null, reference: RoomReference, access: RoomAccess): Promise<Room> {
    return this.#options.doors.enter(caller, reference, access);
  }

  /** Begins to look up the room of a post by its id. An error is thrown where the room is awaited. */
  ahead(given: string): Promise<Room | undefined> | undefined {
    const id = canonicalRoomId(given);
    const looking = id === undefined ? undefined : this.#options.port.room(id);
    looking?.catch(() => undefined);
    return looking;
  }

  /** The room by its id or name, if it exists for the caller. Its messages may still need a key. */
  find(caller: Caller | null, room: string): Promise<Room> {
    return this.#options.doors.find(caller, { room, byName: true });
  }

  async update(caller: Caller, given: string, change: RoomUpdate, ifVersion?: number): Promise<Room> {
    return this.#write(caller, async (steps) =>
      steps.updateRoom(caller, await this.find(caller, given), change, ifVersion),
    );
  }

  async delete(caller: Caller, given: string, ifVersion?: number): Promise<void> {
    await this.#write(caller, async (steps) =>
      steps.deleteRoom(caller, await this.find(caller, given), ifVersion),
    );
  }

  /** Rooms of a user by name, or with null those of all users. */
  own(owner: string | null, after: RoomName | null, limit: number): Promise<Room[]> {
    return this.#options.port.ownRooms(owner, after, limit);
  }

  channels(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    return this.#options.port.publicRooms(limit, offset);
  }

  /** With `waitMs`, a page that would be empty waits for the next message. */
  async read(room: Room, span: Span, waitMs: number, signal: AbortSignal): Promise<Page<Message>> {
    const { port, hub } = this.#options;
    const page = await port.messages(room, span);
    if (page.items.length > 0 || waitMs === 0 || !('afterMs' in span)) return page;
    const came = await hub.wait({ kind: 'room', id: room.id, room }, span.afterMs, waitMs, signal);
    return came ? port.messages(room, span) : page;
  }

  async message(room: Room, messageId: string): Promise<Message> {
    const message = await this.#options.port.message(room, messageId);
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
    const message = await this.#options.port.message(room, messageId);
    const rootId = message?.rootId ?? messageId;
    if (ulidTimeMs(rootId) === undefined) throw refuse('messageUnknown');
    const page = await this.#options.port.thread(room, rootId, afterMs, limit);
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
    let { ahead } = place;
    const prepare = (steps: MessagingSteps): Promise<Step<Posted>> => {
      const first = ahead;
      ahead = undefined;
      return steps.post(caller, { ...place, ahead: first }, read, signature);
    };
    return this.#write(caller, prepare, idempotency);
  }

  remove(caller: Caller | null, reference: RoomReference, messageId: string): Promise<void> {
    return this.#write(caller, (steps) => steps.deleteMessage(caller, reference, messageId));
  }

  /** Messages of public rooms, and with `owner` of that user's rooms, newest first. */
  search(request: SearchRequest): Promise<SearchPage> {
    const { port, limits } = this.#options;
    return searchRooms(port, limits, request);
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
