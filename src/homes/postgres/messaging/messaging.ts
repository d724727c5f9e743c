/** Messaging on PostgreSQL and Redis: identities and rooms in the one, all that expires in the other. */
import { randomUUID } from 'node:crypto';
import type { Change } from '../../../core/change.js';
import type { Limits } from '../../../core/settings/limits.js';
import { importNotice } from '../../../messaging/imports.js';
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
import type { RateDecision } from '../../../messaging/sliding-windows.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, boundStatements, closePostgres, openPostgres, query } from '../connection.js';
import { HealthProbe } from '../health-probe.js';
import { RedisGuards } from './guards.js';
import { PostgresIdentities } from './identities.js';
import { RedisMessages } from './messages.js';
import { NewsFeed, newsChannel } from './news.js';
import { type RedisConnection, RedisKeys, closeRedis, openRedis, withRedis } from './redis.js';
import { PostgresRooms, RoomCounters } from './rooms.js';
import { messagingSchema, migrateMessagingUp } from './schema.js';
import { SearchRepair } from './search-repair.js';
import { searchRedis } from './search.js';
import { RedisStep } from './writer.js';
import { messagingRecords } from '../transfer/messaging.js';

export interface PostgresMessagingOptions {
  postgres: string;
  /** One URL, or several of a cluster, separated by commas. */
  redis: string;
  limits: Limits;
  nowMs: () => number;
  /** Tells this server's change feed what happened, on whichever server. */
  announce: (change: Change) => Promise<void>;
  onError: (error: unknown, about: string) => void;
}

