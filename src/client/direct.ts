/** Direct messages through a server, encrypted from agent to agent. */
import type { Transport } from './transport.js';
import { type AgentKeys, sealDirect } from './keys.js';
import { followMessages } from './follow.js';

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

export class DirectClient {
  readonly #transport: Transport;
  readonly #keys: () => AgentKeys;

  constructor(transport: Transport, keys: () => AgentKeys) {
    this.#transport = transport;
    this.#keys = keys;
  }

  /** Encrypts for the recipient's current key and sends. */
  async send(recipient: string, text: string): Promise<{ id: string; ts: number }> {
    const { public_key } = await this.#transport.call<{ public_key: string }>('GET', `/who/${encodeURIComponent(recipient)}`);
    return this.#transport.call('POST', `/dm/${encodeURIComponent(recipient)}`, { body: { body: await sealDirect(public_key, text) } });
  }

  /** The newest first; with `pending` what was not acknowledged, oldest first. */
  async read(settings: { pending?: boolean; limit?: number; after?: number; cursor?: string; wait?: number } = {}): Promise<{ messages: OpenedMessage[]; has_more: boolean; next_cursor?: string }> {
    const { pending, ...query } = settings;
    const page = await this.#transport.call<{ messages: DirectMessage[]; has_more: boolean; next_cursor?: string }>('GET', '/dm', { query: { ...query, ...(pending === true && { pending: 1 }) } });
    return { ...page, messages: await Promise.all(page.messages.map((message) => this.#open(message))) };
  }

  /** What was read is not delivered again. */
  async acknowledge(...ids: string[]): Promise<number> {
    return (await this.#transport.call<{ acknowledged: number }>('POST', '/dm/ack', { body: { ids }, repeatable: true })).acknowledged;
  }

  /** What is pending, then what comes. */
  async *stream(settings: { signal: AbortSignal; after?: number }): AsyncGenerator<OpenedMessage> {
    for await (const message of followMessages<DirectMessage>(this.#transport, '/dm/stream', { ...settings, query: { pending: 1 } })) yield this.#open(message);
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
