/** What messaging needs of a backend: its atomic operations. */
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

export interface MessagingCapabilities {
  /** Message, index and counters are one commit. */
  oneCommit: boolean;
  /** An acknowledged message is on disk and survives a crash of the machine. */
  durable: boolean;
  /**
   * A room post is in the very transaction of a commit over several domains; otherwise it is delivered right
   * after it, from an outbox.
   */
  joinsCommits: boolean;
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

/** An identity that the server signs for. */
export interface KeptIdentity extends NewIdentity {
  /** Whose it is: the hash of user and agent name, in hex. */
  owner: string;
  /** The secret seed, encrypted. */
  sealedSeed: string;
}

export interface SealedIdentity {
  identity: Identity;
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
 * What a message was prepared with. Its step looks again and throws `Outdated` where something has changed.
 */
export interface MessageBasis {
  /**
   * The hash of the key that opened the room; null for a room without a key, undefined for who needs none.
   */
  keyHash?: string | null | undefined;
  /** The key that the author signed with. The signature of a key that was rotated meanwhile is refused. */
  publicKey: string | null;
  /** The owner for whom the server keeps the author. */
  keptOwner: string | null;
}

/** A message that a commit in another database has promised. */
export interface Delivery {
  id: string;
  message: NewMessage | NewDirectMessage;
}

/** The id and time of a delivery in its room or inbox. */
export interface Delivered {
  id: string;
  tsMs: number;
}

/**
 * Which messages of a room or an inbox: those before a time, newest first, or those after one, oldest first.
 */
export type Span = { beforeMs: number | null; limit: number } | { afterMs: number; limit: number };

export interface Page<T> {
  /** In the order of the span. */
  items: T[];
  hasMore: boolean;
}

export interface SearchQuery {
  words: readonly string[];
  roomId: string | null;
  afterMs: number;
  /** Exclusive; null searches from the newest. */
  beforeMs: number | null;
  /** The last message of the page before. Among messages at `beforeMs` the search continues after it. */
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
 * The outcome of a nonce's insertion: whether it is new is known at once; that it is on disk may come later.
 */
export interface NonceClaim {
  fresh: boolean;
  /** An answer to the request waits for this. */
  durable: Promise<void>;
  /** Frees a fresh nonce again, because the write that it was claimed for did not happen. */
  release(): Promise<void>;
}

export interface BlockPage {
  items: Block[];
  /** The last address that was read; null when there are no more. */
  next: string | null;
}

/** A new or deleted message in a room or inbox, a changed identity, or a blocked address. */
export type Notice =
  | { topic: 'room' | 'inbox'; id: string; kind: 'new' }
  | { topic: 'room'; id: string; kind: 'deleted'; messageId: string }
  /** Messages of any time came into it at once. */
  | { topic: 'room' | 'inbox'; id: string; kind: 'imported' }
  /** The key, the link or the profile of an identity is another one. */
  | { topic: 'identity'; id: string }
  /** Under the name under which it is counted. */
  | { topic: 'block'; address: string }
  /** Notices may have been lost: read everything again. */
  | { topic: 'all' };

export interface HealthCheck {
  status: 'pass' | 'fail';
  latencyMs?: number;
  message?: string;
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
   * The identity with that key, made unless it is there. A key that an identity once had still leads to it.
   */
  register(input: NewIdentity): Step<{ identity: Identity; created: boolean }>;
  /** The server-held identity of an owner: this one, unless the owner already has one. */
  keep(kept: KeptIdentity): Step<SealedIdentity>;
  kept(owner: string): Promise<SealedIdentity | undefined>;
  /**
   * Passes every encrypted seed and its owner through `reseal` and stores the result. Returns how many
   * changed.
   */
  resealKept(reseal: (sealedSeed: string, owner: string) => string): Promise<number>;
  identity(id: string): Promise<Identity | undefined>;
  /** By id; those that are not there are left out. */
  identities(ids: readonly string[]): Promise<Map<string, Identity>>;
  updateProfile(id: string, profile: ProfileUpdate): Step<Identity | undefined>;
  rotateKey(rotation: KeyRotation): Step<'rotated' | 'taken' | 'stale'>;
  keys(id: string): Promise<IdentityKey[]>;
  /** Throws `Outdated` where the key or the link of the identity is not what `before` says. */
  link(before: Identity, link: IdentityLink | null): Step<Identity>;

