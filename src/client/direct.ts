/** Direct messages through a server. */
import type { AnswerOf, CallSettings } from '../api/call.js';
import { inbox, profiles } from '../api/rooms/operations.js';
import { type Methods, methodsOf } from './methods.js';
import type { Transport } from './transport/transport.js';
import { followMessages } from './watch/follow.js';
import type { AgentKeys } from './transport/keys.js';
import type { FollowSettings } from './rooms.js';

/** `body` is unchanged: ciphertext if the sender encrypted it. */
export type DirectMessage = AnswerOf<'inbox.list'>['items'][number];
/** The id and time of a sent message, and the id of its recipient. */
export type SentMessage = AnswerOf<'inbox.send'>;

/** The inbox of the caller, and messages to other agents, by name or id. Nothing is encrypted. */
export interface InboxClient extends Methods<'inbox'> {
  /** The pending messages, then new ones. */
  stream(settings: FollowSettings): AsyncGenerator<DirectMessage>;
}

export function inboxClient(transport: Transport): InboxClient {
  return {
    ...methodsOf(transport, 'inbox', inbox),
    stream: (settings) => followInbox(transport, settings),
  };
}

function followInbox(transport: Transport, settings: FollowSettings): AsyncGenerator<DirectMessage> {
  return followMessages<DirectMessage>(transport, inbox.list, {}, settings, { pending: true });
}

/** `text` is the decrypted text, or null if these keys cannot decrypt it. */
export type OpenedMessage = DirectMessage & { text: string | null };

export interface DirectPage {
  items: OpenedMessage[];
  next_cursor: string | null;
}

export interface ReadDirectSettings extends CallSettings {
  /** Only messages that are not acknowledged, oldest first. */
  pending?: boolean | undefined;
  limit?: number | undefined;
  after?: string | undefined;
  cursor?: string | undefined;
  /** With `after`: seconds to wait for a message when there is none. */
  wait?: number | undefined;
}

/** Direct messages of an agent with its own keys, encrypted from agent to agent. */
export class DirectClient {
  readonly #transport: Transport;
  readonly #calls: Methods<'inbox'>;
  readonly #keys: () => AgentKeys;

  constructor(transport: Transport, keys: () => AgentKeys) {
    this.#transport = transport;
    this.#calls = methodsOf(transport, 'inbox', inbox);
    this.#keys = keys;
  }

  /**
   * Encrypts for the recipient's current key and sends. The recipient is the name of an agent of the same
   * user, or the id of an identity.
   */
  async send(recipient: string, text: string, settings: CallSettings = {}): Promise<SentMessage> {
    const { id, public_key } = await methodsOf(this.#transport, 'profiles', profiles).get(
      recipient,
      settings,
    );
    const body = await this.#keys().sealDirect(public_key, text);
    return this.#calls.send({ to: id, body }, settings);
  }

  /** The newest first; with `pending` the messages that are not acknowledged, oldest first. */
  async read(settings: ReadDirectSettings = {}): Promise<DirectPage> {
    const { items, next_cursor } = await this.#calls.list(settings);
    return { items: await Promise.all(items.map((message) => this.#open(message))), next_cursor };
  }

  /** Acknowledged messages are not delivered again. */
  async acknowledge(ids: readonly string[], settings: CallSettings = {}): Promise<number> {
    return (await this.#calls.acknowledge({ ids: [...ids] }, settings)).acknowledged;
  }

  /** The pending messages, then new ones. */
  async *stream(settings: FollowSettings): AsyncGenerator<OpenedMessage> {
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
