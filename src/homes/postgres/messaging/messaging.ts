/** Messaging on PostgreSQL and Redis: identities and rooms in the one, all that expires in the other. */
import { randomUUID } from 'node:crypto';
import type { Limits } from '../../../core/settings/limits.js';
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
  Page,
  ProfileUpdate,
  RateKey,
  SealedIdentity,
  SearchQuery,
  SearchResult,
  Span,
} from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import type { RateDecision } from '../../../messaging/gate/sliding-windows.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, query } from '../connection.js';
import type { PostgresFeed } from '../feed/feed.js';
import { HealthProbe } from '../health-probe.js';
import { checkCallerToken } from '../identity/token-check.js';
import { RedisGuards } from './guards.js';
import { PostgresIdentities } from './identities.js';
import { RedisMessages } from './messages.js';
import { NewsFeed, newsChannel } from './news.js';
import { type RedisConnection, RedisKeys, claimRedis, closeRedis, openRedis, withRedis } from './redis.js';
import { MessageNotes } from './notes.js';
import { PostgresRooms } from './rooms.js';
import { migrateMessaging } from './schema.js';
import { SearchRepair } from './search-repair.js';
import { searchRedis } from './search.js';
import { PostgresStep } from '../step.js';
import type { PostgresWriter } from '../writer.js';
import { messagingRecords } from '../transfer/messaging.js';

export interface PostgresMessagingOptions {
  /** The pool of the home. */
  sql: PostgresSql;
  /** The writer of the home. */
  writer: PostgresWriter;
  feed: PostgresFeed;
  /** One URL, or several of a cluster, separated by commas. */
  redis: string;
  /** Names the Stoa: a Redis belongs to one of them. */
  storeId: string;
  limits: Limits;
  nowMs: () => number;
  onError: (error: unknown, about: string) => void;
}

export async function openPostgresMessaging(options: PostgresMessagingOptions): Promise<PostgresMessaging> {
  await migrateMessaging(options.sql);
  const redis = await openRedis(options.redis, options.onError);
  try {
    await claimRedis(redis, options.storeId);
    const durable = await isSynced(redis);
    if (!durable)
      options.onError(
        new Error('Redis is not set to "appendfsync always"'),
        'messages in Redis may be lost with its machine',
      );
    const messaging = new PostgresMessaging(redis, durable, options);
    await messaging.start();
    return messaging;
  } catch (error) {
    closeRedis(redis);
    throw error;
  }
}

/** Whether every write is on Redis's disk before it answers. A server that hides its settings counts as not. */
async function isSynced({ commands }: RedisConnection): Promise<boolean> {
  try {
    const [append, sync] = await Promise.all([
      commands.config('GET', 'appendonly'),
      commands.config('GET', 'appendfsync'),
    ]);
    return String(append).includes('yes') && String(sync).includes('always');
  } catch {
    return false;
  }
}

export class PostgresMessaging implements MessagingPort {
  readonly capabilities: MessagingCapabilities;
  readonly #redis: RedisConnection;
  readonly #options: PostgresMessagingOptions;
  readonly #keys: RedisKeys;
  readonly #identities: PostgresIdentities;
  readonly #rooms: PostgresRooms;
  readonly #messages: RedisMessages;
  readonly #guards: RedisGuards;
  readonly #news: NewsFeed;
  readonly #notes: MessageNotes;
  readonly #searchRepair: SearchRepair;
  readonly #postgresProbe: HealthProbe;
  readonly #redisProbe: HealthProbe;

