/** The atomic operations that messaging needs from a backend. */
import type { Step } from '../core/write.js';
import type {
  Block,
  DirectMessage,
  Identity,
  IdentityKey,
  IdentityLink,
  Message,
  Proof,
  Room,
  Totals,
} from './model.js';
import type { RateDecision } from './gate/sliding-windows.js';
import type { RoomKeep } from './rooms/visibility.js';

export interface MessagingCapabilities {
  /** An acknowledged message is on disk and survives a crash of the machine. */
  durable: boolean;
  /** Several servers may share the store. */
  sharedStore: boolean;
  about: string;
}

export interface NewIdentity {
  publicKey: string;
  name: string | null;
  email: string | null;
  proven: boolean;
}

/** For whom the server keeps an identity: an agent by its name, or the user itself. */
export interface KeptFor {
  user: string;
  agent: string | null;
}

/** An identity that the server signs for. It is linked to its agent from the beginning. */
export interface KeptIdentity extends NewIdentity {
  id: string;
  keptFor: KeptFor;
  /** Whether the agent writes in this very write, and so is made if it is new. Otherwise it must exist. */
  acts: boolean;
  /** The secret seed, encrypted with the id of the identity as associated data. */
  sealedSeed: string;
}

export interface SealedIdentity {
  identity: Identity;
  /** The agent's id, or a hash of the user, in hex. */
  owner: string;
  sealedSeed: string;
}

export interface KeyRotation {
  id: string;
  oldPublicKey: string;
  newPublicKey: string;
  proof: Proof;
}

export interface NewRoom {
  name: string;
  isPrivate: boolean;
  /** The bcrypt hash of a private room's key. */
  keyHash: string | null;
  createdBy: string;
  owner: string | null;
  retentionSeconds: number | null;
}

/** Fields that are left out stay unchanged. */
export interface RoomUpdate {
  name?: string;
  /** Null: the default of the settings. */
  retentionSeconds?: number | null;
}

/** A message to a room that its author's user may not have yet. */
export interface OpeningMessage {
  room: NewRoom & { owner: string };
  message: Omit<NewMessage, 'roomId' | 'parentId'>;
}

/** Where a message went, and whether the write created the room. */
export interface Opened extends Delivered {
  roomId: string;
  created: boolean;
}

export interface NewMessage {
  roomId: string;
  from: string;
  body: string;
  parentId: string | null;
  proof: Proof | null;
  serverSigned: boolean;
}

export type NewDirectMessage = Omit<NewMessage, 'roomId' | 'parentId'> & { to: string };

/**
 * The state that a message was prepared with. In a directory, its step compares it again and throws
 * `Outdated` if something has changed. PostgreSQL only takes the room from it: a script in Redis cannot read
 * PostgreSQL.
 */
export interface MessageBasis {
  /**
   * The hash of the key that opened the room. Null: the room has no key. Undefined: the caller needs no key.
   */
  keyHash?: string | null | undefined;
  /** The key that the author signed with. If that key was rotated in the meantime, the message is refused. */
  publicKey: string | null;
  /** The owner for whom the server keeps the author. */
  keptOwner: string | null;
  /** The room, if it was read ahead: a write outside a transaction need not read it again, if it has not changed. */
  room?: Room | undefined;
}

/** The id and time of a message in its room or inbox. */
export interface Delivered {
  id: string;
  tsMs: number;
}

/** A range of messages of a room or an inbox: before a time, newest first, or after a time, oldest first. */
export type Span = { beforeMs: number | null; limit: number } | { afterMs: number; limit: number };

export interface Page<T> {
  /** In the order of the span. */
  items: T[];
  hasMore: boolean;
}

export interface SearchQuery {
  /** Words of `queryWords`. A message must have all of them. */
  words: readonly string[];
  /** Public rooms, and the rooms of this user. */
  owner: string | null;
  /** Only this room. */
  roomId: string | null;
  afterMs: number;
  /** Exclusive; null searches from the newest. */
  beforeMs: number | null;
  /** The last message of the previous page. Among messages at `beforeMs` the search continues after it. */
  last?: MessagePlace | null;
  limit: number;
}

