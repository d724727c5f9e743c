/** What only the operator may: users, tokens, backups, the state of the server. */
import type { CreateTokenInput, CreatedToken } from '../identity/schemas.js';
import { encodeSegment } from '../path-segment.js';
import type { UserAnswer } from '../registry/schemas.js';
import type { CallSettings, Page } from './data.js';
import type { Transport } from './transport.js';

export interface BackupAnswer {
  name: string;
  directory: string;
  kind: 'full' | 'incremental';
  parent: string | null;
  taken_at: string;
  /** Domains that another database keeps. */
  not_included: string[];
}

export class AdminClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  status({ signal }: CallSettings = {}): Promise<Record<string, unknown>> {
    return this.#transport.call('GET', '/v1/status', { signal });
  }

  listUsers({ signal, ...query }: { limit?: number; cursor?: string } & CallSettings = {}): Promise<
    Page<UserAnswer>
  > {
    return this.#transport.call('GET', '/v1/users', { query, signal });
  }

  async putUser(
    id: string,
    input: { email?: string; agents_max?: number | null },
    { signal }: CallSettings = {},
  ): Promise<UserAnswer> {
    return this.#transport.call('PUT', pathOf(id), { body: input, signal, repeatable: true });
  }

  /** The token is in this answer and nowhere else. */
  async createToken(
    user: string,
    input: CreateTokenInput = {},
    { signal }: CallSettings = {},
  ): Promise<CreatedToken> {
    return this.#transport.call('POST', `${pathOf(user)}/tokens`, { body: input, signal });
  }

  async revokeToken(user: string, id: string, { signal }: CallSettings = {}): Promise<unknown> {
    return this.#transport.call('DELETE', `${pathOf(user)}/tokens`, {
      query: { token: id },
      signal,
      repeatable: true,
    });
  }

  backup(
    input: { kind?: 'full' | 'incremental'; directory?: string } = {},
    { signal }: CallSettings = {},
  ): Promise<BackupAnswer> {
    return this.#transport.call('POST', '/v1/backups', { body: input, signal });
  }
}

/** A user is named by any text: one that begins with "~" must not be taken for the bytes of another's name. */
function pathOf(user: string): string {
  return `/v1/users/${encodeSegment(user)}`;
}
