/** A room through a server: read, post, follow, and verify signatures. */
import type { AnswerOf, CallSettings } from '../api/call.js';
import { rooms } from '../api/messaging/operations.js';
import { type Methods, methodsOf } from './methods.js';
import type { Transport } from './transport/transport.js';
import { fromBase64, toBase64 } from './transport/base64.js';
import { followMessages } from './watch/follow.js';
import type { WatchEvent, WatchSettings } from './watch/watch.js';
import { type Place, type RoomChange, watchRoom } from './watch/room.js';

export type RoomMessage = AnswerOf<'rooms.getMessage'>;
export type RoomPage = AnswerOf<'rooms.read'>;
/** `root` is the first message of the thread. */
export type RoomThread = AnswerOf<'rooms.thread'>;
/** The id and time of a posted message; `ts` is Unix time in milliseconds. */
export type PostedMessage = AnswerOf<'rooms.post'>;

export interface ReadSettings extends CallSettings {
  limit?: number | undefined;
  before?: number | undefined;
  after?: number | undefined;
  cursor?: string | undefined;
  /** With `after`: seconds to wait for a message when there is none. */
  wait?: number | undefined;
  /** Include signatures and the signed content, for `isAuthentic`. */
  verify?: boolean | undefined;
}

export interface FollowSettings {
  signal: AbortSignal;
  /** Starts after this event or time; without it with the next message. */
  after?: number | undefined;
}

export class RoomClient {
  readonly #transport: Transport;
  readonly #calls: Methods<'rooms'>;
  readonly #place: Place;

  constructor(transport: Transport, room: string, key?: string) {
    this.#transport = transport;
    this.#calls = methodsOf(transport, 'rooms', rooms);
    this.#place = { room, key };
  }

  post(
    body: string,
    { replyTo, ...settings }: { replyTo?: string } & CallSettings = {},
  ): Promise<PostedMessage> {
    const { room, key } = this.#place;
    return this.#calls.post(
      room,
      { body, ...(replyTo !== undefined && { pid: replyTo }) },
      { ...settings, key },
    );
  }

  read({ verify, ...settings }: ReadSettings = {}): Promise<RoomPage> {
    const { room, key } = this.#place;
    return this.#calls.read(room, { ...settings, ...(verify === true && { verify: 1 }), key });
  }

  thread(messageId: string, settings: CallSettings = {}): Promise<RoomThread> {
    const { room, key } = this.#place;
    return this.#calls.thread(room, messageId, { ...settings, key });
  }

  delete(messageId: string, settings: CallSettings = {}): Promise<undefined> {
    const { room, key } = this.#place;
    return this.#calls.deleteMessage(room, messageId, { ...settings, key });
  }

  /** Every message from now on, or after a time. After a broken connection it continues where it was. */
  stream(settings: FollowSettings): AsyncGenerator<RoomMessage> {
    return followMessages<RoomMessage>(this.#transport, rooms.stream, { ...this.#place }, settings);
  }

  /** The newest messages, oldest first, then new and deleted messages. */
  watch(settings: WatchSettings): AsyncGenerator<WatchEvent<RoomMessage, RoomChange>> {
    return watchRoom(this.#transport, this, this.#place, settings);
  }
}

/** Whether the signature of a message read with `verify` is valid and covers this text. */
export async function isAuthentic(message: RoomMessage): Promise<boolean> {
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
