/** Messaging: the port. Identities and rooms are in PostgreSQL, everything that expires is in Redis. */
import { importNotice } from '../../../messaging/messages/imports.js';
import type { Room } from '../../../messaging/model.js';
import type {
  Delivered,
  KeptIdentity,
  MessagingCapabilities,
  MessagingPort,
  OpeningMessage,
} from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import type { RequestRates } from '../../../core/request-rates.js';
import type { RecordStore } from '../../../transfer/port.js';
import type { Step } from '../../../core/write.js';
import { PostgresStep, postgresSteps } from '../write/step.js';
import type { Work } from '../write/work.js';
import { messagingRecords } from '../transfer/messaging.js';
import { type MessagingParts, type PostgresMessagingOptions, messagingParts } from './parts.js';
import { type RedisConnection, closeRedis } from './redis/connection.js';
import type { Delivery } from './redis/deliveries.js';
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

  readonly nowMs: MessagingPort['nowMs'] = () => this.#options.nowMs();

  /** Requests of callers over all servers, which Redis counts too. */
  get requestRates(): RequestRates {
    return this.#parts.requestRates;
  }

  // Identities

  readonly register: MessagingPort['register'] = (input) => this.#parts.identities.register(input);

  keepFirst<Result>(kept: readonly KeptIdentity[], given: Step<Result>): Step<Result> {
    if (kept.length === 0) return given;
    const [writing] = postgresSteps([given]);
    return new PostgresStep(writing?.locks ?? [], async (work) => {
      await this.#parts.identities.keepAll(work, kept);
      // The result of this very step.
      return (await writing?.run(work)) as Result;
    });
  }

  readonly kept: MessagingPort['kept'] = (keptFor) => this.#parts.identities.kept(keptFor);

  renameAgent(work: Work, agentId: string, name: string, linked: readonly string[]): Promise<void> {
    return this.#parts.identities.renameAgent(work, agentId, name, linked);
  }

  forgetKept(work: Work, agentId: string): Promise<void> {
    return this.#parts.identities.forgetKept(work, agentId);
  }

  readonly resealKept: MessagingPort['resealKept'] = (reseal) => this.#parts.identities.resealKept(reseal);

  readonly identity: MessagingPort['identity'] = (id) => this.#parts.identities.get(id);

  readonly identities: MessagingPort['identities'] = (ids) => this.#parts.identities.many(ids);

  readonly updateProfile: MessagingPort['updateProfile'] = (id, profile) =>
    this.#parts.identities.updateProfile(id, profile);

  readonly rotateKey: MessagingPort['rotateKey'] = (rotation) => this.#parts.identities.rotateKey(rotation);

  readonly keys: MessagingPort['keys'] = (id) => this.#parts.identities.keys(id);

  readonly link: MessagingPort['link'] = (before, link) => this.#parts.identities.link(before, link);

  // Rooms

  readonly createRoom: MessagingPort['createRoom'] = (room) => this.#parts.rooms.create(room);

  readonly updateRoom: MessagingPort['updateRoom'] = (id, change, ifVersion) =>
    this.#parts.rooms.update(id, change, ifVersion);

  readonly deleteRoom: MessagingPort['deleteRoom'] = (id, ifVersion) =>
    this.#parts.rooms.delete(id, ifVersion);

  readonly room: MessagingPort['room'] = (id) => this.#parts.rooms.get(id);

  readonly rooms: MessagingPort['rooms'] = (ids) => this.#parts.rooms.many(ids);

  readonly ownRoom: MessagingPort['ownRoom'] = (owner, name) => this.#parts.rooms.own(owner, name);

  readonly publicRoomsNamed: MessagingPort['publicRoomsNamed'] = (name, limit) =>
    this.#parts.rooms.publicNamed(name, limit);

  // Lists show the counters of rooms, which are changed right after a post.

  readonly ownRooms: MessagingPort['ownRooms'] = async (owner, after, limit) => {
    await this.#parts.feedOutbox.catchUp();
    return this.#parts.rooms.listOwned(owner, after, limit);
  };

  readonly roomKeyHash: MessagingPort['roomKeyHash'] = (id) => this.#parts.rooms.keyHash(id);

  readonly publicRooms: MessagingPort['publicRooms'] = async (limit, offset) => {
    await this.#parts.feedOutbox.catchUp();
    return this.#parts.rooms.listPublic(limit, offset);
  };

  readonly totals: MessagingPort['totals'] = async () => {
    await this.#parts.feedOutbox.catchUp();
    return this.#parts.rooms.totals();
  };

  // Messages

  readonly post: MessagingPort['post'] = (input, basis) => this.#sending.post(input, basis?.room);

  readonly postOpening: MessagingPort['postOpening'] = (opening) => this.#sending.postOpening(opening);

  openRoom(work: Work, opening: OpeningMessage): Promise<{ room: Room; created: boolean }> {
    return this.#sending.openRoom(work, opening);
  }

  readonly messages: MessagingPort['messages'] = (room, span) => this.#parts.messages.read(room, span);

  readonly message: MessagingPort['message'] = (room, messageId) =>
    this.#parts.messages.find(room, messageId);

  readonly thread: MessagingPort['thread'] = (room, rootId, afterMs, limit) =>
    this.#parts.messages.thread(room, rootId, afterMs, limit);

  readonly deleteMessage: MessagingPort['deleteMessage'] = (roomId, messageId) =>
    this.#sending.deleteMessage(roomId, messageId);

  readonly search: MessagingPort['search'] = (query) => {
    const { redis, keys, messages } = this.#parts;
    const { limits, nowMs } = this.#options;
    return searchRedis({ redis, keys, limits, nowMs, messages }, query);
  };

  /** Undefined, because another server can change a room or an inbox at any time. */
  readonly revision: MessagingPort['revision'] = () => undefined;

  // Direct messages

  readonly send: MessagingPort['send'] = (message) => this.#sending.send(message);

  readonly inbox: MessagingPort['inbox'] = (agentId, span) => this.#parts.inboxes.read(agentId, span);

  readonly pending: MessagingPort['pending'] = (agentId, afterMs, limit) =>
    this.#parts.inboxes.pending(agentId, afterMs, limit);

  readonly acknowledge: MessagingPort['acknowledge'] = (agentId, ids) =>
    this.#sending.inRedis(() => this.#parts.inboxes.acknowledge(agentId, ids));

  // Messages of commits

  deliver(delivery: Delivery, isCounted: boolean): Promise<Delivered> {
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

  /** Redis keeps each nonce for its full time. */
  readonly noncesForgotten: MessagingPort['noncesForgotten'] = () => false;

  readonly nonceUsed: MessagingPort['nonceUsed'] = (agentId, nonce) =>
    this.#parts.guards.nonceUsed(agentId, nonce);

  readonly useNonce: MessagingPort['useNonce'] = (agentId, nonce) =>
    this.#sending.inRedis(async () => {
      if (!(await this.#parts.guards.claimNonce(agentId, nonce)).fresh) throw refuse('nonceUsed');
    });

  readonly claimNonce: MessagingPort['claimNonce'] = (agentId, nonce, counted) =>
    this.#parts.guards.claimNonce(agentId, nonce, counted);

  readonly takeRate: MessagingPort['takeRate'] = (key, limit, windowSeconds) =>
    this.#parts.guards.takeRate(key, limit, windowSeconds);

  readonly returnRate: MessagingPort['returnRate'] = (key, windowSeconds) =>
    this.#parts.guards.returnRate(key, windowSeconds);

  readonly recordViolation: MessagingPort['recordViolation'] = (address) =>
    this.#parts.guards.recordViolation(address);

  readonly block: MessagingPort['block'] = async (block) => {
    await this.#parts.guards.block(block);
    await this.#parts.notices.blocked(block.address);
  };

  readonly blockOf: MessagingPort['blockOf'] = (address) => this.#parts.guards.blockOf(address);

  readonly blocks: MessagingPort['blocks'] = (after, limit) => this.#parts.guards.blocks(after, limit);

  readonly countBlocks: MessagingPort['countBlocks'] = () => this.#parts.guards.countBlocks();

  readonly unblock: MessagingPort['unblock'] = (address) => this.#parts.guards.unblock(address);

  // Notices and health

  readonly subscribe: MessagingPort['subscribe'] = (listener) => this.#parts.notices.listen(listener);

  readonly health: MessagingPort['health'] = async () => {
    const { probes } = this.#parts;
    const [postgres, redis] = await Promise.all([probes.postgres.check(), probes.redis.check()]);
    return { postgres, redis };
  };

  readonly close: MessagingPort['close'] = async () => {
    const { redis, notices, searchRepair, feedOutbox } = this.#parts;
    await notices.close();
    await searchRepair.close();
    await feedOutbox.close();
    closeRedis(redis);
  };
}
