/** A room through a server: read, post, follow, and verify signatures. */
import type { AnswerOf, CallSettings } from '../api/call.js';
import { messages } from '../api/rooms/operations.js';
import { type Methods, methodsOf } from './methods.js';
import type { Transport } from './transport/transport.js';
import { fromBase64, toBase64 } from './transport/base64.js';
import { followMessages } from './watch/follow.js';
import type { WatchEvent, WatchSettings } from './watch/watch.js';
import { type Place, type RoomChange, watchRoom } from './watch/room.js';

/** A message with its author, and how far the author is proven: `member`, `linked` or `outside`. */
export type RoomMessage = AnswerOf<'messages.get'>;
export type RoomPage = AnswerOf<'messages.list'>;
/** The id and time of a posted message; `room_created` if the message created the room. */
export type PostedMessage = AnswerOf<'messages.post'>;

export interface ReadSettings extends CallSettings {
  limit?: number | undefined;
  /** Only messages before this time. */
  before?: string | undefined;
  /** Only messages after this time, oldest first. */
  after?: string | undefined;
  cursor?: string | undefined;
  /** With `after`: seconds to wait for a message when there is none. */
  wait?: number | undefined;
  /** Include signatures and the signed content, for `isAuthentic`. */
  verify?: boolean | undefined;
}

export interface FollowSettings {
  signal: AbortSignal;
  /** Starts after this time; without it with the next message. */
  after?: string | undefined;
}

export class RoomClient {
  readonly #transport: Transport;
  readonly #calls: Methods<'messages'>;
  readonly #place: Place;

  constructor(transport: Transport, room: string, key?: string) {
    this.#transport = transport;
    this.#calls = methodsOf(transport, 'messages', messages);
    this.#place = { room, key };
  }

  /** A name that the user's rooms do not have creates the room. */
  post(
    body: string,
    { replyTo, ...settings }: { replyTo?: string; idempotencyKey?: string } & CallSettings = {},
  ): Promise<PostedMessage> {
    const { room, key } = this.#place;
    return this.#calls.post(
      room,
      { body, ...(replyTo !== undefined && { pid: replyTo }) },
      { ...settings, key },
    );
  }

  /** Newest first; with `after` the next messages, oldest first. */
  read(settings: ReadSettings = {}): Promise<RoomPage> {
    const { room, key } = this.#place;
    return this.#calls.list(room, { ...settings, key });
  }

  /** The thread of a message, oldest first. Any message of the thread can be named. */
  thread(messageId: string, settings: ReadSettings = {}): Promise<RoomPage> {
    const { room, key } = this.#place;
    return this.#calls.list(room, { ...settings, thread: messageId, key });
  }

  message(
    messageId: string,
    settings: { verify?: boolean | undefined } & CallSettings = {},
  ): Promise<RoomMessage> {
    const { room, key } = this.#place;
    return this.#calls.get(room, messageId, { ...settings, key });
  }

  delete(messageId: string, settings: CallSettings = {}): Promise<undefined> {
    return this.#calls.delete(this.#place.room, messageId, settings);
  }

  /** Every message from now on, or after a time. After a broken connection it continues where it was. */
  stream(settings: FollowSettings): AsyncGenerator<RoomMessage> {
    return followMessages<RoomMessage>(this.#transport, messages.list, { ...this.#place }, settings);
  }

  /** The newest messages, oldest first, then new and deleted messages. */
  watch(settings: WatchSettings): AsyncGenerator<WatchEvent<RoomMessage, RoomChange>> {
    return watchRoom(this.#transport, this, this.#place, settings);
  }
}

/** Whether the signature of a message read with `verify` is valid and covers this text. */
export async function isAuthentic(message: Pick<RoomMessage, 'proof' | 'sig' | 'body'>): Promise<boolean> {
  const { proof, sig, body } = message;
  if (proof === undefined || sig === undefined) return false;
  const request =
    proof.request === undefined
      ? fromBase64(proof.request_base64 ?? '')
      : new TextEncoder().encode(proof.request);
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', request));
  const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const covered =
    proof.scheme === 'aicq'
      ? proof.signed_text.startsWith(`${hex}|`)
      : proof.signed_text.includes(`sha-256=:${toBase64(hash)}:`);
  const fields: unknown = JSON.parse(new TextDecoder().decode(request));
  // JSON can contain a lone surrogate, which is stored as the replacement character.
  const isBody = (name: string, value: unknown) =>
    name.toLowerCase() === 'body' && typeof value === 'string' && value.toWellFormed() === body;
  const said =
    typeof fields === 'object' &&
    fields !== null &&
    Object.entries(fields).some(([name, value]) => isBody(name, value));
  if (!covered || !said) return false;
  const key = await crypto.subtle.importKey('raw', fromBase64(proof.public_key), 'Ed25519', false, [
    'verify',
  ]);
  return crypto.subtle.verify('Ed25519', key, fromBase64(sig), new TextEncoder().encode(proof.signed_text));
}
