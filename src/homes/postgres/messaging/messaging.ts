/** Messaging: the port. Identities and rooms are in PostgreSQL, everything that expires is in Redis. */
import { importNotice } from '../../../messaging/messages/imports.js';
import type {
  Block,
  DirectMessage,
  Identity,
  IdentityKey,
  IdentityLink,
  Message,
  Room,
  Totals,
} from '../../../messaging/model.js';
import type {
  Delivered,
  Delivery,
  HealthCheck,
  KeptFor,
  KeptIdentity,
  KeyRotation,
  MessagingCapabilities,
  MessagingPort,
  NewDirectMessage,
  NewIdentity,
  NewMessage,
  NewRoom,
  BlockPage,
  NonceClaim,
  Notice,
  OpeningMessage,
  Opened,
  Page,
  ProfileUpdate,
  RateKey,
  RoomName,
  RoomUpdate,
  SealedIdentity,
  SearchQuery,
  SearchResult,
  Span,
} from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import type { RoomKeep } from '../../../messaging/rooms/visibility.js';
import type { RateDecision } from '../../../messaging/gate/sliding-windows.js';
import type { RequestRates } from '../../../core/request-rates.js';
import type { RecordStore } from '../../../transfer/port.js';
import { checkCallerToken } from '../identity/token-check.js';
import { Outdated, type Step } from '../../../core/write.js';
import { PostgresStep, postgresSteps } from '../write/step.js';
import type { Work } from '../write/work.js';
import { messagingRecords } from '../transfer/messaging.js';
import { type MessageDelivery, deliveredBefore } from './redis/deliveries.js';
import { type MessagingParts, type PostgresMessagingOptions, messagingParts } from './parts.js';
import { type RedisConnection, closeRedis } from './redis/connection.js';
import type { Queryable } from '../database/connection.js';
import { PostgresSearchedMessages } from './searched-messages.js';
import { searchRedis } from './redis/search.js';

export class PostgresMessaging implements MessagingPort {
  readonly capabilities: MessagingCapabilities;
  readonly #options: PostgresMessagingOptions;
  readonly #parts: MessagingParts;

  constructor(redis: RedisConnection, durable: boolean, options: PostgresMessagingOptions) {
    this.#options = options;
    this.#parts = messagingParts(redis, options);
    this.capabilities = {
      durable,
      sharedStore: true,
      about:
        'Messages are as durable as Redis is configured to be. ' +
        'Counters and the change feed in PostgreSQL are updated right after.',
    };
  }

  async start(): Promise<void> {
    const { redis, notices, feedOutbox, searchRepair } = this.#parts;
    await notices.start();
    feedOutbox.start();
    if (redis.isCluster) searchRepair.start();
  }

  nowMs(): number {
    return this.#options.nowMs();
  }

  /** Requests of callers over all servers, which Redis counts too. */
  get requestRates(): RequestRates {
    return this.#parts.requestRates;
  }

  // Identities

  register(input: NewIdentity): PostgresStep<{ identity: Identity; created: boolean }> {
    return this.#parts.identities.register(input);
  }

  keep(kept: KeptIdentity): PostgresStep<SealedIdentity> {
    return this.#parts.identities.keep(kept);
  }

  keepFirst<Result>(kept: KeptIdentity | null, given: Step<Result>): Step<Result> {
    if (kept === null) return given;
    const [writing] = postgresSteps([given]);
    return new PostgresStep(writing?.locks ?? [], async (work) => {
      const { identity } = await this.#parts.identities.keepIn(work, kept);
      if (identity.id !== kept.id) throw new Outdated('The identity that the server keeps for the caller');
      // The result of this very step.
      return (await writing?.run(work)) as Result;
    });
  }

  kept(keptFor: KeptFor): Promise<SealedIdentity | undefined> {
    return this.#parts.identities.kept(keptFor);
  }

  renameAgent(work: Work, agentId: string, name: string, linked: readonly string[]): Promise<void> {
    return this.#parts.identities.renameAgent(work, agentId, name, linked);
  }

