/**
 * Writes of messaging. They are checked, authorised and prepared while no transaction is open, and then
 * become steps of the home.
 */
import { type Caller, operatorCaller, requireWriteScope } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import { type Step, type Writer, prepareAndWrite, writeOne } from '../core/write.js';
import { decodePublicKey, decodeSignature, rotationText, verifySignature } from '../identity/signatures.js';
import type { Limits } from '../core/settings/limits.js';
import { isoTime } from '../core/text/iso-time.js';
import type { SignatureCheck, SignedRequest } from './identities/authentication.js';
import type { Authors } from './identities/authors.js';
import type {
  CommitDraft,
  CommitMessage,
  Drafts,
  RecipientReference,
  RoomDraft,
  RoomPlace,
  RoomText,
  RunCount,
} from './messages/drafts.js';
import type { Identity, Room } from './model.js';
import { agentNameOf, isEmail, roomNameOf } from './names.js';
import type { Delivered, MessagingPort, RoomUpdate } from './port.js';
import { type CheckedSignature, proofOf } from './identities/proof.js';
import { publicRetention, refuse } from './refusals.js';
import { type RoomDoors, type RoomReference, requireWrite } from './rooms/doors.js';
import type { RoomKeys } from './rooms/keys.js';
import { canonicalRoomId, canonicalUuid, globalRoomId } from './identities/uuid.js';
import { StoaError } from '../core/errors.js';
import { limitError } from '../core/settings/exceeds.js';

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

/** A direct message that was sent, and the identity that its sender named. */
export interface Sent extends Delivered {
  recipient: string;
}

type Signature = CheckedSignature | null;

/** A room to create. */
export interface RoomInput {
  name: string;
  /** With a key. */
  is_private: boolean;
  key: string;
  /** The user that the room is for; null: everyone. */
  owner: string | null;
  retentionSeconds?: number | null;
}

/** The answer to a post. It is small, because it is stored under an Idempotency-Key. */
export interface Posted extends Delivered {
  roomId: string;
  /** The message created the room. */
  created: boolean;
}

/** The answer of a commit for a message; `room_id` only for a message in a room. */
interface CommittedMessage {
  id: string;
  ts: string;
  room_id?: string;
  room_created?: true;
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

  async createRoom(caller: Caller | null, input: RoomInput, signature: Signature): Promise<Step<Room>> {
    const { port, keys, authors } = this.#options;
    const { owner, retentionSeconds = null } = input;
    const name = owner === null ? publicName(input.name) : ownName(input.name);
    requireWrite(caller, { owner });
    const author = await authors.authorOf(caller, signature);
    const keyHash = input.is_private ? await keys.hash(input.key) : null;
    const made = { name, isPrivate: input.is_private, keyHash, createdBy: author.id };
    return port.keepFirst(author.keeping, port.createRoom({ ...made, owner, retentionSeconds }));
  }

  async updateRoom(caller: Caller, room: Room, change: RoomUpdate, ifVersion?: number): Promise<Step<Room>> {
    const { port, limits } = this.#options;
    await this.#requireManager(caller, room);
    const { name, retentionSeconds } = change;
    if (room.owner === null && retentionSeconds !== undefined) throw publicRetention();
    if (typeof retentionSeconds === 'number' && retentionSeconds > limits.roomRetentionSecondsMax)
      throw limitError('invalid_request', {
        subject: 'retention_seconds',
        unit: 'seconds',
        limit: 'roomRetentionSecondsMax',
        limits,
        received: retentionSeconds,
        advice: 'Use a lower value',
      });
    const isOwn = room.owner !== null;
    const changed = {
      ...(name !== undefined && { name: isOwn ? ownName(name) : publicName(name) }),
      ...(retentionSeconds !== undefined && { retentionSeconds }),
    };
    return port.updateRoom(room.id, changed, ifVersion);
  }

