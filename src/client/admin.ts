/** What only the operator may: users, tokens, backups, the state of the server. */
import type { CreateTokenInput, CreatedToken } from '../identity/schemas.js';
import type { UserAnswer } from '../registry/schemas.js';
import type { Page } from './data.js';
import type { Transport } from './transport.js';

export interface BackupAnswer {
  name: string;
  directory: string;
  kind: 'full' | 'incremental';
  parent: string | null;
  taken_at: string;
}

export class AdminClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  status(): Promise<Record<string, unknown>> {
    return this.#transport.call('GET', '/v1/status');
  }

  listUsers(query: { limit?: number; cursor?: string } = {}): Promise<Page<UserAnswer>> {
    return this.#transport.call('GET', '/v1/users', { query });
  }

  putUser(id: string, input: { email?: string; agents_max?: number | null }): Promise<UserAnswer> {
    return this.#transport.call('PUT', `/v1/users/${encodeURIComponent(id)}`, { body: input, repeatable: true });
  }

  /** The token is in this answer and nowhere else. */
  createToken(user: string, input: CreateTokenInput = {}): Promise<CreatedToken> {
    return this.#transport.call('POST', `/v1/users/${encodeURIComponent(user)}/tokens`, { body: input });
  }

  revokeToken(user: string, id: string): Promise<unknown> {
    return this.#transport.call('DELETE', `/v1/users/${encodeURIComponent(user)}/tokens`, { query: { token: id }, repeatable: true });
  }

  backup(input: { kind?: 'full' | 'incremental'; directory?: string } = {}): Promise<BackupAnswer> {
    return this.#transport.call('POST', '/v1/backups', { body: input });
  }
}
