/**
 * Writes of messaging. They are checked, authorised and prepared while no transaction is open, and then
 * become steps of the home.
 */
import { type Caller, operatorCaller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency.js';
import { type Step, type Writer, prepareAndWrite, writeOne } from '../core/write.js';
import { decodePublicKey, decodeSignature, rotationText, verifySignature } from '../identity/signatures.js';
import type { Limits } from '../core/settings/limits.js';
import type { SignatureCheck, SignedRequest } from './identities/authentication.js';
import type { Authors } from './identities/authors.js';
import type { CommitDraft, CommitMessage, Drafts, RoomPlace, RoomText } from './messages/drafts.js';
import type { Identity, Room } from './model.js';
import { agentNameOf, isEmail, roomNameOf } from './names.js';
import type { Delivered, MessagingPort } from './port.js';
import { type CheckedSignature, proofOf } from './identities/proof.js';
import { refuse } from './refusals.js';
import type { RoomDoors } from './rooms/doors.js';
import type { RoomKeys } from './rooms/keys.js';
import { canonicalUuid } from './identities/uuid.js';

export interface MessagingStepsOptions {
  port: MessagingPort;
  limits: Limits;
  authors: Authors;
  doors: RoomDoors;
  drafts: Drafts;
  keys: RoomKeys;
  signatures: SignatureCheck;
  /** The identity that may delete all messages. */
  adminAgent: string | null;
}

export interface Registration {
  public_key: string;
  name: string;
  email: string;
}

export interface ProfileChange {
  name?: string | null;
  email?: string | null;
}

type Signature = CheckedSignature | null;

/** The answer to a post. It is small, because it is stored under an Idempotency-Key. */
export interface Posted extends Delivered {
  roomId: string;
}

/** The answer of a commit for a message; `room` only for a message in a room. */
export interface CommittedMessage {
  id: string;
  ts: number;
  room?: string;
}

/** A message as steps of a commit. The checks run before all steps. */
export interface MessageInCommit {
  readonly checks: readonly Step<void>[];
  readonly step: Step<CommittedMessage>;
}

export class MessagingSteps {
  readonly #options: MessagingStepsOptions;

  constructor(options: MessagingStepsOptions) {
    this.#options = options;
  }

  // Identities

  /**
   * Registering a known key returns its identity unchanged, except that a signature verifies an unproven
   * registration.
   */
  register(
    input: Registration,
    request: Pick<SignedRequest, 'headers' | 'rawBody'>,
  ): Step<{ id: string; created: boolean }> {
    const { port, signatures } = this.#options;
    if (input.public_key === '') throw refuse('publicKeyMissing');
    const key = decodePublicKey(input.public_key);
    if (key === undefined) throw refuse('publicKey');
    const proven = signatures.checkRegistration(request, key);
    const email = this.#email(input.email);
    return port
      .register({ publicKey: input.public_key, name: agentNameOf(input.name), email, proven })
      .map(({ identity, created }) => ({ id: identity.id, created }));
  }

  async updateProfile(
    caller: Caller | null,
    id: string,
    { name, email }: ProfileChange,
  ): Promise<Step<Identity>> {
    const identity = await this.#own(caller, id);
    const updating = this.#options.port.updateProfile(identity.id, {
      ...(name !== undefined && { name: name === null ? null : agentNameOf(name) }),
      ...(email !== undefined && { email: email === null ? null : this.#email(email) }),
    });
    return updating.map((updated) => updated ?? identity);
  }

  /**
   * The old key signs the request and the new key signs `rotationText`. Without the second signature, a
   * caller could take over a key of another agent.
   */
  async rotateKey(
    caller: Caller | null,
    id: string,
    input: { public_key: string; proof: string },
    signature: Signature,
  ): Promise<Step<Identity>> {
    const identity = await this.#own(caller, id);
    if (input.public_key === '') throw refuse('publicKeyMissing');
    const key = decodePublicKey(input.public_key);
    if (key === undefined) throw refuse('publicKey');
    const proof = decodeSignature(input.proof);
    const text = rotationText(identity.id, identity.publicKey, input.public_key);
    if (proof === undefined || !verifySignature(key, text, proof)) throw refuse('rotationProof');
    const request = signature === null ? null : proofOf(signature, input.public_key);
    if (request === null) throw refuse('missingAuthHeaders');
    const rotating = this.#options.port.rotateKey({
      id: identity.id,
      oldPublicKey: identity.publicKey,
      newPublicKey: input.public_key,
      proof: request,
    });
    return rotating.map((outcome) => {
      if (outcome === 'taken') throw refuse('keyTaken');
      if (outcome === 'stale') throw refuse('keyStale');
      return { ...identity, publicKey: input.public_key };
    });
  }

  // Rooms

  async createRoom(
    caller: Caller | null,
    input: { name: string; is_private: boolean; key: string },
    signature: Signature,
  ): Promise<Step<Room>> {
    const { port, keys, authors } = this.#options;
    if (input.name === '') throw refuse('nameMissing');
    const name = roomNameOf(input.name);
    if (name === undefined) throw refuse('roomName');
    const author = await authors.authorOf(caller, signature);
    const keyHash = input.is_private ? await keys.hash(input.key) : null;
    const creating = port.createRoom({ name, isPrivate: input.is_private, keyHash, createdBy: author.id });
    return port.keepFirst(author.keeping, creating);
  }

  /** `read` is called after the caller's access to the room was checked. */
  async post(
    caller: Caller | null,
    place: RoomPlace,
    read: () => RoomText,
    signature: Signature,
  ): Promise<Step<Posted>> {
    const { port, drafts } = this.#options;
    const { message, basis, keeping } = await drafts.toRoom(caller, place, read, { caller, signature });
    const posting = port.keepFirst(keeping, port.post(message, basis));
    return posting.map(({ id, tsMs }) => ({ id, tsMs, roomId: message.roomId }));
  }

  /** The room's key is not needed: the author of a message may always delete it. */
  async deleteMessage(caller: Caller | null, roomId: string, messageId: string): Promise<Step<void>> {
    const { port, authors, doors, adminAgent } = this.#options;
    const room = await doors.find(roomId);
    if (caller === null) throw refuse('missingAuthHeaders');
    const message = await port.message(room.id, messageId);
    if (message === undefined) throw refuse('messageUnknown');
    const mayDelete =
      caller.kind === 'operator' || (caller.identity !== null && caller.identity === adminAgent);
    if (!mayDelete && message.from !== (await authors.readerOf(caller))) throw refuse('notAuthor');
    return port.deleteMessage(room.id, messageId).map((deleted) => {
      if (!deleted) throw refuse('messageUnknown');
    });
  }

  // Direct messages

  async send(
    caller: Caller | null,
    recipient: string,
    { body }: { body: string },
    signature: Signature,
  ): Promise<Step<Delivered>> {
    const { port, drafts } = this.#options;
    const { message, basis, keeping } = await drafts.toAgent(recipient, body, { caller, signature });
    const sending = port.keepFirst(keeping, port.send(message, basis));
    return sending.map(({ id, tsMs }) => ({ id, tsMs }));
  }

  async acknowledge(caller: Caller | null, ids: readonly string[]): Promise<Step<number>> {
    const { port, authors, limits } = this.#options;
    if (ids.length === 0) throw refuse('acknowledgeMissing');
    if (ids.length > limits.acknowledgedIdsMax) throw refuse('acknowledgeMany');
    return port.acknowledge(await authors.readerOf(caller), ids);
  }

  // Messages of commits

  /** The nonce of a signed message is used up in the commit, so a refused commit may be sent again. */
  async postInCommit(caller: Caller, operation: CommitMessage): Promise<MessageInCommit> {
    const { port } = this.#options;
    const { message, basis, keeping, nonce } = await this.prepareMessage(caller, operation);
    const writing: Step<CommittedMessage> =
      'roomId' in message
        ? port.post(message, basis).map(({ id, tsMs }) => ({ id, ts: tsMs, room: message.roomId }))
        : port.send(message, basis).map(({ id, tsMs }) => ({ id, ts: tsMs }));
    const step = port.keepFirst(keeping, writing);
    return { checks: nonce === null ? [] : [port.useNonce(nonce.agentId, nonce.nonce)], step };
  }

  /** The message after all checks, for homes that deliver it after the commit. */
  prepareMessage(caller: Caller, operation: CommitMessage): Promise<CommitDraft> {
    return this.#options.drafts.ofCommit(caller, operation);
  }

  async #own(caller: Caller | null, id: string): Promise<Identity> {
    if (caller === null) throw refuse('missingAuthHeaders');
    const canonical = canonicalUuid(id);
    if (canonical === undefined) throw refuse('agentId');
    const identity = await this.#options.port.identity(canonical);
    if (identity === undefined) throw refuse('agentUnknown');
    if (identity.id !== caller.identity) throw refuse('notYourProfile');
    return identity;
  }

  #email(text: string): string | null {
    const email = text.trim();
    if (email === '') return null;
    if (!isEmail(email, this.#options.limits.emailBytesMax)) throw refuse('email');
    return email;
  }
}

/** Prepares a step and writes it. Of callers without credentials, only a registration is written. */
export function writePrepared<Result>(
  writer: Writer,
  caller: Caller | null,
  prepare: () => Step<Result> | Promise<Step<Result>>,
  idempotency: Idempotency | null = null,
): Promise<Result> {
  return prepareAndWrite(async () =>
    writeOne(writer, { caller: caller ?? operatorCaller(), idempotency }, await prepare()),
  );
}
