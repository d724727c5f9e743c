/** Messaging in the data directory. Everything is in shard 00, and each write is a step. */
import { messageOf } from '../../../core/errors.js';
import { Outdated, type Step } from '../../../core/write.js';
import { userKey } from '../../../identity/user-key.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import { unknownAgent } from '../../../registry/refusals.js';
import { ownerOfUser } from '../../../messaging/identities/kept-owner.js';
import { DirectoryStep, type Now, directorySteps, step, stepWithRoot } from '../step.js';
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
import { type RateDecision } from '../../../messaging/gate/sliding-windows.js';
import { globalRoomAlias, globalRoomId, uuidBytes } from '../../../messaging/identities/uuid.js';
import { requireBasis } from './basis.js';
import { Blocks } from './guards/blocks.js';
import { deliver } from './deliveries.js';
import { noticesOf } from './notices.js';
import { Rates } from './guards/rates.js';
import { Nonces } from './guards/nonces.js';
import * as identities from './identities.js';
import * as inboxes from './inboxes.js';
import { handleExpiry } from './retention.js';
import * as messages from './messages.js';
import * as rooms from './rooms.js';
import { type RoomRow, decode, families } from './rows.js';
import { searchMessages } from './search/search.js';
import { WaitingIndex } from './search/waiting-words.js';
import { readCounts, readTotals } from './totals.js';
import { RoomRevisions } from './revisions.js';

export { messagingFamilies } from './rows.js';

/** Faults that no caller waits for. */
type OnError = (error: unknown, about: string) => void;

/** The agents of the registry, by user and name. */
export interface KnownAgents {
  agentNamed(user: string, name: string): string | undefined;
  /** Inside a write. With `acts`, the agent is the one that writes, and it is made if it is new. */
  agentIdIn(tx: Transaction, root: Transaction, agent: ActingAgent, acts: boolean): string | undefined;
}

/** Opens messaging on a kernel; the global room exists from the start. */
export async function openDirectoryMessaging(
  kernel: Kernel,
  agents: KnownAgents,
  onError: OnError = (error, about) => process.emitWarning(`${about}: ${messageOf(error)}`),
): Promise<DirectoryMessaging> {
  await kernel.root.transact((tx) => {
    if (rooms.readRoom(tx, uuidBytes(globalRoomId)) !== undefined) return;
    const room = { name: globalRoomAlias, isPrivate: false, keyHash: null, createdBy: null };
    rooms.createRoom(tx, kernel.limits, { ...room, owner: null, retentionSeconds: null }, globalRoomId);
  });
  const messaging = new DirectoryMessaging(kernel, agents, onError);
  await messaging.takeUp();
  return messaging;
}

export class DirectoryMessaging implements MessagingPort {
  readonly capabilities: MessagingCapabilities = {
    durable: true,
    sharedStore: false,
    about:
      'A message, its index rows, its counters and its change are one commit on disk. Rate-limit windows are kept in memory and written every few seconds: a crash loses the last seconds.',
  };
  readonly #kernel: Kernel;
  readonly #agents: KnownAgents;
  readonly #rates: Rates;
  readonly #blocks: Blocks;
  readonly #revisions = new RoomRevisions();
  readonly #waitingWords: WaitingIndex;
  readonly #nonces: Nonces;
  readonly #listeners = new Set<(notice: Notice) => void>();
  readonly #stopFeed: () => void;

