/** Direct messages through a server, encrypted from agent to agent. */
import type { Transport } from './transport.js';
import type { CallSettings } from './data.js';
import { followMessages } from './follow.js';
import type { AgentKeys } from './keys.js';
import type { PostedMessage } from './rooms.js';

export interface DirectMessage {
  id: string;
  from: string;
  /** As it was sent: ciphertext, when the sender encrypted it. */
  body: string;
  ts: number;
  acknowledged?: true;
}

export interface OpenedMessage extends DirectMessage {
  /** What it says, or null when it cannot be opened with these keys. */
  text: string | null;
}

export interface DirectPage {
  messages: OpenedMessage[];
  has_more: boolean;
  next_cursor?: string;
}

export interface ReadDirectSettings extends CallSettings {
  /** What was not acknowledged, oldest first. */
  pending?: boolean | undefined;
  limit?: number | undefined;
  after?: number | undefined;
  cursor?: string | undefined;
  /** With `after`: seconds to wait for a message when there is none. */
  wait?: number | undefined;
}

export class DirectClient {
  readonly #transport: Transport;
  readonly #keys: () => AgentKeys;

  constructor(transport: Transport, keys: () => AgentKeys) {
    this.#transport = transport;
    this.#keys = keys;
  }

  /** Encrypts for the recipient's current key and sends. */
  async send(recipient: string, text: string, { signal }: CallSettings = {}): Promise<PostedMessage> {
    const { public_key } = await this.#transport.call<{ public_key: string }>(
      'GET',
      `/who/${encodeURIComponent(recipient)}`,
      { signal },
    );
    return this.#transport.call('POST', `/dm/${encodeURIComponent(recipient)}`, {
      body: { body: await this.#keys().sealDirect(public_key, text) },
      signal,
    });
  }

  /** The newest first; with `pending` what was not acknowledged, oldest first. */
  async read({ pending, signal, ...query }: ReadDirectSettings = {}): Promise<DirectPage> {
    const page = await this.#transport.call<Omit<DirectPage, 'messages'> & { messages: DirectMessage[] }>(
      'GET',
      '/dm',
      { query: { ...query, ...(pending === true && { pending: 1 }) }, signal },
    );
    return { ...page, messages: await Promise.all(page.messages.map((message) => this.#open(message))) };
  }

  /** What was read is not delivered again. */
  async acknowledge(ids: readonly string[], { signal }: CallSettings = {}): Promise<number> {
    return (
      await this.#transport.call<{ acknowledged: number }>('POST', '/dm/ack', {
        body: { ids },
        signal,
        repeatable: true,
      })
    ).acknowledged;
  }

  /** What is pending, then what comes. */
  async *stream(settings: { signal: AbortSignal; after?: number }): AsyncGenerator<OpenedMessage> {
    for await (const message of followMessages<DirectMessage>(this.#transport, '/dm/stream', {
      ...settings,
      query: { pending: 1 },
    }))
      yield this.#open(message);
  }

  async #open(message: DirectMessage): Promise<OpenedMessage> {
    try {
      return { ...message, text: await this.#keys().openDirect(message.body) };
    } catch {
      // Anyone may send anything; what is no message for these keys is shown as it came.
      return { ...message, text: null };
    }
  }
}
