/**
 * Prepares messages: finds the room, checks the key, and finds the author and the proof, while no transaction
 * is open.
 */
import type { Caller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import type { Gate } from '../gate/gate.js';
import type { SignatureCheck } from '../identities/authentication.js';
import type { Authors } from '../identities/authors.js';
import type { Recipients } from '../identities/recipients.js';
import { roomNameOf, wellFormed } from '../names.js';
import type {
  KeptIdentity,
  MessageBasis,
  MessagingPort,
  NewDirectMessage,
  NewMessage,
  OpeningMessage,
} from '../port.js';
import type { CheckedSignature } from '../identities/proof.js';
import { refuse } from '../refusals.js';
import {
  type RoomAccess,
  type RoomDoors,
  type RoomReference,
  requireWrite,
  unknownRoom,
} from '../rooms/doors.js';
import type { RoomKeys } from '../rooms/keys.js';
import { userOf } from '../rooms/visibility.js';
import { canonicalUuid } from '../identities/uuid.js';

/** The room of a message, and the key and address of the caller. */
export interface RoomPlace extends Partial<RoomAccess>, RoomReference {
  /** Counts a room that the message creates against the limit of created rooms. */
  admitRoom?: (() => Promise<void>) | undefined;
  /** The rooms that earlier messages of the same commit create, by name. */
  newRooms?: Map<string, NewRoomKey> | undefined;
}

/** The key of a room that a commit creates; empty and null for a room without a key. */
interface NewRoomKey {
  key: string;
  keyHash: string | null;
}

/** The recipient of a direct message: the id of an identity, or with `byName` also an agent of the caller's user. */
export interface RecipientReference {
  to: string;
  byName?: boolean | undefined;
}

export interface RoomText {
  body: string;
  /** The message that it answers; empty for none. */
  pid: string;
}

/** The signature of an agent over its message in a commit, in the format of the X-AICQ headers. */
interface SignedText {
  agent: string;
  nonce: string;
  timestamp: string;
  signature: string;
  request: string;
}

export type CommitMessage =
  | {
      op: 'room.post';
      room: string;
      body: string;
      pid?: string | undefined;
      key?: string | undefined;
      signed?: SignedText | undefined;
    }
  | { op: 'dm.send'; to: string; body: string; signed?: SignedText | undefined };

export interface Draft<NewOne> {
  message: NewOne;
  basis: MessageBasis;
  /** The identities of the author and the recipient that the write has to store first. */
  keeping: readonly KeptIdentity[];
}

/** A message to a room, or a message that creates its room in the same write. */
export type RoomDraft = Draft<NewMessage> | Draft<OpeningMessage>;

/** A message of a commit, with the nonce of its signature, which the commit uses up. */
export type CommitDraft = (Draft<NewMessage | NewDirectMessage> | Draft<OpeningMessage>) & {
  nonce: { agentId: string; nonce: string } | null;
};

/** Runs the count of a message, or does without it where the counters do not answer. */
export type RunCount = (count: () => Promise<void>) => Promise<void>;

type SignedBody = Omit<NewMessage, 'roomId' | 'parentId'>;

/** The author, and the signature that proves it, if any. */
interface Signing {
  caller: Caller | null;
  signature: CheckedSignature | null;
}

export interface DraftsOptions {
  port: MessagingPort;
  limits: Limits;
  doors: RoomDoors;
  keys: RoomKeys;
  authors: Authors;
  recipients: Recipients;
  signatures: SignatureCheck;
  gate: Pick<Gate, 'count'>;
  /** Refuse signatures in the format of the X-AICQ headers. */
  requireMessageSignatures: boolean;
}

export class Drafts {
  readonly #options: DraftsOptions;

  constructor(options: DraftsOptions) {
    this.#options = options;
  }

  /**
   * `read` is called after the key was checked, so that callers without access learn nothing about the text.
   */
  async toRoom(
    caller: Caller | null,
    place: RoomPlace,
    read: () => RoomText,
    author: Signing,
  ): Promise<RoomDraft> {
    const { doors, limits } = this.#options;
    const { key, address } = place;
    const found = await doors.findToPost(caller, place);
    if (found === undefined) return this.#toNewRoom(caller, place, read(), author);
    const { room, keyHash } = await doors.enterToWrite(caller, found, { key, address });
    const { body, pid } = read();
    const { message, basis, keeping } = await this.#sign(
      author,
      checkBody(body, limits.messageBytesMax, 'messageLong'),
    );
    const parentId = pid === '' ? null : pid;
    // A room key and the identity of an unsigned author are waited for.
    const isReadAhead = place.ahead !== undefined && author.signature !== null && !room.isPrivate;
    return {
      message: { ...message, roomId: room.id, parentId },
      basis: { ...basis, keyHash, room: isReadAhead ? room : undefined },
      keeping,
    };
  }

  /** The room belongs to the caller's user. A message with a key makes it private. */
  async #toNewRoom(
    caller: Caller | null,
    place: RoomPlace,
    { body, pid }: RoomText,
    author: Signing,
  ): Promise<Draft<OpeningMessage>> {
    const owner = userOf(caller);
    const name = roomNameOf(place.room);
    if (owner === null || name === undefined) throw unknownRoom(place.room);
    requireWrite(caller, { owner });
    if (pid !== '') throw refuse('parentUnknown');
    const signed = await this.#sign(
      author,
      checkBody(body, this.#options.limits.messageBytesMax, 'messageLong'),
    );
    const keyHash = await this.#newKeyHash(name, place);
    const room = { name, owner, isPrivate: keyHash !== null, keyHash, retentionSeconds: null };
    const { message } = signed;
    return { ...signed, message: { room: { ...room, createdBy: message.from }, message } };
  }

  /** The first message of a commit to a new room decides its key. The key is hashed once for the commit. */
  async #newKeyHash(name: string, { key = '', admitRoom, newRooms }: RoomPlace): Promise<string | null> {
    const known = newRooms?.get(name);
    if (known !== undefined) {
      if (known.keyHash !== null && known.key !== key)
        throw refuse(key === '' ? 'roomKeyRequired' : 'roomKeyWrong');
      return known.keyHash;
    }
    await admitRoom?.();
    const keyHash = key === '' ? null : await this.#options.keys.hash(key);
    newRooms?.set(name, { key, keyHash });
    return keyHash;
  }

  /** `recipient` is the identity that the caller names. The message may go to another one of the same agent. */
  async toAgent(
    caller: Caller | null,
    { to, byName = false }: RecipientReference,
    body: string,
    author: Signing,
  ): Promise<Draft<NewDirectMessage> & { recipient: string }> {
    const { limits, recipients } = this.#options;
    const { id, keeping } = byName
      ? await recipients.named(caller, to)
      : { id: canonicalUuid(to), keeping: [] };
    if (id === undefined) throw refuse('recipientId');
    const receiving = keeping.length > 0 ? id : await this.#receiving(id);
    const signed = await this.#sign(author, checkBody(body, limits.directBytesMax, 'directLong'));
    return {
      ...signed,
      message: { ...signed.message, to: receiving },
      keeping: [...signed.keeping, ...keeping],
      recipient: id,
    };
  }

  async #receiving(id: string): Promise<string> {
    const { port, recipients } = this.#options;
    const identity = await port.identity(id);
    if (identity === undefined) throw refuse('recipientUnknown');
    return recipients.receiving(identity);
  }

  /**
   * Prepares the messages of one commit, in order. Each counts against the rate of its author like a request:
   * once, however often the commit is prepared.
   */
  ofCommit(caller: Caller, runCount: RunCount): (operation: CommitMessage) => Promise<CommitDraft> {
    const newRooms = new Map<string, NewRoomKey>();
    const counted = new Set<CommitMessage>();
    return async (operation) => {
      const author = await this.#signerOf(caller, operation);
      const endpoint = operation.op === 'room.post' ? 'post' : 'dm-send';
      if (!counted.has(operation))
        await runCount(() => this.#options.gate.count(author.caller ?? caller, endpoint));
      counted.add(operation);
      return this.#ofCommit(caller, author, operation, newRooms);
    };
  }

  /**
   * In the name of the caller, or of an agent that signed the message itself. A new room counts against the
   * rate only if it has a key, which costs a bcrypt: without Redis, a commit still creates rooms without a
   * key.
   */
  async #ofCommit(
    caller: Caller,
    author: Signing,
    operation: CommitMessage,
    newRooms: Map<string, NewRoomKey>,
  ): Promise<CommitDraft> {
    const { gate } = this.#options;
    const draft =
      operation.op === 'room.post'
        ? await this.toRoom(
            caller,
            {
              room: operation.room,
              byName: true,
              key: operation.key,
              address: caller.address,
              newRooms,
              ...((operation.key ?? '') !== '' && { admitRoom: () => gate.count(caller, 'create-room') }),
            },
            () => ({ body: operation.body, pid: operation.pid ?? '' }),
            author,
          )
        : await this.toAgent(caller, { to: operation.to, byName: true }, operation.body, author);
    const { from } = 'room' in draft.message ? draft.message.message : draft.message;
    return {
      ...draft,
      nonce: author.signature === null ? null : { agentId: from, nonce: author.signature.nonce },
    };
  }

  async #sign({ caller, signature }: Signing, body: string): Promise<Draft<SignedBody>> {
    const author = await this.#options.authors.authorOf(caller, signature);
    const { id, serverSigned, basis, keeping, prove } = author;
    return { message: { from: id, body, proof: prove(body), serverSigned }, basis, keeping };
  }

  async #signerOf(caller: Caller, { body, signed }: CommitMessage): Promise<Signing> {
    if (signed === undefined) return { caller, signature: null };
    if (bodyIn(signed.request) !== body)
      throw new StoaError(
        'invalid_request',
        'The body in signed.request differs from the body of the operation.',
        { details: { field: 'signed.request' } },
      );
    const { signatures, requireMessageSignatures } = this.#options;
    const { identity, signature } = await signatures.check(
      {
        method: 'POST',
        targetUri: '/v1/commit',
        headers: {
          'x-aicq-agent': signed.agent,
          'x-aicq-nonce': signed.nonce,
          'x-aicq-timestamp': signed.timestamp,
          'x-aicq-signature': signed.signature,
        },
        rawBody: Buffer.from(signed.request),
      },
      { messageSignaturesOnly: requireMessageSignatures },
    );
    return { caller: { ...caller, identity: identity.id }, signature };
  }
}

function checkBody(text: string, bytesMax: number, refusal: 'messageLong' | 'directLong'): string {
  const body = wellFormed(text);
  if (body === '') throw refuse('bodyMissing');
  if (Buffer.byteLength(body) > bytesMax) throw refuse(refusal);
  return body;
}

function bodyIn(request: string): unknown {
  try {
    return (JSON.parse(request) as { body?: unknown } | null)?.body;
  } catch (error) {
    throw new StoaError('invalid_request', 'signed.request is not valid JSON.', {
      cause: error,
      details: { field: 'signed.request' },
    });
  }
}
