/** Messaging in the data directory. Everything is in shard 00, and each write is a step. */
import { messageOf } from '../../../core/errors.js';
import type { Step } from '../../../core/write.js';
import { type DirectoryStep, type Now, step } from '../step.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Commit } from '../../../feed/port.js';
import type { Transaction } from '../kernel/transaction.js';
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
  TopicName,
} from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import type { RoomKeep } from '../../../messaging/rooms/visibility.js';
import type { RateDecision } from '../../../messaging/gate/sliding-windows.js';
import { uuidBytes } from '../../../messaging/identities/uuid.js';
import type { MessageIndex } from '../find/message-index.js';
import { requireBasis } from './basis.js';
import { Blocks } from './guards/blocks.js';
import { deliver } from './messages/deliveries.js';
import { noticesOf } from './notices.js';
import { Rates } from './guards/rates.js';
import { Nonces } from './guards/nonces.js';
import * as identities from './identities/identities.js';
import * as inboxes from './messages/inboxes.js';
import { handleExpiry } from './retention.js';
import { KeptIdentities } from './identities/kept-identities.js';
import type { DirectoryMessagingOptions } from './open.js';
import * as messages from './messages/messages.js';
import * as rooms from './rooms/rooms.js';
import type { RoomRows } from './rooms/stored-rooms.js';
import { searchMessages } from './messages/search.js';
import { readCounts, readTotals } from './totals.js';
import { Revisions } from './messages/revisions.js';

const warn = (error: unknown, about: string): void => process.emitWarning(`${about}: ${messageOf(error)}`);

export class DirectoryMessaging implements MessagingPort {
  readonly capabilities: MessagingCapabilities = {
    durable: true,
    sharedStore: false,
    about:
      'A message, its index rows, its counters and its change are one commit on disk. Rate-limit windows are kept in memory and written every few seconds: a crash loses the last seconds.',
  };
  readonly #kernel: Kernel;
  readonly #kept: KeptIdentities;
  readonly #rates: Rates;
  readonly #blocks: Blocks;
  readonly #revisions: Revisions;
  readonly #rooms: RoomRows;
  readonly #index: MessageIndex;
  readonly #nonces: Nonces;
  readonly #listeners = new Set<(notice: Notice) => void>();
  readonly #stopFeed: () => void;

