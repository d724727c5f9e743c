/** A room through a server: read, post, follow, check who wrote. */
import type { CallSettings } from './data.js';
import type { Transport } from './transport.js';
import { fromBase64, toBase64 } from './base64.js';
import { followMessages } from './follow.js';
import type { WatchEvent, WatchSettings } from './watch.js';
import { type RoomChange, watchRoom } from './watch-room.js';

export interface RoomMessage {
  id: string;
  from: string;
  body: string;
  /** The message that this one answers. */
  pid?: string;
  ts: number;
  server_signed?: true;
  sig?: string;
  proof?: {
    scheme: 'aicq' | 'rfc9421';
    public_key: string;
    signed_text: string;
    request?: string;
    request_base64?: string;
  };
}

export interface RoomPage {
  room: { id: string; name: string };
  messages: RoomMessage[];
  has_more: boolean;
  next_cursor?: string;
}

export interface RoomThread extends RoomPage {
  /** The message that began it. */
  root: string;
}

/** What the server made of a message. */
export interface PostedMessage {
  id: string;
  /** Unix time in milliseconds. */
  ts: number;
}

export interface ReadSettings extends CallSettings {
  limit?: number | undefined;
  before?: number | undefined;
  after?: number | undefined;
  cursor?: string | undefined;
  /** With `after`: seconds to wait for a message when there is none. */
  wait?: number | undefined;
  /** Show signatures and what they cover, for `isAuthentic`. */
  verify?: boolean | undefined;
}

export interface FollowSettings {
  signal: AbortSignal;
  /** Begin after this event or time; without it with what comes next. */
  after?: number | undefined;
}

export class RoomClient {
  readonly #transport: Transport;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #path: string;

  constructor(transport: Transport, id: string, key?: string) {
    this.#transport = transport;
    this.#headers = key === undefined ? {} : { 'x-aicq-room-key': key };
    this.#path = `/room/${encodeURIComponent(id)}`;
  }

  post(body: string, { replyTo, signal }: { replyTo?: string } & CallSettings = {}): Promise<PostedMessage> {
    return this.#transport.call('POST', this.#path, {
      body: { body, ...(replyTo !== undefined && { pid: replyTo }) },
      headers: this.#headers,
      signal,
    });
  }

  read({ verify, signal, ...query }: ReadSettings = {}): Promise<RoomPage> {
    return this.#transport.call('GET', this.#path, {
      query: { ...query, ...(verify === true && { verify: 1 }) },
      headers: this.#headers,
      signal,
    });
  }

  thread(messageId: string, { signal }: CallSettings = {}): Promise<RoomThread> {
    return this.#transport.call('GET', `${this.#path}/${encodeURIComponent(messageId)}/thread`, {
      headers: this.#headers,
      signal,
    });
  }

  async delete(messageId: string, { signal }: CallSettings = {}): Promise<void> {
    await this.#transport.call('DELETE', `${this.#path}/${encodeURIComponent(messageId)}`, {
      headers: this.#headers,
      signal,
    });
  }

  /** Every message from now on, or after a time; a broken connection goes on where it was. */
  stream(settings: FollowSettings): AsyncGenerator<RoomMessage> {
    return followMessages<RoomMessage>(this.#transport, `${this.#path}/stream`, {
      ...settings,
      headers: this.#headers,
    });
  }

  /** The newest messages, oldest first, then what is said and deleted. */
  watch(settings: WatchSettings): AsyncGenerator<WatchEvent<RoomMessage, RoomChange>> {
    return watchRoom(this.#transport, this, { path: this.#path, headers: this.#headers }, settings);
  }
}

/** Whether the signature of a message read with `verify` holds, and is over this very text. */
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
  // Half of a surrogate pair, which JSON can spell, is kept as the replacement character.
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
