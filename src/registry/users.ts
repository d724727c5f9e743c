/** Users and the identities that speak for agents, as the service offers them. */
import { StoaError } from '../errors.js';
import type { Caller } from '../core/caller.js';
import { checkUserId } from '../identity/user-key.js';
import type { Limits } from '../limits.js';
import { type Page, type PageRequest, decodeCursor, encodeCursor, pageLimit } from '../paging.js';
import { validate } from '../validate.js';
import { requireOperator, requireUserWide, requireWrite, scopeOf, userOf } from './access.js';
import { userAnswer } from './answers.js';
import { parseAgentId } from './ids.js';
import { identityKeyBytes, userKeyBytes } from './keys.js';
import type { RegistryPort } from './port.js';
import { checkEmail } from './rules.js';
import { type PutUserInput, type UserAnswer, pageSchema, putUserSchema } from './schemas.js';

const usersList = 'users';

export class RegistryUsers {
  readonly #port: RegistryPort;
  readonly #limits: Limits;

  constructor(port: RegistryPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  /** What is not named stays. Only the operator sets quotas, and only it writes other users. */
  async put(caller: Caller, user: string, input: PutUserInput = {}): Promise<UserAnswer> {
    requireWrite(caller);
    requireUserWide(caller);
    const id = this.#reach(caller, user);
    const { email, agents_max } = validate(putUserSchema, input);
    if (email !== undefined) checkEmail(email, this.#limits);
    if (agents_max !== undefined) requireOperator(caller);
    return userAnswer(await this.#port.putUser(id, { email, agentsMax: agents_max }), this.#limits);
  }

  async get(caller: Caller, user: string): Promise<UserAnswer> {
    const id = this.#reach(caller, user);
    const found = await this.#port.getUser(id);
    if (found === undefined) throw userNotFound(id);
    return userAnswer(found, this.#limits);
  }

  async list(caller: Caller, input: PageRequest = {}): Promise<Page<UserAnswer>> {
    requireOperator(caller);
    const { limit, cursor } = validate(pageSchema, input);
    const page = {
      after: decodeCursor(usersList, cursor, userKeyBytes),
      limit: pageLimit(limit, this.#limits),
    };
    const { items, nextKey } = await this.#port.listUsers(page);
    return {
      items: items.map((user) => userAnswer(user, this.#limits)),
      next_cursor: nextKey === null ? null : encodeCursor(usersList, nextKey),
    };
  }

  /** Notes that the user called; written at most once in a while. */
  async saw(caller: Caller): Promise<void> {
    if (!caller.everyUser) await this.#port.sawUser(userOf(caller, this.#limits));
  }

  /** Lets a messaging identity speak for an agent. */
  async linkIdentity(caller: Caller, agentId: string, identity: string): Promise<void> {
    requireWrite(caller);
    requireUserWide(caller);
    const id = parseAgentId(agentId);
    await this.#port.linkIdentity(scopeOf(caller, id, this.#limits), id, identity);
  }

  /** The messaging identities that speak for an agent, in the order of their ids. */
  async listIdentities(caller: Caller, agentId: string, input: PageRequest = {}): Promise<Page<string>> {
    const id = parseAgentId(agentId);
    const { limit, cursor } = validate(pageSchema, input);
    const list = JSON.stringify(['identities', id]);
    const page = {
      after: decodeCursor(list, cursor, identityKeyBytes),
      limit: pageLimit(limit, this.#limits),
    };
    const { items, nextKey } = await this.#port.listIdentities(scopeOf(caller, id, this.#limits), id, page);
    return { items, next_cursor: nextKey === null ? null : encodeCursor(list, nextKey) };
  }

  async unlinkIdentity(caller: Caller, identity: string): Promise<void> {
    requireWrite(caller);
    requireUserWide(caller);
    const linked = await this.#port.linkedAgent(identity);
    if (linked === undefined) return;
    if (!caller.everyUser && linked.meta.user !== userOf(caller, this.#limits))
      throw new StoaError('not_found', `There is no link of ${identity}.`);
    await this.#port.unlinkIdentity(identity);
  }

  /** Another user is not there. */
  #reach(caller: Caller, user: string): string {
    const id = checkUserId(user, this.#limits.userIdBytesMax);
    if (caller.kind !== 'operator' && id !== userOf(caller, this.#limits)) throw userNotFound(id);
    return id;
  }
}

function userNotFound(user: string): StoaError {
  return new StoaError('not_found', `There is no user "${user}".`, {
    fix: 'A user exists from its first write.',
  });
}