  constructor({ kernel, agents, rooms: rows, index, onError = warn }: DirectoryMessagingOptions) {
    this.#kernel = kernel;
    this.#kept = new KeptIdentities(kernel, agents);
    this.#rooms = rows;
    this.#index = index;
    this.#blocks = new Blocks(kernel.root);
    this.#rates = new Rates(kernel, onError);
    this.#nonces = new Nonces(kernel.root, kernel.limits);
    this.#revisions = new Revisions(kernel.root);
    this.#stopFeed = kernel.root.onCommit((commits) => this.#notice(commits));
    handleExpiry(kernel, (address) => this.#blocks.forget(address));
  }

  /** Loads the rate windows that were written down before the last stop. */
  loadRates(): Promise<void> {
    return this.#rates.start();
  }

  nowMs(): number {
    return this.#kernel.nowMs();
  }

  /** Everything is in shard 00. */
  #step<Result>(run: (tx: Transaction) => Result & Now<Result>): DirectoryStep<Result> {
    return step<Result>(this.#kernel.root, run);
  }

  // Identities

  register(input: NewIdentity): DirectoryStep<{ identity: Identity; created: boolean }> {
    return this.#step((tx) => identities.register(tx, input));
  }

  keepFirst<Result>(kept: readonly KeptIdentity[], given: Step<Result>): Step<Result> {
    return this.#kept.keepFirst(kept, given);
  }

  async kept(keptFor: KeptFor): Promise<SealedIdentity | undefined> {
    return this.#kept.find(keptFor);
  }

  resealKept(reseal: (sealedSeed: string, id: string) => string): Promise<number> {
    return this.#kept.reseal(reseal);
  }

  async identity(id: string): Promise<Identity | undefined> {
    return identities.readIdentity(this.#kernel.root, uuidBytes(id));
  }

  async identities(ids: readonly string[]): Promise<Map<string, Identity>> {
    return identities.identitiesOf(this.#kernel.root, ids);
  }

  updateProfile(id: string, profile: ProfileUpdate): DirectoryStep<Identity | undefined> {
    return this.#step((tx) => identities.updateProfile(tx, id, profile));
  }

  rotateKey(rotation: KeyRotation): DirectoryStep<'rotated' | 'taken' | 'stale'> {
    return this.#step((tx) => identities.rotateKey(tx, rotation, this.#kernel.limits));
  }

  async keys(id: string): Promise<IdentityKey[]> {
    return identities.keysOf(this.#kernel.root, id);
  }

  link(before: Identity, link: IdentityLink | null): DirectoryStep<Identity> {
    return this.#step((tx) => identities.link(tx, before, link));
  }

  // Rooms

  createRoom(room: NewRoom): DirectoryStep<Room> {
    return this.#step((tx) => rooms.createRoom(tx, this.#kernel.limits, room));
  }

  updateRoom(id: string, change: RoomUpdate, ifVersion?: number): DirectoryStep<Room> {
    return this.#step((tx) => rooms.updateRoom(tx, id, change, ifVersion));
  }

  deleteRoom(id: string, ifVersion?: number): DirectoryStep<boolean> {
    return this.#step((tx) => rooms.deleteRoom(tx, id, ifVersion));
  }

  async room(id: string): Promise<Room | undefined> {
    return this.#rooms.get(id);
  }

  async rooms(ids: readonly string[]): Promise<Map<string, Room>> {
    return new Map(
      ids.flatMap((id) => this.#rooms.get(id) ?? []).map((room): [string, Room] => [room.id, room]),
    );
  }

  async ownRoom(owner: string, name: string): Promise<Room | undefined> {
    return rooms.ownRoom(this.#kernel.root, owner, name);
  }

  async publicRoomsNamed(name: string, limit: number): Promise<Room[]> {
    return rooms.publicRoomsNamed(this.#kernel.root, name, limit);
  }

  async ownRooms(owner: string | null, after: RoomName | null, limit: number): Promise<Room[]> {
    return rooms.ownRooms(this.#kernel.root, owner, after, limit);
  }

  async roomKeyHash(id: string): Promise<string | null> {
    return rooms.readKeyHash(this.#kernel.root, id);
  }

  async publicRooms(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    const keys = await rooms.publicRoomKeys(this.#kernel.root, limit, offset);
    return {
      rooms: keys.flatMap((key) => this.#rooms.at(key) ?? []),
      total: readCounts(this.#kernel.root).publicRooms,
    };
  }

  async totals(): Promise<Totals> {
    return readTotals(this.#kernel.root);
  }

  // Messages

  post(message: NewMessage, basis?: MessageBasis): DirectoryStep<Message> {
    return this.#step((tx) => {
      if (basis !== undefined) requireBasis(tx, message, basis);
      return messages.postMessage(tx, this.#kernel.limits, message);
    });
  }

  postOpening({ room, message }: OpeningMessage, basis?: MessageBasis): DirectoryStep<Opened> {
    return this.#step((tx) => {
      const { roomId, created } = rooms.openRoom(tx, this.#kernel.limits, room);
      const input = { ...message, roomId, parentId: null };
      if (basis !== undefined) requireBasis(tx, input, basis);
      const { id, tsMs } = messages.postMessage(tx, this.#kernel.limits, input);
      return { id, tsMs, roomId, created };
    });
  }

  async messages(room: RoomKeep, span: Span): Promise<Page<Message>> {
    return messages.readMessages(this.#kernel.root, this.#kernel.limits, room, span, this.nowMs());
  }

  async message(room: RoomKeep, messageId: string): Promise<Message | undefined> {
    return messages.findMessage(this.#kernel.root, this.#kernel.limits, room, messageId, this.nowMs());
  }

  async thread(room: RoomKeep, rootId: string, afterMs: number, limit: number): Promise<Page<Message>> {
    return messages.readThread(
      this.#kernel.root,
      this.#kernel.limits,
      room,
      rootId,
      afterMs,
      limit,
      this.nowMs(),
    );
  }

  deleteMessage(roomId: string, messageId: string): DirectoryStep<boolean> {
    return this.#step((tx) => messages.deleteMessage(tx, this.#kernel.limits, roomId, messageId));
  }

  search(query: SearchQuery): Promise<SearchResult> {
    const { limits } = this.#kernel;
    return searchMessages({ index: this.#index, rooms: this.#rooms, limits }, query);
  }

  revision(topic: TopicName): number {
    return this.#revisions.of(topic);
  }

  // Direct messages

  send(message: NewDirectMessage, basis?: MessageBasis): DirectoryStep<DirectMessage> {
    return this.#step((tx) => {
      if (basis !== undefined) requireBasis(tx, message, basis);
      return inboxes.sendDirect(tx, this.#kernel.limits, message);
    });
  }

  async inbox(agentId: string, span: Span): Promise<Page<DirectMessage>> {
    return inboxes.readInbox(this.#kernel.root, this.#kernel.limits, agentId, span, this.nowMs());
  }

  async pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>> {
    return inboxes.readPending(this.#kernel.root, this.#kernel.limits, agentId, afterMs, limit, this.nowMs());
  }

  acknowledge(agentId: string, ids: readonly string[]): DirectoryStep<number> {
    return this.#step((tx) => inboxes.acknowledge(tx, this.#kernel.limits, agentId, ids));
  }

  // Messages of commits in other databases

  deliver(delivery: Delivery): Promise<Delivered> {
    return this.#kernel.root.transact((tx) => deliver(tx, this.#kernel.limits, delivery));
  }

  // Guards

  async nonceUsed(agentId: string, nonce: string): Promise<boolean> {
    return this.#nonces.isUsed(agentId, nonce);
  }

  useNonce(agentId: string, nonce: string): DirectoryStep<void> {
    return this.#step((tx) => {
      if (this.#nonces.insert(tx, agentId, nonce) === undefined) throw refuse('nonceUsed');
    });
  }

  async claimNonce(agentId: string, nonce: string, counted?: CountedRequest): Promise<NonceClaim> {
    const claim = await this.#nonces.claim(agentId, nonce);
    if (!claim.fresh || counted === undefined) return { ...claim, rate: null };
    return { ...claim, rate: this.#rates.take(counted.key, counted.limit, counted.windowSeconds) };
  }

  async takeRate(key: RateKey, limit: number, windowSeconds: number): Promise<RateDecision> {
    return this.#rates.take(key, limit, windowSeconds);
  }

  async returnRate(key: RateKey): Promise<void> {
    this.#rates.giveBack(key);
  }

  async recordViolation(address: string): Promise<boolean> {
    return this.#rates.recordViolation(address);
  }

  async block(block: Block): Promise<void> {
    await this.#blocks.put(block);
    for (const listener of this.#listeners) listener({ topic: 'block', address: block.address });
  }

  async blockOf(address: string): Promise<Block | undefined> {
    return this.#blocks.of(address);
  }

  async blocks(after: string | null, limit: number): Promise<BlockPage> {
    return this.#blocks.page(after, limit);
  }

  async countBlocks(): Promise<number> {
    return this.#blocks.count;
  }

  unblock(address: string): Promise<boolean> {
    return this.#blocks.remove(address, () => this.#rates.forgetViolations(address));
  }

  // News and health

  subscribe(listener: (notice: Notice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #notice(commits: readonly Commit[]): void {
    for (const notice of noticesOf(commits)) for (const listener of this.#listeners) listener(notice);
  }

  async health(): Promise<Readonly<Record<string, HealthCheck>>> {
    const stopped = this.#kernel.root.stopped;
    const startedMs = performance.now();
    readCounts(this.#kernel.root);
    const check: HealthCheck =
      stopped === undefined
        ? { status: 'pass', latencyMs: performance.now() - startedMs }
        : { status: 'fail', message: stopped.message };
    return { directory: check };
  }

  async close(): Promise<void> {
    this.#stopFeed();
    await this.#rates.close();
    this.#listeners.clear();
  }
}
