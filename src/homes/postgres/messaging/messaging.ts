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
  MessageBasis,
  MessagingCapabilities,
  MessagingPort,
  NewDirectMessage,
  NewIdentity,
  NewMessage,
  NewRoom,
  BlockPage,
  CountedRequest,
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
import type { Step } from '../../../core/write.js';
import { PostgresStep, postgresSteps } from '../write/step.js';
import type { Work } from '../write/work.js';
import { messagingRecords } from '../transfer/messaging.js';
import { type MessagingParts, type PostgresMessagingOptions, messagingParts } from './parts.js';
import { type RedisConnection, closeRedis } from './redis/connection.js';
import { Sending } from './sending.js';
import { PostgresSearchedMessages } from './searched-messages.js';
import { searchRedis } from './redis/search/search.js';

export class PostgresMessaging implements MessagingPort {
  readonly capabilities: MessagingCapabilities;
  readonly #options: PostgresMessagingOptions;
  readonly #parts: MessagingParts;
  readonly #sending: Sending;

  constructor(redis: RedisConnection, durable: boolean, options: PostgresMessagingOptions) {
    this.#options = options;
    this.#parts = messagingParts(redis, options);
    this.#sending = new Sending(this.#parts, options);
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

  keepFirst<Result>(kept: readonly KeptIdentity[], given: Step<Result>): Step<Result> {
    if (kept.length === 0) return given;
    const [writing] = postgresSteps([given]);
    return new PostgresStep(writing?.locks ?? [], async (work) => {
      await this.#parts.identities.keepAll(work, kept);
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

  updateRoom(id: string, change: RoomUpdate, ifVersion?: number): PostgresStep<Room> {
    return this.#parts.rooms.update(id, change, ifVersion);
  }

  deleteRoom(id: string, ifVersion?: number): PostgresStep<boolean> {
    return this.#parts.rooms.delete(id, ifVersion);
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

  // Lists show the counters of rooms, which are changed right after a post.

  async ownRooms(owner: string | null, after: RoomName | null, limit: number): Promise<Room[]> {
    await this.#parts.feedOutbox.catchUp();
    return this.#parts.rooms.listOwned(owner, after, limit);
  }

  roomKeyHash(id: string): Promise<string | null> {
    return this.#parts.rooms.keyHash(id);
  }

  async publicRooms(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    await this.#parts.feedOutbox.catchUp();
    return this.#parts.rooms.listPublic(limit, offset);
  }

  async totals(): Promise<Totals> {
    await this.#parts.feedOutbox.catchUp();
    return this.#parts.rooms.totals();
  }

  // Messages

  post(input: NewMessage, basis?: MessageBasis): PostgresStep<Delivered> {
    return this.#sending.post(input, basis?.room);
  }

  postOpening(opening: OpeningMessage): PostgresStep<Opened> {
    return this.#sending.postOpening(opening);
  }

  openRoom(work: Work, opening: OpeningMessage): Promise<{ room: Room; created: boolean }> {
    return this.#sending.openRoom(work, opening);
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
    return this.#sending.deleteMessage(roomId, messageId);
  }

  search(query: SearchQuery): Promise<SearchResult> {
    const { redis, keys, messages } = this.#parts;
    const { limits, nowMs } = this.#options;
    return searchRedis({ redis, keys, limits, nowMs, messages }, query);
  }

  /** Undefined, because another server can change a room or an inbox at any time. */
  revision(): undefined {
    return undefined;
  }

  // Direct messages

  send(message: NewDirectMessage): PostgresStep<Delivered> {
    return this.#sending.send(message);
  }

  inbox(agentId: string, span: Span): Promise<Page<DirectMessage>> {
    return this.#parts.inboxes.read(agentId, span);
  }

  pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>> {
    return this.#parts.inboxes.pending(agentId, afterMs, limit);
  }

  acknowledge(agentId: string, ids: readonly string[]): PostgresStep<number> {
    return this.#sending.inRedis(() => this.#parts.inboxes.acknowledge(agentId, ids));
  }

  // Messages of commits

  deliver(delivery: Delivery, isCounted = false): Promise<Delivered> {
    return this.#sending.deliver(delivery, isCounted);
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
    return this.#sending.inRedis(async () => {
      if (!(await this.#parts.guards.claimNonce(agentId, nonce)).fresh) throw refuse('nonceUsed');
    });
  }

  claimNonce(agentId: string, nonce: string, counted?: CountedRequest): Promise<NonceClaim> {
    return this.#parts.guards.claimNonce(agentId, nonce, counted);
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

  async close(): Promise<void> {
    const { redis, notices, searchRepair, feedOutbox } = this.#parts;
    notices.close();
    await searchRepair.close();
    await feedOutbox.close();
    closeRedis(redis);
  }
}
