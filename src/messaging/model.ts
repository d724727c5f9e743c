/** The records of messaging: identities, rooms, messages and proofs of authorship. */

/** What a linked identity may do with its user's data. */
export interface IdentityLink {
  user: string;
  /** The registry agent that the identity is. */
  agentId: string;
  agentName: string;
  write: boolean;
  namespaces: string[] | null;
  linkedAtMs: number;
}

/** An agent as messaging knows it: a key pair with a name. */
export interface Identity {
  id: string;
  /** Canonical base64 of the Ed25519 key in force. */
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

/** A key that was in force at some time; the last one is in force now. */
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
  isPrivate: boolean;
  createdBy: string | null;
  createdAtMs: number;
  lastActiveAtMs: number;
  /** A running total; deleting a message does not lower it. */
  messageCount: number;
}

/** What a reader needs to verify the author of a message, stored as it was sent. */
export interface Proof {
  scheme: 'aicq' | 'rfc9421';
  /** The key that was in force. */
  publicKey: string;
  signature: string;
  nonce: string;
  timestampMs: number;
  /** RFC 9421 only: the signed text. For the AICQ scheme it is derived from the request. */
  signatureBase?: string;
  /** The request's bytes: around the JSON of `body` when they contain it as we would write it, else whole. */
  request: { before: string; after: string } | { base64: string };
}

export interface Message {
  id: string;
  roomId: string;
  from: string;
  body: string;
  /** The message that this message answers. */
  parentId: string | null;
  /** The first message of the thread; null where this message is the first. */
  rootId: string | null;
  /** Strictly growing within a room. */
  tsMs: number;
  proof: Proof | null;
  /** Signed by a key that the server keeps. */
  serverSigned: boolean;
}

export interface DirectMessage {
  id: string;
  from: string;
  to: string;
  /** Opaque: encryption is the clients'. */
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

export interface Totals {
  agents: number;
  publicRooms: number;
  messages: number;
  lastActivityAtMs: number | null;
  /** The public rooms with the most messages; the more recently active first among equals. */
  top: { id: string; name: string; messageCount: number }[];
}

/** A message whose life is over is invisible at once, swept or not. */
export function isExpired(tsMs: number, retentionSeconds: number, nowMs: number): boolean {
  return tsMs + retentionSeconds * 1000 <= nowMs;
}