  forgetKept(work: Work, agentId: string): Promise<void> {
    return this.#parts.identities.forgetKept(work, agentId);
  }

  resealKept(reseal: (sealedSeed: string, id: string) => string): Promise<number> {
    return this.#parts.identities.resealKept(reseal);
  }

  identity(id: string): Promise<Identity | undefined> {
    return this.#parts.identities.get(id);
  }

  identities(ids: readonly string[]): Promise<Map<string, Identity>> {
    return this.#parts.identities.many(ids);
  }

  updateProfile(id: string, profile: ProfileUpdate): PostgresStep<Identity | undefined> {
    return this.#parts.identities.updateProfile(id, profile);
  }

  rotateKey(rotation: KeyRotation): PostgresStep<'rotated' | 'taken' | 'stale'> {
    return this.#parts.identities.rotateKey(rotation);
  }

  keys(id: string): Promise<IdentityKey[]> {
    return this.#parts.identities.keys(id);
  }

  link(before: Identity, link: IdentityLink | null): PostgresStep<Identity> {
    return this.#parts.identities.link(before, link);
  }

  // Rooms

  createRoom(room: NewRoom): PostgresStep<Room> {
    return this.#parts.rooms.create(room);
  }

  updateRoom(id: string, change: RoomUpdate): PostgresStep<Room> {
    return this.#parts.rooms.update(id, change);
  }

  deleteRoom(id: string): PostgresStep<boolean> {
    return this.#parts.rooms.delete(id);
  }

  room(id: string): Promise<Room | undefined> {
    return this.#parts.rooms.get(id);
  }

  rooms(ids: readonly string[]): Promise<Map<string, Room>> {
    return this.#parts.rooms.many(ids);
  }

  ownRoom(owner: string, name: string): Promise<Room | undefined> {
    return this.#parts.rooms.own(owner, name);
  }

  publicRoomsNamed(name: string, limit: number): Promise<Room[]> {
    return this.#parts.rooms.publicNamed(name, limit);
  }

  ownRooms(owner: string | null, after: RoomName | null, limit: number): Promise<Room[]> {
    return this.#parts.rooms.listOwned(owner, after, limit);
  }

  roomKeyHash(id: string): Promise<string | null> {
    return this.#parts.rooms.keyHash(id);
  }

  publicRooms(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    return this.#parts.rooms.listPublic(limit, offset);
  }

  totals(): Promise<Totals> {
    return this.#parts.rooms.totals();
  }

  // Messages

  /**
   * Does not check again what the message was prepared with (room key, author's key): a script in Redis
   * cannot read PostgreSQL.
   */
  post(input: NewMessage): PostgresStep<Delivered> {
    return this.#inRedis((place) => this.#once(place, input, () => this.#post(input, place)));
  }

  /** The room is written in the transaction in which Redis gets the message; no other server sees it before. */
  postOpening(opening: OpeningMessage): PostgresStep<Opened> {
    return new PostgresStep([], async (work) => {
      await work.checkBeforeEffect();
      const { room, created } = await this.openRoom(work, opening);
      await work.awaitSent();
      const input = { ...opening.message, roomId: room.id, parentId: null };
      const place = this.#inTransaction(work);
      const { id, tsMs } = await this.#once(place, input, () => this.#postTo(room, input, place));
      return { id, tsMs, roomId: room.id, created };
    });
  }

  /** The room of a message that may be the first, in the transaction of the message. */
  async openRoom(work: Work, { room: wanted }: OpeningMessage): Promise<{ room: Room; created: boolean }> {
    const opened = await this.#parts.rooms.open(work, wanted);
    if (opened.room.isPrivate) throw new Outdated(`The room "${wanted.name}"`);
    return opened;
  }

