/**
 * The identity in whose name a caller writes: its own signed identity, or one that the server holds for it.
 */
import { createHash, randomBytes } from 'node:crypto';
import { StoaError } from '../../core/errors.js';
import { type Caller, operatorCaller } from '../../core/caller.js';
import { type Writer, writeOne } from '../../core/write.js';
import { aicqSignedText, sign, signingKeysOf } from '../../identity/signatures.js';
import type { Identity, Proof } from '../model.js';
import { agentNameOf } from '../names.js';
import type { MessageBasis, MessagingPort, SealedIdentity } from '../port.js';
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
  /** The state that the write compares again. */
  basis: Omit<MessageBasis, 'keyHash'>;
  /** Proves that this author wrote `body`. */
  prove(body: string): Proof | null;
}

/** An agent by its user and name, and the token by which it is named. */
export type NamedAgent = Pick<Caller, 'user' | 'agent' | 'tokenId'>;

interface KeptAuthor {
  identity: Identity;
  owner: string;
  seed: Buffer;
}

/** An id that no identity has. */
const nobodyId = '00000000-0000-0000-0000-000000000000';

/** The name under which the server stores the identity of an agent. */
function ownerOf({ user, agent }: Pick<Caller, 'user' | 'agent'>): string {
  return createHash('sha256')
    .update(JSON.stringify([user, agent]))
    .digest('hex');
}

export class Authors {
  readonly #writer: Writer;
  readonly #port: MessagingPort;
  readonly #sealer: SecretSealer;

  constructor(writer: Writer, port: MessagingPort, sealer: SecretSealer) {
    this.#writer = writer;
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
        basis: { publicKey: signature?.publicKey ?? null, keptOwner: null },
        prove: (body) => (signature === null ? null : proofOf(signature, body)),
      };
    }
    if (!caller.scopes.write)
      throw new StoaError('forbidden', 'The token can only read.', {
        fix: 'Use a token with the write scope.',
      });
    const { identity, owner, seed } = await this.#kept(caller);
    return {
      id: identity.id,
      serverSigned: true,
      basis: { publicKey: identity.publicKey, keptOwner: owner },
      prove: (body) => this.#proveFor(identity, seed, body),
    };
  }

  /**
   * The identity whose inbox a caller reads. Reading does not create one: before its first message the inbox
   * of an agent is empty.
   */
  async readerOf(caller: Caller | null): Promise<string> {
    if (caller === null) throw refuse('missingAuthHeaders');
    if (caller.identity !== null) return caller.identity;
    return (await this.#port.kept(ownerOf(caller)))?.identity.id ?? nobodyId;
  }

  /** The identity that the server keeps for an agent, if it has one. */
  async keptFor(agent: Pick<Caller, 'user' | 'agent'>): Promise<string | undefined> {
    return (await this.#port.kept(ownerOf(agent)))?.identity.id;
  }

  /** The identity of an agent that receives a message. It is created if it does not exist. */
  async recipientOf(agent: NamedAgent): Promise<string> {
    return (await this.#kept(agent)).identity.id;
  }

  async #kept(agent: NamedAgent): Promise<KeptAuthor> {
    const owner = ownerOf(agent);
    const { identity, sealedSeed } = (await this.#port.kept(owner)) ?? (await this.#keep(owner, agent));
    return { identity, owner, seed: Buffer.from(this.#sealer.open(sealedSeed, owner), 'base64') };
  }

  /** A separate write: the identity stays even if the message is refused. */
  #keep(owner: string, { user, agent, tokenId }: NamedAgent): Promise<SealedIdentity> {
    const seed = randomBytes(32);
    const { publicKey } = signingKeysOf(seed);
    const keeping = this.#port.keep({
      owner,
      publicKey: publicKey.toString('base64'),
      name: agentNameOf(agent ?? user),
      email: null,
      proven: true,
      sealedSeed: this.#sealer.seal(seed.toString('base64'), owner),
    });
    return writeOne(this.#writer, { caller: { ...operatorCaller(user), tokenId } }, keeping);
  }

  /** The server signs the same text as an AICQ client, so that both are verified in the same way. */
  #proveFor(identity: Identity, seed: Buffer, body: string): Proof {
    const nonce = randomBytes(16).toString('hex');
    const timestampMs = this.#port.nowMs();
    const request = { before: '{"body":', after: '}' };
    const raw = Buffer.from(`${request.before}${JSON.stringify(body)}${request.after}`);
    const signature = sign(
      signingKeysOf(seed).secretKey,
      aicqSignedText(raw, nonce, String(timestampMs)),
    ).toString('base64');
    return { scheme: 'aicq', publicKey: identity.publicKey, signature, nonce, timestampMs, request };
  }
}