  createRoom(room: NewRoom): Step<Room>;
  room(id: string): Promise<Room | undefined>;
  rooms(ids: readonly string[]): Promise<Map<string, Room>>;
  roomKeyHash(id: string): Promise<string | null>;
  /** Public rooms, the most recently active first. */
  publicRooms(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }>;
  totals(): Promise<Totals>;

  /**
   * Refuses an unknown room or parent, more bytes than the agent has left, and a room whose time ran too far
   * ahead.
   */
  post(message: NewMessage, basis?: MessageBasis): Step<Message>;
  messages(roomId: string, span: Span): Promise<Page<Message>>;
  message(roomId: string, messageId: string): Promise<Message | undefined>;
  /** Messages of a thread after a time, oldest first, its first message included while it lives. */
  thread(roomId: string, rootId: string, afterMs: number, limit: number): Promise<Page<Message>>;
  /** False when it was not there. */
  deleteMessage(roomId: string, messageId: string): Step<boolean>;
  search(query: SearchQuery): Promise<SearchResult>;
  /** Grows whenever the room's messages change; undefined where the backend cannot know. */
  roomRevision(roomId: string): number | undefined;

  send(message: NewDirectMessage, basis?: MessageBasis): Step<DirectMessage>;
  inbox(agentId: string, span: Span): Promise<Page<DirectMessage>>;
  /** Not acknowledged yet, oldest first. */
  pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>>;
  acknowledge(agentId: string, ids: readonly string[]): Step<number>;

  /**
   * Posts or sends a due message at most once for the delivery's id; a repeat returns the first answer. Its
   * bytes count for the author but are not refused, because the commit has accepted them.
   */
  deliver(delivery: Delivery): Promise<Delivered>;
  /** Bytes that the agent may still post in this minute. */
  bytesLeft(agentId: string): Promise<number>;

  nonceUsed(agentId: string, nonce: string): Promise<boolean>;
  /** Uses a nonce up with the write that it is in, or refuses that write. */
  useNonce(agentId: string, nonce: string): Step<void>;
  /**
   * Inserts the nonce unless it exists, in a separate write. A store that does not answer is an error, never
   * an acceptance.
   */
  claimNonce(agentId: string, nonce: string): Promise<NonceClaim>;
  takeRate(key: RateKey, limit: number, windowSeconds: number): Promise<RateDecision>;
  /** The newest request of a counter does not count after all. */
  returnRate(key: RateKey, windowSeconds: number): Promise<void>;
  /** Counts a refusal; true when the address is to be blocked for it. */
  recordViolation(address: string): Promise<boolean>;
  block(block: Block): Promise<void>;
  blockOf(address: string): Promise<Block | undefined>;
  /** Those after an address, in the order of addresses. */
  blocks(after: string | null, limit: number): Promise<BlockPage>;
  countBlocks(): Promise<number>;
  unblock(address: string): Promise<boolean>;

  /**
   * Calls back about new messages, here and on other servers of the same store. Returns the way to stop it.
   */
  subscribe(listener: (notice: Notice) => void): () => void;
  /** The parts of the home that messages need, by name. */
  health(): Promise<Readonly<Record<string, HealthCheck>>>;
  close(): Promise<void>;
}

/** A counter: an endpoint, and whose requests it counts. */
export interface RateKey {
  endpoint: string;
  scope: 'ip' | 'agent' | 'user';
  subject: string;
}
