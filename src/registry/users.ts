/** Reads of users and of the identities that speak for agents, as the service offers them. */
import { type Caller, requireOperator } from '../core/caller.js';
import type { Limits } from '../core/settings/limits.js';
import { type Page, type PageRequest, decodeCursor, encodeCursor, pageLimit } from '../core/paging.js';
import { validate } from '../core/validation/validate.js';
import { reachUser, scopeOf, userNotFound } from './access.js';
import { userAnswer } from './answers.js';
import { parseAgentId } from './ids.js';
import { identityKeyBytes, userKeyBytes } from './layout/keys.js';
import type { RegistryPort } from './port.js';
import { type UserAnswer, pageSchema } from './schemas.js';

const usersList = 'users';

export class RegistryUsers {
  readonly #port: RegistryPort;
  readonly #limits: Limits;

  constructor(port: RegistryPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  async get(caller: Caller, user: string): Promise<UserAnswer> {
    const id = reachUser(caller, user, this.#limits);
    const found = await this.#port.getUser(id);
    if (found === undefined) throw userNotFound(id);
    return userAnswer(found, this.#limits);
  }

  async list(caller: Caller, input: PageRequest = {}): Promise<Page<UserAnswer>> {
    requireOperator(caller);
    const { limit, cursor } = validate(pageSchema, input);
    const page = {
      after: decodeCursor(usersList, cursor, userKeyBytes)?.toString('hex') ?? null,
      limit: pageLimit(limit, this.#limits),
    };
    const { items, nextKey } = await this.#port.listUsers(page);
    return {
      items: items.map((user) => userAnswer(user, this.#limits)),
      next_cursor: nextKey === null ? null : encodeCursor(usersList, Buffer.from(nextKey, 'hex')),
    };
  }

  /** The messaging identities that speak for an agent, in the order of their ids. */
  async listIdentities(caller: Caller, agentId: string, input: PageRequest = {}): Promise<Page<string>> {
    const id = parseAgentId(agentId);
    const { limit, cursor } = validate(pageSchema, input);
    const list = JSON.stringify(['identities', id]);
    const page = {
      after: decodeCursor(list, cursor, identityKeyBytes)?.toString() ?? null,
      limit: pageLimit(limit, this.#limits),
    };
    const { items, nextKey } = await this.#port.listIdentities(scopeOf(caller, id, this.#limits), id, page);
    return { items, next_cursor: nextKey === null ? null : encodeCursor(list, Buffer.from(nextKey)) };
  }
}