export interface MessagePlace {
  roomId: string;
  messageId: string;
}

export interface SearchResult {
  messages: Message[];
  /** Where a search that reached its limit of steps continues; null at the end. */
  restBeforeMs: number | null;
}

/**
 * The result of inserting a nonce. Whether the nonce is new is known at once; it may be on disk only later.
 */
export interface NonceClaim {
  fresh: boolean;
  /** The answer to the request waits for this. */
  durable: Promise<void>;
  /** The rate of the counted request; null if none was counted, or the nonce was used. */
  rate: RateDecision | null;
  /** Frees a new nonce again, because the write that it was claimed for did not happen. */
  release(): Promise<void>;
}

export interface BlockPage {
  items: Block[];
  /** The last address that was read; null when there are no more. */
  next: string | null;
}

/** A room, or the inbox of an agent. */
export interface TopicName {
  kind: 'room' | 'inbox';
  id: string;
}

/** A new or deleted message in a room or inbox, a changed identity, or a blocked address. */
export type Notice =
  | { topic: 'room' | 'inbox'; id: string; kind: 'new' }
  /** The room was deleted. */
  | { topic: 'room'; id: string; kind: 'removed' }
  | { topic: 'room'; id: string; kind: 'deleted'; messageId: string }
  /** Messages with any times were imported into it. */
  | { topic: 'room' | 'inbox'; id: string; kind: 'imported' }
  /** The key, the link or the profile of an identity has changed. */
  | { topic: 'identity'; id: string }
  /** The name under which the address is counted. */
  | { topic: 'block'; address: string }
  /** Notices may have been lost: read everything again. */
  | { topic: 'all' };

/** A place in the list of users' rooms. */
export interface RoomName {
  owner: string;
  name: string;
}

export interface HealthCheck {
  status: 'pass' | 'fail';
  latencyMs?: number;
  message?: string;
  /** It answers reads and refuses writes. */
  readOnly?: boolean;
}

/** Fields that are left out stay unchanged. */
export interface ProfileUpdate {
  name?: string | null;
  email?: string | null;
  proven?: true;
}

export interface MessagingPort {
  readonly capabilities: MessagingCapabilities;
  nowMs(): number;

  /**
   * The identity with that key. It is created if it does not exist. A former key of an identity also finds
   * that identity.
   */
  register(input: NewIdentity): Step<{ identity: Identity; created: boolean }>;
  /**
   * The same step, but it stores these identities first, which the server keeps for their owners. Throws
   * `Outdated` if an owner has another one by then.
   */
  keepFirst<Result>(kept: readonly KeptIdentity[], step: Step<Result>): Step<Result>;
  kept(keptFor: KeptFor): Promise<SealedIdentity | undefined>;
  /**
   * Passes every encrypted seed and the id of its identity through `reseal` and stores the result. Returns
   * how many changed.
   */
  resealKept(reseal: (sealedSeed: string, id: string) => string): Promise<number>;
  identity(id: string): Promise<Identity | undefined>;
  /** By id, without unknown ids. */
  identities(ids: readonly string[]): Promise<Map<string, Identity>>;
  updateProfile(id: string, profile: ProfileUpdate): Step<Identity | undefined>;
  rotateKey(rotation: KeyRotation): Step<'rotated' | 'taken' | 'stale'>;
  keys(id: string): Promise<IdentityKey[]>;
  /** Throws `Outdated` if the key or the link of the identity differs from `before`. */
  link(before: Identity, link: IdentityLink | null): Step<Identity>;

