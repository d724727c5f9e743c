/**
 * The identity in whose name a caller writes: its own signed identity, or one that the server holds for it.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import { type Caller, requireWriteScope } from '../../core/caller.js';
import { aicqSignedText, sign, signingKeysOf } from '../../identity/signatures.js';
import type { Proof } from '../model.js';
import { agentNameOf } from '../names.js';
import type { KeptFor, KeptIdentity, MessageBasis, MessagingPort } from '../port.js';
import { type CheckedSignature, proofOf } from './proof.js';
import { refuse } from '../refusals.js';

/** Encrypts the secret keys that the server keeps. */
export interface SecretSealer {
  seal(secret: string, associated: string): string;
  open(sealed: string, associated: string): string;
}

export interface Author {
  id: string;
  serverSigned: boolean;
  /** The identity that the write stores first, if the author has none yet. */
  keeping: readonly KeptIdentity[];
  /** The state that the write compares again. */
  basis: Omit<MessageBasis, 'keyHash'>;
  /** Proves that this author wrote `body`. */
  prove(body: string): Proof | null;
}

/** Who receives a message. */
export interface Recipient {
  readonly id: string;
  /** The identity that the write stores first, if the recipient has none yet. */
  readonly keeping: readonly KeptIdentity[];
}

interface KeptAuthor {
  id: string;
  publicKey: string;
  /** Null for an identity that is not stored yet. */
  owner: string | null;
  keeping: KeptIdentity | null;
  seed: Buffer;
}

const unstoredMax = 1_000;
const unstoredMs = 60_000;

/** The ids of identities, the one that receives new messages first. */
export type Inboxes = readonly [string, ...string[]];

/** An id that no identity has. */
export const nobodyId = '00000000-0000-0000-0000-000000000000';

export class Authors {
  readonly #port: MessagingPort;
  readonly #sealer: SecretSealer;
  /** By user and agent: identities that no write has stored yet. */
  readonly #unstored = new LRUCache<string, KeptAuthor>({ ...entriesAtMost(unstoredMax), ttl: unstoredMs });

  constructor(port: MessagingPort, sealer: SecretSealer) {
    this.#port = port;
    this.#sealer = sealer;
  }

  /** The author of a caller's message. `signature` is the signature of the request, if it has one. */
  async authorOf(caller: Caller | null, signature: CheckedSignature | null): Promise<Author> {
    if (caller === null) throw refuse('missingAuthHeaders');
    // An identity always writes in its own name. Its link only grants access to the data of its user.
    if (caller.identity !== null) {
      return {
        id: caller.identity,
        serverSigned: false,
        keeping: [],
        basis: { publicKey: signature?.publicKey ?? null, keptOwner: null },
        prove: (body) => (signature === null ? null : proofOf(signature, body)),
      };
    }
    requireWriteScope(caller);
    const { id, publicKey, owner, keeping, seed } = await this.#kept(caller, true);
    return {
      id,
      serverSigned: true,
      keeping: listOf(keeping),
      // An identity that the same write stores cannot have changed.
      basis: keeping === null ? { publicKey, keptOwner: owner } : { publicKey: null, keptOwner: null },
      prove: (body) => this.#proveFor(publicKey, seed, body),
    };
  }

  /**
   * The identity whose inbox a caller reads. Reading does not create one: before its first message the inbox
   * of an agent is empty.
   */
  async readerOf(caller: Caller | null): Promise<string> {
    if (caller === null) throw refuse('missingAuthHeaders');
    if (caller.identity !== null) return caller.identity;
    return (await this.#port.kept(caller))?.identity.id ?? nobodyId;
  }

  /**
   * The inboxes of the caller. The inbox belongs to the agent: messages from the time before it had its own
   * key are in the inbox of the identity that the server keeps for it.
   */
  async inboxesOf(caller: Caller | null): Promise<Inboxes> {
    const own = await this.readerOf(caller);
    if (caller?.identity !== own || caller.agentId === null) return [own];
    const kept = await this.#port.kept(caller);
    return kept === undefined ? [own] : [own, kept.identity.id];
  }

  /** The identity of an agent that receives a message. */
  async recipientOf(agent: KeptFor): Promise<Recipient> {
    const { id, keeping } = await this.#kept(agent, false);
    return { id, keeping: listOf(keeping) };
  }

  async #kept({ user, agent }: KeptFor, acts: boolean): Promise<KeptAuthor> {
    const known = await this.#port.kept({ user, agent });
    if (known === undefined) return this.#made({ user, agent }, acts);
    const { identity, owner, sealedSeed } = known;
    const seed = Buffer.from(this.#sealer.open(sealedSeed, identity.id), 'base64');
    return { id: identity.id, publicKey: identity.publicKey, owner, keeping: null, seed };
  }

  /**
   * All messages of a first write have the same author, also if several first writes run at the same time. An
   * identity that was stored meanwhile belonged to an agent that was deleted or has another name now.
   */
  async #made(keptFor: KeptFor, acts: boolean): Promise<KeptAuthor> {
    const name = JSON.stringify([keptFor.user, keptFor.agent]);
    const known = this.#unstored.get(name);
    const isStored = known !== undefined && (await this.#port.identity(known.id)) !== undefined;
    if (isStored && this.#unstored.get(name) === known) this.#unstored.delete(name);
    const made = this.#unstored.get(name) ?? this.#make(keptFor);
    this.#unstored.set(name, made);
    return { ...made, keeping: made.keeping && { ...made.keeping, acts } };
  }

  /** Stored in the same write as the message: a refused message leaves nothing behind. */
  #make(keptFor: KeptFor): KeptAuthor {
    const id = randomUUID();
    const seed = randomBytes(32);
    const publicKey = signingKeysOf(seed).publicKey.toString('base64');
    const keeping: KeptIdentity = {
      id,
      publicKey,
      name: agentNameOf(keptFor.agent ?? keptFor.user),
      email: null,
      proven: true,
      keptFor,
      acts: true,
      sealedSeed: this.#sealer.seal(seed.toString('base64'), id),
    };
    return { id, publicKey, owner: null, keeping, seed };
  }

  /** The server signs the same text as an AICQ client, so that both are verified in the same way. */
  #proveFor(publicKey: string, seed: Buffer, body: string): Proof {
    const nonce = randomBytes(16).toString('hex');
    const timestampMs = this.#port.nowMs();
    const request = { before: '{"body":', after: '}' };
    const raw = Buffer.from(`${request.before}${JSON.stringify(body)}${request.after}`);
    const signature = sign(
      signingKeysOf(seed).secretKey,
      aicqSignedText(raw, nonce, String(timestampMs)),
    ).toString('base64');
    return { scheme: 'aicq', publicKey, signature, nonce, timestampMs, request };
  }
}

function listOf(kept: KeptIdentity | null): readonly KeptIdentity[] {
  return kept === null ? [] : [kept];
}