  constructor(redis: RedisConnection, durable: boolean, options: PostgresMessagingOptions) {
    const { sql, feed, limits, nowMs, onError } = options;
    const origin = randomUUID();
    this.#redis = redis;
    this.#options = options;
    this.#keys = new RedisKeys(redis.isCluster);
    this.#news = new NewsFeed({ redis, origin, onError });
    this.#identities = new PostgresIdentities(sql, {
      nowMs,
      limits,
      onChanged: (id) => this.#news.identityChanged(id),
    });
    this.#rooms = new PostgresRooms(sql, nowMs);
    this.#messages = new RedisMessages({
      redis,
      keys: this.#keys,
      limits,
      nowMs,
      channel: newsChannel,
      origin,
      onError,
    });
    this.#guards = new RedisGuards(redis, this.#keys, limits, nowMs);
    this.#notes = new MessageNotes({
      redis,
      sql,
      onCarried: () => feed.committed(),
      scan: (pattern) => this.#guards.scan(pattern),
      onError,
    });
    this.#searchRepair = new SearchRepair({
      redis,
      limits,
      messages: this.#messages,
      guards: this.#guards,
      onError,
    });
    this.#postgresProbe = new HealthProbe({
      database: 'PostgreSQL',
      ask: () => query(sql, 'SELECT 1'),
      secondsMax: limits.healthSecondsMax,
    });
    this.#redisProbe = new HealthProbe({
      database: 'Redis',
      ask: () => withRedis(() => redis.commands.ping()),
      secondsMax: limits.healthSecondsMax,
    });
    this.capabilities = {
      oneCommit: false,
      durable,
      joinsCommits: false,
      sharedStore: true,
      about:
        'Messages are as durable as Redis is configured to be. Counters and the change feed in PostgreSQL follow right after.',
    };
  }

  async start(): Promise<void> {
    await this.#news.start();
    this.#notes.start();
    if (this.#redis.isCluster) this.#searchRepair.start();
  }

  nowMs(): number {
    return this.#options.nowMs();
  }

  // Identities

  register(input: NewIdentity): PostgresStep<{ identity: Identity; created: boolean }> {
    return this.#identities.register(input);
  }

  keep(kept: KeptIdentity): PostgresStep<SealedIdentity> {
    return this.#identities.keep(kept);
  }

  kept(owner: string): Promise<SealedIdentity | undefined> {
    return this.#identities.kept(owner);
  }

  resealKept(reseal: (sealedSeed: string, owner: string) => string): Promise<number> {
    return this.#identities.resealKept(reseal);
  }

  identity(id: string): Promise<Identity | undefined> {
    return this.#identities.get(id);
  }

  identities(ids: readonly string[]): Promise<Map<string, Identity>> {
    return this.#identities.many(ids);
  }

  updateProfile(id: string, profile: ProfileUpdate): PostgresStep<Identity | undefined> {
    return this.#identities.updateProfile(id, profile);
  }

  rotateKey(rotation: KeyRotation): PostgresStep<'rotated' | 'taken' | 'stale'> {
    return this.#identities.rotateKey(rotation);
  }

  keys(id: string): Promise<IdentityKey[]> {
    return this.#identities.keys(id);
  }

  link(before: Identity, link: IdentityLink | null): PostgresStep<Identity> {
    return this.#identities.link(before, link);
  }

  // Rooms

  createRoom(room: NewRoom): PostgresStep<Room> {
    return this.#rooms.create(room);
  }

  room(id: string): Promise<Room | undefined> {
    return this.#rooms.get(id);
  }

  rooms(ids: readonly string[]): Promise<Map<string, Room>> {
    return this.#rooms.many(ids);
  }

  roomKeyHash(id: string): Promise<string | null> {
    return this.#rooms.keyHash(id);
  }

  publicRooms(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    return this.#rooms.listPublic(limit, offset);
  }

  totals(): Promise<Totals> {
    return this.#rooms.totals();
  }

  // Messages

  /** What it was prepared with is not compared again: a script in Redis sees nothing of PostgreSQL. */
  post(input: NewMessage): PostgresStep<Message> {
    return this.#inRedis(() => this.#post(input, null));
  }

  async #post(input: NewMessage, delivery: string | null): Promise<Message> {
    const room = await this.#rooms.get(input.roomId);
    if (room === undefined) throw refuse('roomUnknown');
    const message = await this.#messages.post(input, room, delivery);
    await this.#notes.carry(this.#keys.roomNotes(room.id));
    return message;
  }

  messages(roomId: string, span: Span): Promise<Page<Message>> {
    return this.#messages.read(roomId, span);
  }

  message(roomId: string, messageId: string): Promise<Message | undefined> {
    return this.#messages.find(roomId, messageId);
  }

  thread(roomId: string, rootId: string, afterMs: number, limit: number): Promise<Page<Message>> {
    return this.#messages.thread(roomId, rootId, afterMs, limit);
  }

  deleteMessage(roomId: string, messageId: string): PostgresStep<boolean> {
    return this.#inRedis(async () => {
      const room = await this.#rooms.get(roomId);
      if (room === undefined || !(await this.#messages.delete(room, messageId))) return false;
      await this.#notes.carry(this.#keys.roomNotes(roomId));
      return true;
    });
  }

  search(query: SearchQuery): Promise<SearchResult> {
    const { limits, nowMs } = this.#options;
    return searchRedis(
      { redis: this.#redis, keys: this.#keys, limits, nowMs, messages: this.#messages },
      query,
    );
  }

  /** Another server may have changed the room a moment ago. */
  roomRevision(): undefined {
    return undefined;
  }

  // Direct messages

  send(message: NewDirectMessage): PostgresStep<DirectMessage> {
    return this.#inRedis(() => this.#send(message, null));
  }

  async #send(input: NewDirectMessage, delivery: string | null): Promise<DirectMessage> {
    const message = await this.#messages.send(input, delivery);
    await this.#notes.carry(this.#keys.inboxNotes(input.to));
    return message;
  }

  inbox(agentId: string, span: Span): Promise<Page<DirectMessage>> {
    return this.#messages.inbox(agentId, span);
  }

  pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>> {
    return this.#messages.pending(agentId, afterMs, limit);
  }

  acknowledge(agentId: string, ids: readonly string[]): PostgresStep<number> {
    return this.#inRedis(() => this.#messages.acknowledge(agentId, ids));
  }

  // What commits have promised

  async deliver(delivery: Delivery): Promise<Delivered> {
    const { id, message } = delivery;
    const before = await this.#messages.deliveredBefore(delivery);
    if (before !== undefined) return before;
    if (!('roomId' in message)) {
      if ((await this.identity(message.to)) === undefined) throw refuse('recipientUnknown');
      return deliveredAs(await this.#send(message, id));
    }
    return deliveredAs(await this.#post(message, id));
  }

  /** Brings the counters of rooms up to the messages that are there. */
  carryNotes(): Promise<void> {
    return this.#notes.carryAll();
  }

  bytesLeft(agentId: string): Promise<number> {
    return this.#messages.bytesLeft(agentId);
  }

  /** Every kind of record for exports and imports. */
  records(): [type: string, store: RecordStore][] {
    const { sql, writer, limits, nowMs } = this.#options;
    return messagingRecords({
      sql,
      restore: { redis: this.#redis, keys: this.#keys, limits, nowMs },
      identities: this.#identities,
      rooms: this.#rooms,
      messages: this.#messages,
      transact: (body) => writer.transact(body),
      onImported: (change) => {
        const imported = importNotice(change);
        if (imported !== undefined) this.#news.notify(imported);
      },
    });
  }

  // Guards

  nonceUsed(agentId: string, nonce: string): Promise<boolean> {
    return this.#guards.nonceUsed(agentId, nonce);
  }

  useNonce(agentId: string, nonce: string): PostgresStep<void> {
    return this.#inRedis(async () => {
      if (!(await this.#guards.claimNonce(agentId, nonce)).fresh) throw refuse('nonceUsed');
    });
  }

  claimNonce(agentId: string, nonce: string): Promise<NonceClaim> {
    return this.#guards.claimNonce(agentId, nonce);
  }

  takeRate(key: RateKey, limit: number, windowSeconds: number): Promise<RateDecision> {
    return this.#guards.takeRate(key, limit, windowSeconds);
  }

  returnRate(key: RateKey, windowSeconds: number): Promise<void> {
    return this.#guards.returnRate(key, windowSeconds);
  }

  recordViolation(address: string): Promise<boolean> {
    return this.#guards.recordViolation(address);
  }

  async block(block: Block): Promise<void> {
    await this.#guards.block(block);
    await this.#news.blocked(block.address);
  }

  blockOf(address: string): Promise<Block | undefined> {
    return this.#guards.blockOf(address);
  }

  blocks(after: string | null, limit: number): Promise<BlockPage> {
    return this.#guards.blocks(after, limit);
  }

  countBlocks(): Promise<number> {
    return this.#guards.countBlocks();
  }

  unblock(address: string): Promise<boolean> {
    return this.#guards.unblock(address);
  }

  // News and health

  subscribe(listener: (notice: Notice) => void): () => void {
    return this.#news.listen(listener);
  }

  async health(): Promise<Readonly<Record<string, HealthCheck>>> {
    const [postgres, redis] = await Promise.all([this.#postgresProbe.check(), this.#redisProbe.check()]);
    return { postgres, redis };
  }

  /**
   * Redis shares no transaction with PostgreSQL, so that the token is checked right before. With a fence the lease
   * stays locked until the message stands.
   */
  #inRedis<Result>(run: () => Promise<Result>): PostgresStep<Result> {
    const { sql, nowMs } = this.#options;
    return new PostgresStep(
      [],
      async (work) => {
        await work.irrevocable();
        return run();
      },
      async (caller) => {
        await checkCallerToken(sql, caller, nowMs());
        return run();
      },
    );
  }

  async close(): Promise<void> {
    this.#news.close();
    await this.#searchRepair.close();
    await this.#notes.close();
    closeRedis(this.#redis);
  }
}

function deliveredAs({ id, tsMs }: Delivered): Delivered {
  return { id, tsMs };
}