  /** Throws if the owner has a room of that name, or as many rooms as a user may have. */
  createRoom(room: NewRoom): Step<Room>;
  /** Throws for an unknown room, and if the owner has another room of the new name. */
  updateRoom(id: string, change: RoomUpdate, ifVersion?: number): Step<Room>;
  /** Deletes the room and everything in it. False if the room did not exist. */
  deleteRoom(id: string, ifVersion?: number): Step<boolean>;
  room(id: string): Promise<Room | undefined>;
  rooms(ids: readonly string[]): Promise<Map<string, Room>>;
  /** The room of a user with this name. */
  ownRoom(owner: string, name: string): Promise<Room | undefined>;
  /** Public rooms with this name, at most `limit`. Names of public rooms are not unique. */
  publicRoomsNamed(name: string, limit: number): Promise<Room[]>;
  /** Rooms of a user, or of all users (null), in the order of owners and names, after a place. */
  ownRooms(owner: string | null, after: RoomName | null, limit: number): Promise<Room[]>;
  roomKeyHash(id: string): Promise<string | null>;
  /** Public rooms, the most recently active first. */
  publicRooms(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }>;
  totals(): Promise<Totals>;

  /**
   * Throws for an unknown room or parent, for more bytes than the agent has left, and for a room whose time
   * is too far ahead.
   */
  post(message: NewMessage, basis?: MessageBasis): Step<Delivered>;
  /**
   * Posts to a room of a user by its name, and creates the room in the same write if it does not exist.
   * Throws `Outdated` if the room exists now and has a key.
   */
  postOpening(opening: OpeningMessage, basis?: MessageBasis): Step<Opened>;
  messages(room: RoomKeep, span: Span): Promise<Page<Message>>;
  message(room: RoomKeep, messageId: string): Promise<Message | undefined>;
  /**
   * Messages of a thread after a time, oldest first. Includes the first message of the thread until it
   * expires.
   */
  thread(room: RoomKeep, rootId: string, afterMs: number, limit: number): Promise<Page<Message>>;
  /** False if the message did not exist. */
  deleteMessage(roomId: string, messageId: string): Step<boolean>;
  search(query: SearchQuery): Promise<SearchResult>;
  /** Another number after each change of a room or an inbox. Undefined if the backend cannot know. */
  revision(topic: TopicName): number | undefined;

  send(message: NewDirectMessage, basis?: MessageBasis): Step<Delivered>;
  inbox(agentId: string, span: Span): Promise<Page<DirectMessage>>;
  /** Messages that are not acknowledged yet, oldest first. */
  pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>>;
  acknowledge(agentId: string, ids: readonly string[]): Step<number>;

  nonceUsed(agentId: string, nonce: string): Promise<boolean>;
  /** Whether nonces that were used between these times may be forgotten. Signatures of these times are refused. */
  noncesForgotten(fromMs: number, toMs: number): boolean;
  /** Uses the nonce up in the same write, or refuses the write. */
  useNonce(agentId: string, nonce: string): Step<void>;
  /**
   * Inserts the nonce unless it exists, in a separate write. If the store does not answer, it throws; the
   * nonce is never accepted. If the nonce is new, it then counts the request, where possible in the same
   * round trip.
   */
  claimNonce(agentId: string, nonce: string, counted?: CountedRequest): Promise<NonceClaim>;
  takeRate(key: RateKey, limit: number, windowSeconds: number): Promise<RateDecision>;
  /** Removes the newest request from a counter. */
  returnRate(key: RateKey, windowSeconds: number): Promise<void>;
  /** Counts a refused request. True if the address must now be blocked. */
  recordViolation(address: string): Promise<boolean>;
  block(block: Block): Promise<void>;
  blockOf(address: string): Promise<Block | undefined>;
  /** The blocks after an address, in the order of addresses. */
  blocks(after: string | null, limit: number): Promise<BlockPage>;
  countBlocks(): Promise<number>;
  unblock(address: string): Promise<boolean>;

  /**
   * Calls back about new messages, here and on other servers of the same store. Returns a function that stops
   * it.
   */
  subscribe(listener: (notice: Notice) => void): () => void;
  /** The health of the parts of the home that messaging needs, by name. */
  health(): Promise<Readonly<Record<string, HealthCheck>>>;
  close(): Promise<void>;
}

/** A counter: an endpoint, and whose requests it counts. */
export interface RateKey {
  endpoint: string;
  scope: 'ip' | 'agent' | 'user';
  subject: string;
}

/** A request that counts against a rate. */
export interface CountedRequest {
  key: RateKey;
  limit: number;
  windowSeconds: number;
}