  constructor(kernel: Kernel, agents: KnownAgents, onError: OnError) {
    this.#kernel = kernel;
    this.#agents = agents;
    this.#blocks = new Blocks(kernel.root);
    this.#rates = new Rates(kernel, onError);
    this.#nonces = new Nonces(kernel.root, kernel.limits);
    this.#waitingWords = new WaitingIndex(kernel.root, {
      retentionSeconds: kernel.limits.messageRetentionSeconds,
      onError,
    });
    this.#stopFeed = kernel.root.onCommit((commits) => this.#notice(commits));
    handleExpiry(kernel, (address) => this.#blocks.forget(address));
  }

  /** Loads the rate windows that were written down before the last stop. */
  takeUp(): Promise<void> {
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

  keep(kept: KeptIdentity): DirectoryStep<SealedIdentity> {
    return stepWithRoot(this.#kernel.storeOf(userKey(kept.keptFor.user)), (tx, root) =>
      this.#keepIn(tx, root, kept),
    );
  }

  keepFirst<Result>(kept: KeptIdentity | null, given: Step<Result>): Step<Result> {
    if (kept === null) return given;
    const [writing] = directorySteps([given]);
    const own = this.#kernel.storeOf(userKey(kept.keptFor.user));
    return new DirectoryStep<Result>(own, true, (tx, root) => {
      if (this.#keepIn(tx, root, kept).identity.id !== kept.id)
        throw new Outdated('The identity that the server keeps for the caller');
      // The result of this very step.
      return writing?.run(writing.store === own ? tx : root, root) as Result;
    });
  }

  #keepIn(tx: Transaction, root: Transaction, kept: KeptIdentity): SealedIdentity {
    const { user, agent } = kept.keptFor;
    if (agent === null) return identities.keep(root, kept, null);
    const id = this.#agents.agentIdIn(tx, root, { user, agent }, kept.acts);
    if (id === undefined) throw unknownAgent(agent, []);
    return identities.keep(root, kept, { id, name: agent });
  }

  async kept({ user, agent }: KeptFor): Promise<SealedIdentity | undefined> {
    const owner = agent === null ? ownerOfUser(user) : this.#agents.agentNamed(user, agent);
    return owner === undefined ? undefined : identities.readKept(this.#kernel.root, owner);
  }

  async resealKept(reseal: (sealedSeed: string, id: string) => string): Promise<number> {
    let changed = 0;
    let after: Buffer | null = null;
    do {
      const resealed: { changed: number; next: Buffer | null } = await this.#kernel.root.transact((tx) =>
        identities.resealStep(tx, after, this.#kernel.limits.workspaceStepRowsMax, reseal),
      );
      changed += resealed.changed;
      after = resealed.next;
    } while (after !== null);
    return changed;
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

  updateRoom(id: string, change: RoomUpdate): DirectoryStep<Room> {
    return this.#step((tx) => rooms.updateRoom(tx, id, change));
  }

  deleteRoom(id: string): DirectoryStep<boolean> {
    return this.#step((tx) => rooms.deleteRoom(tx, id));
  }

  async room(id: string): Promise<Room | undefined> {
    return rooms.readRoom(this.#kernel.root, uuidBytes(id));
  }

  async rooms(ids: readonly string[]): Promise<Map<string, Room>> {
    const values = this.#kernel.root.getMany(families.rooms, ids.map(uuidBytes));
    return new Map(
      values
        .flatMap((value) => (value === undefined ? [] : [decode<RoomRow>(value)]))
        .map((room) => [room.id, room]),
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
    return this.#kernel.root.get(families.roomKeys, uuidBytes(id))?.toString() ?? null;
  }

  async publicRooms(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    return {
      rooms: await rooms.publicRooms(this.#kernel.root, limit, offset),
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
    const { limits } = this.#kernel;
    return this.#step((tx) => {
      const known = rooms.ownRoom(tx, room.owner, room.name);
      if (known?.isPrivate === true) throw new Outdated(`The room "${room.name}"`);
      const { id: roomId } = known ?? rooms.createRoom(tx, limits, room);
      const input = { ...message, roomId, parentId: null };
      if (basis !== undefined) requireBasis(tx, input, basis);
      const { id, tsMs } = messages.postMessage(tx, limits, input);
      return { id, tsMs, roomId, created: known === undefined };
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
    return searchMessages(this.#kernel.root, this.#waitingWords, this.#kernel.limits, query);
  }

  roomRevision(roomId: string): number {
    return this.#revisions.of(roomId);
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

  /**
   * The body of a transaction runs at once, so it is known whether the nonce is new before the nonce is on
   * disk. Work that starts now commits with the nonce or after it, never before it.
   */
  async claimNonce(agentId: string, nonce: string): Promise<NonceClaim> {
    const { root } = this.#kernel;
    let key: Buffer | undefined;
    const durable = root.transact((tx) => {
      key = this.#nonces.insert(tx, agentId, nonce);
    });
    const inserted = key;
    // A refusal by the store (stopped, overloaded) comes before the body has run.
    if (inserted === undefined) await durable;
    // The answer to the request waits for it. A request that is refused in the meantime does not.
    durable.catch(() => undefined);
    return {
      fresh: inserted !== undefined,
      durable,
      release: async () => {
        if (inserted !== undefined) await root.transact((tx) => this.#nonces.remove(tx, inserted));
      },
    };
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
    for (const notice of noticesOf(commits, (room) => this.#revisions.change(room)))
      for (const listener of this.#listeners) listener(notice);
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
    this.#waitingWords.close();
    await this.#rates.close();
    this.#listeners.clear();
  }
}
