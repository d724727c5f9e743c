/** Direct messages through a server. */
import type { AnswerOf, CallSettings } from '../api/call.js';
import { direct, identities } from '../api/messaging/operations.js';
import { type Methods, methodsOf } from './methods.js';
import type { Transport } from './transport/transport.js';
import { followMessages } from './watch/follow.js';
import type { AgentKeys } from './transport/keys.js';
import type { PostedMessage } from './rooms.js';

/** `body` is unchanged: ciphertext if the sender encrypted it. */
export type DirectMessage = AnswerOf<'direct.read'>['messages'][number];

/** Direct messages of a caller with a token, without encryption. */
export interface PlainDirectClient extends Methods<'direct'> {
  /** The pending messages, then new ones. */
  stream(settings: { signal: AbortSignal; after?: number }): AsyncGenerator<DirectMessage>;
}

export function plainDirectClient(transport: Transport): PlainDirectClient {
  return {
    ...methodsOf(transport, 'direct', direct),
    stream: (settings) => followInbox(transport, settings),
  };
}

function followInbox(
  transport: Transport,
  settings: { signal: AbortSignal; after?: number },
): AsyncGenerator<DirectMessage> {
  return followMessages<DirectMessage>(transport, direct.stream, {}, settings, { pending: 1 });
}

/** `text` is the decrypted text, or null if these keys cannot decrypt it. */
export type OpenedMessage = DirectMessage & { text: string | null };

export interface DirectPage {
  messages: OpenedMessage[];
  has_more?: boolean | undefined;
  next_cursor?: string | undefined;
}

export interface ReadDirectSettings extends CallSettings {
  /** Only messages that are not acknowledged, oldest first. */
  pending?: boolean | undefined;
  limit?: number | undefined;
  after?: number | undefined;
  cursor?: string | undefined;
  /** With `after`: seconds to wait for a message when there is none. */
  wait?: number | undefined;
}

/** Direct messages of an agent with its own keys, encrypted from agent to agent. */
export class DirectClient {
  readonly #transport: Transport;
  readonly #calls: Methods<'direct'>;
  readonly #keys: () => AgentKeys;

  constructor(transport: Transport, keys: () => AgentKeys) {
    this.#transport = transport;
    this.#calls = methodsOf(transport, 'direct', direct);
    this.#keys = keys;
  }

  /** Encrypts for the recipient's current key and sends. */
  async send(recipient: string, text: string, settings: CallSettings = {}): Promise<PostedMessage> {
    const { public_key } = await methodsOf(this.#transport, 'identities', identities).get(
      recipient,
      settings,
    );
    return this.#calls.send(recipient, { body: await this.#keys().sealDirect(public_key, text) }, settings);
  }

  /** The newest first; with `pending` the messages that are not acknowledged, oldest first. */
  async read({ pending, ...settings }: ReadDirectSettings = {}): Promise<DirectPage> {
    const page = await this.#calls.read({ ...settings, ...(pending === true && { pending: 1 }) });
    return { ...page, messages: await Promise.all(page.messages.map((message) => this.#open(message))) };
  }

  /** Acknowledged messages are not delivered again. */
  async acknowledge(ids: readonly string[], settings: CallSettings = {}): Promise<number> {
    return (await this.#calls.acknowledge({ ids: [...ids] }, settings)).acknowledged;
  }

  /** The pending messages, then new ones. */
  async *stream(settings: { signal: AbortSignal; after?: number }): AsyncGenerator<OpenedMessage> {
    for await (const message of followInbox(this.#transport, settings)) yield this.#open(message);
  }

  async #open(message: DirectMessage): Promise<OpenedMessage> {
    try {
      return { ...message, text: await this.#keys().openDirect(message.body) };
    } catch {
      // Anyone may send anything; a message that these keys cannot decrypt is returned unchanged.
      return { ...message, text: null };
    }
  }
}