  async #post(input: NewMessage, place: RedisStep): Promise<Delivered> {
    const room = await this.#parts.rooms.get(input.roomId, place.sql);
    if (room === undefined) throw refuse('roomUnknown');
    return this.#postTo(room, input, place);
  }

  async #postTo(room: Room, input: NewMessage, place: RedisStep): Promise<Delivered> {
    const { keys, messages } = this.#parts;
    const message = await messages.post(input, room, place);
    await place.announce(keys.roomFeedOutbox(room.id));
    return message;
  }

  /** Does not act if Redis remembers this delivery. */
  async #once(
    { delivery }: RedisStep,
    message: NewMessage | NewDirectMessage,
    act: () => Promise<Delivered>,
  ): Promise<Delivered> {
    const before =
      delivery === null ? undefined : await deliveredBefore(this.#parts, { id: delivery, message });
    const { id, tsMs } = before ?? (await act());
    return { id, tsMs };
  }

  messages(room: RoomKeep, span: Span): Promise<Page<Message>> {
    return this.#parts.messages.read(room, span);
  }

  message(room: RoomKeep, messageId: string): Promise<Message | undefined> {
    return this.#parts.messages.find(room, messageId);
  }

  thread(room: RoomKeep, rootId: string, afterMs: number, limit: number): Promise<Page<Message>> {
    return this.#parts.messages.thread(room, rootId, afterMs, limit);
  }

  deleteMessage(roomId: string, messageId: string): PostgresStep<boolean> {
    return this.#inRedis(async (place) => {
      const room = await this.#parts.rooms.get(roomId, place.sql);
      const { keys, messages } = this.#parts;
      if (room === undefined || !(await messages.delete(room, messageId))) return false;
      await place.announce(keys.roomFeedOutbox(roomId));
      return true;
    });
  }

  search(query: SearchQuery): Promise<SearchResult> {
    const { redis, keys, messages } = this.#parts;
    const { limits, nowMs } = this.#options;
    return searchRedis({ redis, keys, limits, nowMs, messages }, query);
  }

  /** Undefined, because another server can change the room at any time. */
  roomRevision(): undefined {
    return undefined;
  }

  // Direct messages

  send(message: NewDirectMessage): PostgresStep<Delivered> {
    return this.#inRedis((place) => this.#once(place, message, () => this.#send(message, place)));
  }

  async #send(input: NewDirectMessage, place: RedisStep): Promise<Delivered> {
    const { keys, inboxes } = this.#parts;
    const message = await inboxes.send(input, place.delivery);
    await place.announce(keys.inboxFeedOutbox(input.to));
    return message;
  }

  inbox(agentId: string, span: Span): Promise<Page<DirectMessage>> {
    return this.#parts.inboxes.read(agentId, span);
  }

  pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>> {
    return this.#parts.inboxes.pending(agentId, afterMs, limit);
  }

  acknowledge(agentId: string, ids: readonly string[]): PostgresStep<number> {
    return this.#inRedis(() => this.#parts.inboxes.acknowledge(agentId, ids));
  }

  // Messages of commits

  deliver({ id, message }: Delivery, isCounted = false): Promise<Delivered> {
    const place: RedisStep = {
      ...this.#outsideTransaction,
      delivery: id,
      bytes: isCounted ? 'counted' : 'promised',
    };
    return this.#once(place, message, async () => {
      if ('roomId' in message) return this.#post(message, place);
      if ((await this.identity(message.to)) === undefined) throw refuse('recipientUnknown');
      return this.#send(message, place);
    });
  }

  countBytes(agentId: string, bytes: number): Promise<void> {
    return this.#parts.messages.countBytes(agentId, bytes);
  }

  returnBytes(agentId: string, bytes: number): Promise<void> {
    return this.#parts.messages.returnBytes(agentId, bytes);
  }

  /** For the search. */
  searched(): PostgresSearchedMessages {
    const { sql, limits } = this.#options;
    return new PostgresSearchedMessages(this.#parts, sql, limits);
  }

  /** The record types of exports and imports. */
  records(): [type: string, store: RecordStore][] {
    const { sql, writer, limits, nowMs } = this.#options;
    const { redis, keys, identities, rooms, messages, inboxes, notices } = this.#parts;
    return messagingRecords({
      sql,
      restore: { redis, keys, limits, nowMs },
      identities,
      rooms,
      messages,
      inboxes,
      transact: (body) => writer.transact(body),
      onImported: (change) => {
        const imported = importNotice(change);
        if (imported !== undefined) notices.notify(imported);
      },
    });
  }

  // Guards

  nonceUsed(agentId: string, nonce: string): Promise<boolean> {
    return this.#parts.guards.nonceUsed(agentId, nonce);
  }

  useNonce(agentId: string, nonce: string): PostgresStep<void> {
    return this.#inRedis(async () => {
      if (!(await this.#parts.guards.claimNonce(agentId, nonce)).fresh) throw refuse('nonceUsed');
    });
  }

  claimNonce(agentId: string, nonce: string): Promise<NonceClaim> {
    return this.#parts.guards.claimNonce(agentId, nonce);
  }

  takeRate(key: RateKey, limit: number, windowSeconds: number): Promise<RateDecision> {
    return this.#parts.guards.takeRate(key, limit, windowSeconds);
  }

  returnRate(key: RateKey, windowSeconds: number): Promise<void> {
    return this.#parts.guards.returnRate(key, windowSeconds);
  }

  recordViolation(address: string): Promise<boolean> {
    return this.#parts.guards.recordViolation(address);
  }

  async block(block: Block): Promise<void> {
    await this.#parts.guards.block(block);
    await this.#parts.notices.blocked(block.address);
  }

  blockOf(address: string): Promise<Block | undefined> {
    return this.#parts.guards.blockOf(address);
  }

  blocks(after: string | null, limit: number): Promise<BlockPage> {
    return this.#parts.guards.blocks(after, limit);
  }

  countBlocks(): Promise<number> {
    return this.#parts.guards.countBlocks();
  }

  unblock(address: string): Promise<boolean> {
    return this.#parts.guards.unblock(address);
  }

  // Notices and health

  subscribe(listener: (notice: Notice) => void): () => void {
    return this.#parts.notices.listen(listener);
  }

  async health(): Promise<Readonly<Record<string, HealthCheck>>> {
    const { probes } = this.#parts;
    const [postgres, redis] = await Promise.all([probes.postgres.check(), probes.redis.check()]);
    return { postgres, redis };
  }

  get #outsideTransaction(): RedisStep {
    return {
      sql: this.#options.sql,
      delivery: null,
      bytes: 'limited',
      announce: (list) => this.#parts.feedOutbox.move(list),
    };
  }

  #inTransaction(work: Work): RedisStep {
    return {
      sql: work.sql,
      delivery: work.effectName(),
      bytes: 'limited',
      announce: async (list) => work.afterCommit(() => this.#parts.feedOutbox.move(list)),
    };
  }

  /**
   * A step that writes to Redis, which is not part of the transaction in PostgreSQL. The token is checked
   * right before. With a fence, the lease stays locked until Redis has answered. Inside a transaction, the
   * step uses no second connection: many such steps at once would wait for each other's connections. With an
   * Idempotency-Key, Redis remembers the message too: a repeat finds it, also if the transaction failed.
   */
  #inRedis<Result>(run: (place: RedisStep) => Promise<Result>): PostgresStep<Result> {
    const { sql, nowMs } = this.#options;
    return new PostgresStep(
      [],
      async (work) => {
        await work.checkBeforeEffect();
        return run(this.#inTransaction(work));
      },
      async (caller) => {
        await checkCallerToken(sql, caller, nowMs());
        return run(this.#outsideTransaction);
      },
    );
  }

  async close(): Promise<void> {
    const { redis, notices, searchRepair, feedOutbox } = this.#parts;
    notices.close();
    await searchRepair.close();
    await feedOutbox.close();
    closeRedis(redis);
  }
}

/** Where a step that writes to Redis reads PostgreSQL, and when its change gets into the feed. */
interface RedisStep extends MessageDelivery {
  readonly sql: Queryable;
  /** Moves the list of the feed outbox, at once or after the commit. */
  announce(list: string): Promise<void>;
}
