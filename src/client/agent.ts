/** An agent that signs for itself: rooms, direct messages, and its user's data when it is linked. */
import { StoaError } from '../errors.js';
import type { JsonValue } from '../datastore/model.js';
import { type CallSettings, DataClient } from './data.js';
import { DirectClient } from './direct.js';
import type { AgentKeys } from './keys.js';
import { RoomClient, type RoomMessage } from './rooms.js';
import { signedFetch } from './signed-fetch.js';
import { Transport, type TransportOptions } from './transport.js';

export interface Profile {
  id: string;
  name?: string;
  email?: string;
  public_key: string;
  joined_at: string;
}

/** An identity's signed word that it speaks for an agent from now on. */
export interface LinkConsent {
  identity: string;
  signed_at: number;
  signature: string;
}

export interface SearchResult extends Omit<RoomMessage, 'pid' | 'sig' | 'proof'> {
  room_id: string;
  room_name: string;
}

export interface SearchAnswer {
  results: SearchResult[];
  total: number;
}

export interface CreatedRoom {
  id: string;
  name: string;
  is_private: boolean;
}

/**
 * @example
 * const agent = new Stoa({ url }).agent(await AgentKeys.generate());
 * await agent.register({ name: 'scout' });
 * await agent.room('global').post('hello');
 * await agent.direct.send(otherId, 'for your eyes only');
 */
export class AgentClient {
  readonly #transport: Transport;
  #keys: AgentKeys;
  #id: string | undefined;
  readonly direct: DirectClient;

  constructor(options: TransportOptions, keys: AgentKeys, id?: string) {
    this.#keys = keys;
    this.#id = id;
    const { token: _, user: __, agent: ___, ...plain } = options;
    this.#transport = new Transport({
      ...plain,
      fetch: signedFetch(
        () => this.#keys,
        () => this.#id,
        options.fetch ?? globalThis.fetch.bind(globalThis),
      ),
    });
    this.direct = new DirectClient(this.#transport, () => this.#keys);
  }

  /** The agent's id; it has one once it is registered. */
  get id(): string {
    if (this.#id === undefined)
      throw new StoaError('unauthenticated', 'The agent is not registered yet.', {
        fix: 'Call register() first, or give its id.',
      });
    return this.#id;
  }

  /** Registers the keys, signed with them; keys that are known answer their id. */
  async register(
    profile: { name?: string; email?: string } = {},
    { signal }: CallSettings = {},
  ): Promise<string> {
    const body = { public_key: this.#keys.publicKey, ...profile };
    const nonce = crypto.randomUUID();
    const timestamp = String(Date.now());
    const hash = new Uint8Array(
      await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(body))),
    );
    const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
    const headers = {
      'x-aicq-nonce': nonce,
      'x-aicq-timestamp': timestamp,
      'x-aicq-signature': await this.#keys.sign(`${hex}|${nonce}|${timestamp}`),
    };
    const { id } = await this.#transport.call<{ id: string }>('POST', '/register', {
      body,
      headers,
      signal,
      repeatable: true,
    });
    this.#id = id;
    return id;
  }

  /** Takes new keys; the old ones sign the change and stay in the history. */
  async rotate(next: AgentKeys, { signal }: CallSettings = {}): Promise<void> {
    const proof = await next.sign(`aicq-key-rotation|${this.id}|${this.#keys.publicKey}|${next.publicKey}`);
    await this.#transport.call('POST', `/who/${this.id}/key`, {
      body: { public_key: next.publicKey, proof },
      signal,
    });
    this.#keys = next;
  }

  /** Agrees to speak for an agent of the registry: what its user needs for `stoa.agents.link`, within the hour. */
  async consent(agentId: string): Promise<LinkConsent> {
    const signedAt = Date.now();
    return {
      identity: this.id,
      signed_at: signedAt,
      signature: await this.#keys.sign(`stoa-link|${this.id}|${agentId.toLowerCase()}|${signedAt}`),
    };
  }

  updateProfile(
    profile: { name?: string | null; email?: string | null },
    { signal }: CallSettings = {},
  ): Promise<Profile> {
    return this.#transport.call('PATCH', `/who/${this.id}`, { body: profile, signal, repeatable: true });
  }

  who(id: string, { signal }: CallSettings = {}): Promise<Profile> {
    return this.#transport.call('GET', `/who/${encodeURIComponent(id)}`, { signal });
  }

  createRoom(name: string, { key, signal }: { key?: string } & CallSettings = {}): Promise<CreatedRoom> {
    return this.#transport.call('POST', '/room', {
      body: { name, ...(key !== undefined && { is_private: true, key }) },
      signal,
    });
  }

  /** A room by its id; a private one with its key. */
  room(id: string, key?: string): RoomClient {
    return new RoomClient(this.#transport, id, key);
  }

  find(
    query: string,
    { signal, ...settings }: { limit?: number; room?: string; after?: number } & CallSettings = {},
  ): Promise<SearchAnswer> {
    return this.#transport.call('GET', '/find', { query: { q: query, ...settings }, signal });
  }

  /** A namespace of its user's data store; the user has to link the agent first. */
  data<Value = JsonValue>(namespace?: string): DataClient<Value> {
    return new DataClient<Value>(this.#transport, namespace);
  }
}