  async deleteRoom(caller: Caller, room: Room, ifVersion?: number): Promise<Step<void>> {
    await this.#requireManager(caller, room);
    return this.#options.port.deleteRoom(room.id, ifVersion).map((deleted) => {
      if (!deleted) throw refuse('roomUnknown');
    });
  }

  /** The owner and the operator; of a public room, also the user whose agent created it. */
  async #requireManager(caller: Caller, room: Room): Promise<void> {
    if (room.id === globalRoomId)
      throw new StoaError('forbidden', 'The global room cannot be changed or deleted.', {
        fix: 'Use a room of your own.',
      });
    requireWriteScope(caller);
    if (caller.kind === 'operator' || (room.owner !== null && room.owner === caller.user)) return;
    const creator = room.createdBy === null ? undefined : await this.#options.port.identity(room.createdBy);
    const isOwn = creator !== undefined && creator.id === caller.identity;
    if (isOwn || (creator?.link?.user === caller.user && caller.user !== '')) return;
    throw new StoaError(
      'forbidden',
      'The caller did not create this public room, so the caller cannot change it.',
      { fix: 'Ask the operator, or the user whose agent created the room.' },
    );
  }

  /** `read` is called after the caller's access to the room was checked. */
  async post(
    caller: Caller | null,
    place: RoomPlace,
    read: () => RoomText,
    signature: Signature,
  ): Promise<Step<Posted>> {
    return this.#posting(await this.#options.drafts.toRoom(caller, place, read, { caller, signature }));
  }

  #posting({ message, basis, keeping }: RoomDraft): Step<Posted> {
    const { port } = this.#options;
    if ('room' in message) return port.keepFirst(keeping, port.postOpening(message, basis));
    const { roomId } = message;
    const posting = port.keepFirst(keeping, port.post(message, basis));
    return posting.map(({ id, tsMs }) => ({ id, tsMs, roomId, created: false }));
  }

  /** The room's key is not needed: the author of a message may always delete it. */
  async deleteMessage(
    caller: Caller | null,
    reference: RoomReference,
    messageId: string,
  ): Promise<Step<void>> {
    const { port, authors, doors, adminAgent } = this.#options;
    const room = await doors.find(caller, reference);
    if (caller === null) throw refuse('missingAuthHeaders');
    requireWrite(caller, room);
    const message = await port.message(room, messageId);
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
    reference: RecipientReference,
    { body }: { body: string },
    signature: Signature,
  ): Promise<Step<Sent>> {
    const { port, drafts } = this.#options;
    const draft = await drafts.toAgent(caller, reference, body, { caller, signature });
    const { message, basis, keeping, recipient } = draft;
    const sending = port.keepFirst(keeping, port.send(message, basis));
    return sending.map(({ id, tsMs }) => ({ id, tsMs, recipient }));
  }

  /** For each inbox of the caller, the step that acknowledges the messages in it. */
  async acknowledge(caller: Caller | null, ids: readonly string[]): Promise<Step<number>[]> {
    const { port, authors, limits } = this.#options;
    if (ids.length === 0) throw refuse('acknowledgeMissing');
    if (ids.length > limits.acknowledgedIdsMax) throw refuse('acknowledgeMany');
    return (await authors.inboxesOf(caller)).map((inbox) => port.acknowledge(inbox, ids));
  }

  // Messages of commits

  /** The nonce of a signed message is used up in the commit, so a refused commit may be sent again. */
  postInCommit(caller: Caller): (operation: CommitMessage) => Promise<MessageInCommit> {
    const { port } = this.#options;
    const prepare = this.prepareMessages(caller, (count) => count());
    return async (operation) => {
      const { message, basis, keeping, nonce } = await prepare(operation);
      const step: Step<CommittedMessage> =
        'to' in message
          ? port
              .keepFirst(keeping, port.send(message, basis))
              .map(({ id, tsMs }) => ({ id, ts: isoTime(tsMs) }))
          : this.#posting({ message, basis, keeping } as RoomDraft).map(committedMessage);
      return { checks: nonce === null ? [] : [port.useNonce(nonce.agentId, nonce.nonce)], step };
    };
  }

  /** The messages of one commit after all checks, for homes that deliver them after the commit. */
  prepareMessages(caller: Caller, runCount: RunCount): (operation: CommitMessage) => Promise<CommitDraft> {
    return this.#options.drafts.ofCommit(caller, runCount);
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

function committedMessage({ id, tsMs, roomId, created }: Posted): CommittedMessage {
  return { id, ts: isoTime(tsMs), room_id: roomId, ...(created && { room_created: true as const }) };
}

function publicName(given: string): string {
  if (given === '') throw refuse('nameMissing');
  const name = roomNameOf(given);
  if (name === undefined) throw refuse('roomName', { details: { field: 'name' } });
  return name;
}

/** A name that could be an id would make two rooms answer to it. */
function ownName(given: string): string {
  const name = publicName(given);
  if (canonicalRoomId(name) === undefined) return name;
  throw new StoaError('invalid_request', `The name "${name}" has the form of the id of a room.`, {
    fix: 'Choose a name that is not a UUID and not "global".',
    details: { field: 'name' },
  });
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
