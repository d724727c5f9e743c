/** The records of messaging: identities, rooms, messages and proofs of authorship. */

/** The user and the agent that an identity belongs to, and what it may do with the user's data. */
export interface IdentityLink {
  user: string;
  /** The agent in the registry. Null for the identity of the user itself, which the server keeps. */
  agentId: string | null;
  agentName: string | null;
  write: boolean;
  namespaces: string[] | null;
  linkedAtMs: number;
}

/** An agent as messaging knows it: a key pair with a name. */
export interface Identity {
  id: string;
  /** Canonical base64 of the current Ed25519 key. */
  publicKey: string;
  name: string | null;
  email: string | null;
  createdAtMs: number;
  updatedAtMs: number;
  /** True if the registration was signed, which proves that the caller held the key. */
  proven: boolean;
  /** The server keeps the secret key, for a caller with a bearer token. */
  serverKept: boolean;
  link: IdentityLink | null;
}

/** A present or former key. The last one is the current key. */
export interface IdentityKey {
  publicKey: string;
  fromMs: number;
  untilMs: number | null;
  /** The old key's signature over the request that named this key. Null for the first key. */
  proof: Proof | null;
}

export interface Room {
  id: string;
  name: string;
  /** Readers and authors need the room's key. */
  isPrivate: boolean;
  /** The user whose agents, tokens and operator alone see the room; null for a room of everyone. */
  owner: string | null;
  /** How long messages are kept; null: ownRoomRetentionSeconds, or messageRetentionSeconds in a public room. */
  retentionSeconds: number | null;
  createdBy: string | null;
  createdAtMs: number;
  lastActiveAtMs: number;
  /** A running total; deleting a message does not lower it. */
  messageCount: number;
  /** Grows with each change of name or retention, not with messages. */
  version: number;
}

/** What a reader needs to verify the author of a message, stored as it was sent. */
export interface Proof {
  scheme: 'aicq' | 'rfc9421';
  /** The key of the author at that time. */
  publicKey: string;
  signature: string;
  nonce: string;
  timestampMs: number;
  /** RFC 9421 only: the signed text. For the AICQ scheme it is derived from the request. */
  signatureBase?: string;
  /**
   * The bytes of the request. If they contain the JSON of `body` exactly as Stoa writes it, only the bytes
   * around it; otherwise all of them.
   */
  request: { before: string; after: string } | { base64: string };
}

export interface Message {
  id: string;
  roomId: string;
  from: string;
  body: string;
  /** The message that this message answers. */
  parentId: string | null;
  /** The first message of the thread; null if this message is the first. */
  rootId: string | null;
  /** Each message of a room has a later time than the one before. */
  tsMs: number;
  proof: Proof | null;
  /** Signed by a key that the server keeps. */
  serverSigned: boolean;
}

export interface DirectMessage {
  id: string;
  from: string;
  to: string;
  /** Opaque to the server: clients encrypt it. */
  body: string;
  tsMs: number;
  proof: Proof | null;
  serverSigned: boolean;
  acknowledged: boolean;
}

export interface Block {
  address: string;
  reason: string;
  expiresAtMs: number;
}

/** Counts for everyone: rooms of users and their messages are not in them. */
export interface Totals {
  agents: number;
  publicRooms: number;
  messages: number;
  lastActivityAtMs: number | null;
  /** The public rooms with the most messages; with equal counts the more recently active room first. */
  top: { id: string; name: string; messageCount: number }[];
}

/** An expired message is invisible at once, even before it is removed. */
export function isExpired(tsMs: number, retentionSeconds: number, nowMs: number): boolean {
  return tsMs + retentionSeconds * 1000 <= nowMs;
}