export async function openPostgresMessaging(options: PostgresMessagingOptions): Promise<PostgresMessaging> {
  const sql = await openPostgres(new URL(options.postgres), {
    schema: messagingSchema,
    limits: options.limits,
  });
  try {
    await migrateMessagingUp(sql);
    boundStatements(sql, options.limits);
    const redis = await openRedis(options.redis, options.onError);
    try {
      const durable = await isSynced(redis);
      if (!durable)
        options.onError(
          new Error('Redis is not set to "appendfsync always"'),
          'messages in Redis may be lost with its machine',
        );
      const messaging = new PostgresMessaging(sql, redis, durable, options);
      await messaging.start();
      return messaging;
    } catch (error) {
      closeRedis(redis);
      throw error;
    }
  } catch (error) {
    await closePostgres(sql, 1);
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
  readonly #sql: PostgresSql;
  readonly #redis: RedisConnection;
  readonly #options: PostgresMessagingOptions;
  readonly #keys: RedisKeys;
  readonly #identities: PostgresIdentities;
  readonly #rooms: PostgresRooms;
  readonly #counters: RoomCounters;
  readonly #messages: RedisMessages;
  readonly #guards: RedisGuards;
  readonly #news: NewsFeed;
  readonly #searchRepair: SearchRepair;
  readonly #postgresProbe: HealthProbe;
  readonly #redisProbe: HealthProbe;

  constructor(sql: PostgresSql, redis: RedisConnection, durable: boolean, options: PostgresMessagingOptions) {
    const { limits, nowMs, announce, onError } = options;
    const origin = randomUUID();
    this.#sql = sql;
    this.#redis = redis;
    this.#options = options;
    this.#keys = new RedisKeys(redis.isCluster);
    this.#news = new NewsFeed({ redis, origin, announce, onError });
    this.#identities = new PostgresIdentities(sql, { nowMs, teller: this.#news, limits });
    this.#rooms = new PostgresRooms(sql, nowMs, this.#news);
    this.#counters = new RoomCounters(this.#rooms, onError);
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
        'Messages are as durable as Redis is configured to be; counters in PostgreSQL follow right after; the change feed of each server gets them as news, so that what happens while its connection to Redis is down is not in it.',
    };
  }

  /** News from all servers, and what a server left behind that ended in the midst of a post. */
  async start(): Promise<void> {
    await this.#news.start();
    await this.#catchUpCounters();
    if (this.#redis.isCluster) this.#searchRepair.start();
  }

  async #catchUpCounters(): Promise<void> {
    for (const key of await this.#guards.scan('room:*:count')) {
      const roomId = key.slice('room:'.length, -':count'.length).replaceAll(/[{}]/g, '');
      const [total, clock] = await withRedis(() =>
        Promise.all([this.#redis.commands.get(key), this.#redis.commands.get(this.#keys.roomClock(roomId))]),
      );
      if (total !== null) await this.#counters.record(roomId, Number(total), Number(clock ?? 0));
    }
  }

  nowMs(): number {
    return this.#options.nowMs();
  }

  // Identities

  register(input: NewIdentity): RedisStep<{ identity: Identity; created: boolean }> {
    return new RedisStep(() => this.#identities.register(input));
  }

  keep(kept: KeptIdentity): RedisStep<SealedIdentity> {
    return new RedisStep(() => this.#identities.keep(kept));
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

  updateProfile(id: string, profile: ProfileUpdate): RedisStep<Identity | undefined> {
    return new RedisStep(() => this.#identities.updateProfile(id, profile));
  }

  rotateKey(rotation: KeyRotation): RedisStep<'rotated' | 'taken' | 'stale'> {
    return new RedisStep(() => this.#identities.rotateKey(rotation));
  }

  keys(id: string): Promise<IdentityKey[]> {
    return this.#identities.keys(id);
  }

  link(before: Identity, link: IdentityLink | null): RedisStep<Identity> {
    return new RedisStep(() => this.#identities.link(before, link));
  }

  // Rooms

  createRoom(room: NewRoom): RedisStep<Room> {
    return new RedisStep(() => this.#rooms.create(room));
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
  post(input: NewMessage): RedisStep<Message> {
    return new RedisStep(() => this.#post(input, null));
  }

  async #post(input: NewMessage, delivery: string | null): Promise<Message> {
    const room = await this.#rooms.get(input.roomId);
    if (room === undefined) throw refuse('roomUnknown');
    const { message, total } = await this.#messages.post(input, room, delivery);
    await this.#counters.record(room.id, total, this.nowMs());
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

  deleteMessage(roomId: string, messageId: string): RedisStep<boolean> {
    return new RedisStep(async () => {
      const room = await this.#rooms.get(roomId);
      return room === undefined ? false : this.#messages.delete(room, messageId);
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

  send(message: NewDirectMessage): RedisStep<DirectMessage> {
    return new RedisStep(() => this.#messages.send(message));
  }

  inbox(agentId: string, span: Span): Promise<Page<DirectMessage>> {
    return this.#messages.inbox(agentId, span);
  }

  pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>> {
    return this.#messages.pending(agentId, afterMs, limit);
  }

  acknowledge(agentId: string, ids: readonly string[]): RedisStep<number> {
    return new RedisStep(() => this.#messages.acknowledge(agentId, ids));
  }

  // What commits have promised

  async deliver(delivery: Delivery): Promise<Delivered> {
    const { id, message } = delivery;
    const before = await this.#messages.deliveredBefore(delivery);
    if (before !== undefined) return before;
    if (!('roomId' in message)) {
      if ((await this.identity(message.to)) === undefined) throw refuse('recipientUnknown');
      return deliveredAs(await this.#messages.send(message, id));
    }
    return deliveredAs(await this.#post(message, id));
  }

  bytesLeft(agentId: string): Promise<number> {
    return this.#messages.bytesLeft(agentId);
  }

  /** Every kind of record for exports and imports. */
  records(): [type: string, store: RecordStore][] {
    const { limits, nowMs, announce } = this.#options;
    return messagingRecords({
      sql: this.#sql,
      restore: { redis: this.#redis, keys: this.#keys, limits, nowMs },
      identities: this.#identities,
      rooms: this.#rooms,
      messages: this.#messages,
      announce: async (change) => {
        await announce(change);
        const imported = importNotice(change);
        if (imported !== undefined) this.#news.notify(imported);
      },
    });
  }

  // Guards

  nonceUsed(agentId: string, nonce: string): Promise<boolean> {
    return this.#guards.nonceUsed(agentId, nonce);
  }

  useNonce(agentId: string, nonce: string): RedisStep<void> {
    return new RedisStep(async () => {
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

  async health(): Promise<{ postgres: HealthCheck; redis: HealthCheck }> {
    const [postgres, redis] = await Promise.all([this.#postgresProbe.check(), this.#redisProbe.check()]);
    return { postgres, redis };
  }

  async close(): Promise<void> {
    this.#news.close();
    await this.#searchRepair.close();
    await this.#counters.close();
    closeRedis(this.#redis);
    await closePostgres(this.#sql, 5);
  }
}

function deliveredAs({ id, tsMs }: Delivered): Delivered {
  return { id, tsMs };
}
