/** Messaging in the data directory. Everything is in shard 00, and each write is a step. */
import { messageOf } from '../../../core/errors.js';
import { Listeners } from '../../../core/listeners.js';
import type { Step } from '../../../core/write.js';
import { type DirectoryStep, type Now, step } from '../step.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Commit } from '../../../feed/port.js';
import type { Transaction } from '../kernel/transaction.js';
import type { Room } from '../../../messaging/model.js';
import type {
  HealthCheck,
  KeptIdentity,
  MessagingCapabilities,
  MessagingPort,
  Notice,
} from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import { uuidBytes } from '../../../messaging/identities/uuid.js';
import type { MessageIndex } from '../find/message-index.js';
import { requireBasis } from './basis.js';
import { Blocks } from './guards/blocks.js';
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
  readonly #notices = new Listeners<Notice>();
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
    // A write over two shards is announced in the shard of the user.
    this.#stopFeed = kernel.feed.onCommit((commits) => this.#notice(commits));
    handleExpiry(kernel, this.#nonces, (address) => this.#blocks.forget(address));
  }

  /** Loads the rate windows that were written down before the last stop. */
  loadRates(): Promise<void> {
    return this.#rates.start();
  }

  readonly nowMs: MessagingPort['nowMs'] = () => this.#kernel.nowMs();

  /** Everything is in shard 00. */
  #step<Result>(run: (tx: Transaction) => Result & Now<Result>): DirectoryStep<Result> {
    return step<Result>(this.#kernel.root, run);
  }

  // Identities

  readonly register: MessagingPort['register'] = (input) =>
    this.#step((tx) => identities.register(tx, input));

  keepFirst<Result>(kept: readonly KeptIdentity[], given: Step<Result>): Step<Result> {
    return this.#kept.keepFirst(kept, given);
  }

  readonly kept: MessagingPort['kept'] = async (keptFor) => this.#kept.find(keptFor);

  readonly resealKept: MessagingPort['resealKept'] = (reseal) => this.#kept.reseal(reseal);

  readonly identity: MessagingPort['identity'] = async (id) =>
    identities.readIdentity(this.#kernel.root, uuidBytes(id));

  readonly identities: MessagingPort['identities'] = async (ids) =>
    identities.identitiesOf(this.#kernel.root, ids);

  readonly updateProfile: MessagingPort['updateProfile'] = (id, profile) =>
    this.#step((tx) => identities.updateProfile(tx, id, profile));

  readonly rotateKey: MessagingPort['rotateKey'] = (rotation) =>
    this.#step((tx) => identities.rotateKey(tx, rotation, this.#kernel.limits));

  readonly keys: MessagingPort['keys'] = async (id) => identities.keysOf(this.#kernel.root, id);

  readonly link: MessagingPort['link'] = (before, link) =>
    this.#step((tx) => identities.link(tx, before, link));

  // Rooms

  readonly createRoom: MessagingPort['createRoom'] = (room) =>
    this.#step((tx) => rooms.createRoom(tx, this.#kernel.limits, room));

  readonly updateRoom: MessagingPort['updateRoom'] = (id, change, ifVersion) =>
    this.#step((tx) => rooms.updateRoom(tx, id, change, ifVersion));

  readonly deleteRoom: MessagingPort['deleteRoom'] = (id, ifVersion) =>
    this.#step((tx) => rooms.deleteRoom(tx, id, ifVersion));

  readonly room: MessagingPort['room'] = async (id) => this.#rooms.get(id);

  readonly rooms: MessagingPort['rooms'] = async (ids) =>
    new Map(ids.flatMap((id) => this.#rooms.get(id) ?? []).map((room): [string, Room] => [room.id, room]));

  readonly ownRoom: MessagingPort['ownRoom'] = async (owner, name) =>
    rooms.ownRoom(this.#kernel.root, owner, name);

  readonly publicRoomsNamed: MessagingPort['publicRoomsNamed'] = async (name, limit) =>
    rooms.publicRoomsNamed(this.#kernel.root, name, limit);

  readonly ownRooms: MessagingPort['ownRooms'] = async (owner, after, limit) =>
    rooms.ownRooms(this.#kernel.root, owner, after, limit);

  readonly roomKeyHash: MessagingPort['roomKeyHash'] = async (id) => rooms.readKeyHash(this.#kernel.root, id);

  readonly publicRooms: MessagingPort['publicRooms'] = async (limit, offset) => {
    const keys = await rooms.publicRoomKeys(this.#kernel.root, limit, offset);
    return {
      rooms: keys.flatMap((key) => this.#rooms.at(key) ?? []),
      total: readCounts(this.#kernel.root).publicRooms,
    };
  };

  readonly totals: MessagingPort['totals'] = async () => readTotals(this.#kernel.root);

  // Messages

  readonly post: MessagingPort['post'] = (message, basis) =>
    this.#step((tx) => {
      if (basis !== undefined) requireBasis(tx, message, basis);
      return messages.postMessage(tx, this.#kernel.limits, message);
    });

  readonly postOpening: MessagingPort['postOpening'] = ({ room, message }, basis) =>
    this.#step((tx) => {
      const { roomId, created } = rooms.openRoom(tx, this.#kernel.limits, room);
      const input = { ...message, roomId, parentId: null };
      if (basis !== undefined) requireBasis(tx, input, basis);
      const { id, tsMs } = messages.postMessage(tx, this.#kernel.limits, input);
      return { id, tsMs, roomId, created };
    });

  readonly messages: MessagingPort['messages'] = async (room, span) =>
    messages.readMessages(this.#kernel.root, this.#kernel.limits, room, span, this.nowMs());

  readonly message: MessagingPort['message'] = async (room, messageId) =>
    messages.findMessage(this.#kernel.root, this.#kernel.limits, room, messageId, this.nowMs());

  readonly thread: MessagingPort['thread'] = async (room, rootId, afterMs, limit) =>
    messages.readThread(this.#kernel.root, this.#kernel.limits, room, rootId, afterMs, limit, this.nowMs());

  readonly deleteMessage: MessagingPort['deleteMessage'] = (roomId, messageId) =>
    this.#step((tx) => messages.deleteMessage(tx, this.#kernel.limits, roomId, messageId));

  readonly search: MessagingPort['search'] = (query) => {
    const { limits } = this.#kernel;
    return searchMessages({ index: this.#index, rooms: this.#rooms, limits }, query);
  };

  readonly revision: MessagingPort['revision'] = (topic) => this.#revisions.of(topic);

  // Direct messages

  readonly send: MessagingPort['send'] = (message, basis) =>
    this.#step((tx) => {
      if (basis !== undefined) requireBasis(tx, message, basis);
      return inboxes.sendDirect(tx, this.#kernel.limits, message);
    });

  readonly inbox: MessagingPort['inbox'] = async (agentId, span) =>
    inboxes.readInbox(this.#kernel.root, this.#kernel.limits, agentId, span, this.nowMs());

  readonly pending: MessagingPort['pending'] = async (agentId, afterMs, limit) =>
    inboxes.readPending(this.#kernel.root, this.#kernel.limits, agentId, afterMs, limit, this.nowMs());

  readonly acknowledge: MessagingPort['acknowledge'] = (agentId, ids) =>
    this.#step((tx) => inboxes.acknowledge(tx, this.#kernel.limits, agentId, ids));

  // Guards

  readonly nonceUsed: MessagingPort['nonceUsed'] = async (agentId, nonce) =>
    this.#nonces.isUsed(agentId, nonce);

  readonly noncesForgotten: MessagingPort['noncesForgotten'] = (fromMs, toMs) =>
    this.#nonces.isForgotten(fromMs, toMs);

  readonly useNonce: MessagingPort['useNonce'] = (agentId, nonce) =>
    this.#step((tx) => {
      if (this.#nonces.insert(tx, agentId, nonce) === undefined) throw refuse('nonceUsed');
    });

  readonly claimNonce: MessagingPort['claimNonce'] = async (agentId, nonce, counted) => {
    const claim = await this.#nonces.claim(agentId, nonce);
    if (!claim.fresh || counted === undefined) return { ...claim, rate: null };
    return { ...claim, rate: this.#rates.take(counted.key, counted.limit, counted.windowSeconds) };
  };

  readonly takeRate: MessagingPort['takeRate'] = async (key, limit, windowSeconds) =>
    this.#rates.take(key, limit, windowSeconds);

  readonly returnRate: MessagingPort['returnRate'] = async (key) => {
    this.#rates.giveBack(key);
  };

  readonly recordViolation: MessagingPort['recordViolation'] = async (address) =>
    this.#rates.recordViolation(address);

  readonly block: MessagingPort['block'] = async (block) => {
    await this.#blocks.put(block);
    this.#notices.tell({ topic: 'block', address: block.address });
  };

  readonly blockOf: MessagingPort['blockOf'] = async (address) => this.#blocks.of(address);

  readonly blocks: MessagingPort['blocks'] = async (after, limit) => this.#blocks.page(after, limit);

  readonly countBlocks: MessagingPort['countBlocks'] = async () => this.#blocks.count;

  readonly unblock: MessagingPort['unblock'] = (address) =>
    this.#blocks.remove(address, () => this.#rates.forgetViolations(address));

  // News and health

  readonly subscribe: MessagingPort['subscribe'] = (listener) => this.#notices.add(listener);

  #notice(commits: readonly Commit[]): void {
    for (const notice of noticesOf(commits)) this.#notices.tell(notice);
  }

  readonly health: MessagingPort['health'] = async () => {
    const stopped = this.#kernel.root.stopped;
    const startedMs = performance.now();
    readCounts(this.#kernel.root);
    const check: HealthCheck =
      stopped === undefined
        ? { status: 'pass', latencyMs: performance.now() - startedMs }
        : { status: 'fail', message: stopped.message };
    return { directory: check };
  };

  readonly close: MessagingPort['close'] = async () => {
    this.#stopFeed();
    await this.#rates.close();
  };
}
