/** The registry's door: checks what comes in, settles whose it is, and answers in words. */
import { StoaError } from '../errors.js';
import type { Caller } from '../identity/caller.js';
import type { Idempotency } from '../kernel/once.js';
import type { Limits } from '../limits.js';
import { type Page, type PageRequest, decodeCursor, encodeCursor, pageLimit } from '../paging.js';
import { validate } from '../validate.js';
import { requireOperator, requireUserWide, requireWrite, scopeOf, userOf, userScopeOf } from './access.js';
import { agentAnswer, leaseAnswer } from './answers.js';
import { parseAgentId } from './ids.js';
import { agentKeyBytes } from './keys.js';
import { checkFence, nextPresenceAtMs } from './lease.js';
import type { AgentState, StoredAgent } from './model.js';
import type { AgentFilter, KeyedPage, RegistryPort, WriteGuard } from './port.js';
import {
  checkAgentName,
  checkErrorMessage,
  checkHolder,
  checkLabels,
  checkSpec,
  parseLabelFilter,
} from './rules.js';
import {
  type AgentAnswer,
  type CreateAgentInput,
  type HeartbeatInput,
  type LeaseAnswer,
  type ListAgentsInput,
  type PutAgentInput,
  type UpdateAgentInput,
  agentStatusSchema,
  createAgentSchema,
  heartbeatSchema,
  listAgentsSchema,
  putAgentSchema,
  updateAgentSchema,
} from './schemas.js';
import { RegistrySessions } from './sessions.js';
import type { AgentVerb } from './transitions.js';
import { RegistryUsers } from './users.js';

export interface RegistryServiceOptions {
  port: RegistryPort;
  limits: Limits;
}

export interface WriteOptions {
  /** The version that the caller has seen; another one is `version_conflict`. */
  ifVersion?: number | undefined;
}

/** An agent as JSON. */
export interface AgentText {
  readonly json: string;
  readonly version: number;
  /** When its presence changes by itself, as long as nothing is written. */
  readonly untilMs: number;
}

/**
 * Agents, their sessions and their users.
 *
 * @example
 * const agent = await registry.createAgent(caller, { name: 'scout' });
 * await registry.start(caller, agent.agent_id);
 * const { lease } = await registry.heartbeat(caller, agent.agent_id);
 */
export class RegistryService {
  readonly #port: RegistryPort;
  readonly #limits: Limits;
  readonly #sessions: RegistrySessions;
  readonly #users: RegistryUsers;
  /** By what was read, which lasts until the next write of the agent: then it is read anew. */
  readonly #texts = new WeakMap<StoredAgent, AgentText>();

  constructor({ port, limits }: RegistryServiceOptions) {
    this.#port = port;
    this.#limits = limits;
    this.#sessions = new RegistrySessions(port, limits);
    this.#users = new RegistryUsers(port, limits);
  }

  // Agents

  async createAgent(
    caller: Caller,
    input: CreateAgentInput,
    idempotency: Idempotency | null = null,
  ): Promise<AgentAnswer> {
    requireWrite(caller);
    requireUserWide(caller);
    const { name, spec = {}, labels = {} } = validate(createAgentSchema, input);
    checkAgentName(name, this.#limits);
    checkSpec(spec, this.#limits);
    checkLabels(labels, this.#limits);
    return this.#answer(
      await this.#port.createAgent(
        { user: userOf(caller, this.#limits), name, spec: given(spec), labels },
        idempotency,
      ),
    );
  }

  /** Makes an agent under an id of the caller's own, or brings it to what is given. */
  async putAgent(caller: Caller, input: PutAgentInput, options: WriteOptions = {}): Promise<AgentAnswer> {
    requireWrite(caller);
    const { agent_id, name, status, spec = {}, labels = {}, error_message } = validate(putAgentSchema, input);
    const agentId = parseAgentId(agent_id);
    if (caller.kind === 'agent') scopeOf(caller, agentId, this.#limits);
    checkAgentName(name, this.#limits);
    this.#checkChange({ spec, labels, error_message });
    const agent = {
      agentId,
      user: userOf(caller, this.#limits),
      name,
      status,
      spec: given(spec),
      labels,
      errorMessage: error_message,
    };
    return this.#answer(await this.#port.putAgent(agent, guardOf(caller, options)));
  }

  async getAgent(caller: Caller, agentId: string): Promise<AgentAnswer> {
    return this.#answer(this.#requireAgent(caller, agentId));
  }

  /** Whether a messaging identity speaks for an agent of this user. One made anew under the id of a deleted agent has none of its identities. */
  speaksFor(identity: string, user: string, agentId: string): boolean {
    return this.#port.getAgent(user, agentId) !== undefined && this.#port.isLinked(user, agentId, identity);
  }

  /** The identity that speaks for an agent, by its name or id; undefined for an agent without a key of its own. */
  identityOf(user: string, agent: string): string | undefined {
    return this.#port.identitiesOf(user, agent)[0];
  }

  /** Refuses a token that goes by the name of an agent with a key of its own: what is done under that name is signed. */
  checkOwnName({ kind, user, agent }: Pick<Caller, 'kind' | 'user' | 'agent'>): void {
    if (kind === 'agent' || agent === null || this.identityOf(user, agent) === undefined) return;
    throw new StoaError('forbidden', `The agent "${agent}" has a key of its own; a token cannot act as it.`, {
      fix: "Sign the request with the agent's key, or use another name in Stoa-Agent.",
      details: { agent },
    });
  }

  /** The same answer as JSON text, at once. */
  agentText(caller: Caller, agentId: string): AgentText {
    const agent = this.#requireAgent(caller, agentId);
    const nowMs = this.#port.nowMs();
    const known = this.#texts.get(agent);
    if (known !== undefined && nowMs < known.untilMs) return known;
    const times = this.#port.leaseTimes();
    const text = {
      json: JSON.stringify(agentAnswer(agent, times, nowMs)),
      version: agent.meta.version,
      untilMs: nextPresenceAtMs(agent.lease, times, nowMs),
    };
    this.#texts.set(agent, text);
    return text;
  }

  /** Ordered by owner and id; every filter is exact, and several must all hold. */
  async listAgents(caller: Caller, input: ListAgentsInput = {}): Promise<Page<AgentAnswer>> {
    const { status, name, label, limit, cursor } = validate(listAgentsSchema, input);
    if (name !== undefined) checkAgentName(name, this.#limits);
    const filter: AgentFilter = {
      status,
      name,
      label: label === undefined ? undefined : parseLabelFilter(label, this.#limits),
    };
    if (caller.kind === 'agent') return this.#ownPage(caller, filter);
    const scope = userScopeOf(caller, this.#limits);
    const list = JSON.stringify(['agents', scope, status ?? null, name ?? null, label ?? null]);
    const page = { after: decodeCursor(list, cursor, agentKeyBytes), limit: pageLimit(limit, this.#limits) };
    return this.#page(list, await this.#port.listAgents(scope, filter, page));
  }

  listAgentsByStatus(caller: Caller, status: AgentState, page: PageRequest = {}): Promise<Page<AgentAnswer>> {
    return this.listAgents(caller, { ...page, status });
  }

  /** The agents of every user. */
  async listAllAgents(caller: Caller, page: PageRequest = {}): Promise<Page<AgentAnswer>> {
    requireOperator(caller);
    return this.listAgents({ ...caller, everyUser: true }, page);
  }

  async countAgents(caller: Caller): Promise<number> {
    requireUserWide(caller);
    return this.#port.countAgents(userOf(caller, this.#limits));
  }

  async updateAgent(
    caller: Caller,
    agentId: string,
    input: UpdateAgentInput,
    options: WriteOptions = {},
  ): Promise<AgentAnswer> {
    requireWrite(caller);
    const id = parseAgentId(agentId);
    const { name, status, spec, labels, error_message } = validate(updateAgentSchema, input);
    if (name !== undefined) checkAgentName(name, this.#limits);
    this.#checkChange({ spec, labels, error_message });
    const change = {
      name,
      status,
      spec: spec === undefined ? undefined : given(spec),
      labels,
      errorMessage: error_message,
    };
    return this.#answer(
      await this.#port.updateAgent(scopeOf(caller, id, this.#limits), id, change, guardOf(caller, options)),
    );
  }

  updateAgentStatus(
    caller: Caller,
    agentId: string,
    status: AgentState,
    options: WriteOptions = {},
  ): Promise<AgentAnswer> {
    return this.updateAgent(caller, agentId, { status: validate(agentStatusSchema, status) }, options);
  }

  async deleteAgent(caller: Caller, agentId: string, options: WriteOptions = {}): Promise<void> {
    requireWrite(caller);
    const id = parseAgentId(agentId);
    await this.#port.deleteAgent(scopeOf(caller, id, this.#limits), id, guardOf(caller, options));
  }

  /** One step towards running. */
  start(caller: Caller, agentId: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agentId, 'start', options);
  }

  /** One step towards stopped. */
  stop(caller: Caller, agentId: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agentId, 'stop', options);
  }

  /** Through stopping and stopped to provisioning, in one commit. */
  restart(caller: Caller, agentId: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agentId, 'restart', options);
  }

  hibernate(caller: Caller, agentId: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agentId, 'hibernate', options);
  }

  wake(caller: Caller, agentId: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agentId, 'wake', options);
  }

  // Leases

  /** Takes or renews the lease. The holder is who is named, else the identity or agent that calls, else the agent itself. */
  async heartbeat(
    caller: Caller,
    agentId: string,
    input: HeartbeatInput = {},
  ): Promise<{ lease: LeaseAnswer }> {
    requireWrite(caller);
    const id = parseAgentId(agentId);
    const { holder = caller.identity ?? caller.agent ?? id } = validate(heartbeatSchema, input);
    checkHolder(holder, this.#limits);
    const lease = await this.#port.heartbeat(scopeOf(caller, id, this.#limits), id, holder, guardOf(caller));
    // A lease that was just renewed has a holder.
    return { lease: leaseAnswer(lease, this.#port.leaseTimes()) as LeaseAnswer };
  }

  /** Refuses a signed agent whose fencing number is below that of its own lease. */
  checkFence(caller: Caller): void {
    if (caller.agentId === null) return;
    const agent = this.#port.getAgent(userOf(caller, this.#limits), caller.agentId);
    checkFence(agent?.lease ?? null, caller.fence, this.#port.leaseTimes(), this.#port.nowMs());
  }

  /** Gives the lease back before its time; without a holder, whoever holds it. Giving back what nobody holds is no error. */
  async releaseLease(caller: Caller, agentId: string, input: HeartbeatInput = {}): Promise<void> {
    requireWrite(caller);
    const id = parseAgentId(agentId);
    const { holder = null } = validate(heartbeatSchema, input);
    await this.#port.releaseLease(scopeOf(caller, id, this.#limits), id, holder, guardOf(caller));
  }

  // Sessions and users have files of their own.

  openSession: RegistrySessions['open'] = (...given) => this.#sessions.open(...given);
  putSession: RegistrySessions['put'] = (...given) => this.#sessions.put(...given);
  getSession: RegistrySessions['get'] = (...given) => this.#sessions.get(...given);
  listSessions: RegistrySessions['list'] = (...given) => this.#sessions.list(...given);
  closeSession: RegistrySessions['close'] = (...given) => this.#sessions.close(...given);
  updateSessionStatus: RegistrySessions['updateStatus'] = (...given) => this.#sessions.updateStatus(...given);
  putUser: RegistryUsers['put'] = (...given) => this.#users.put(...given);
  getUser: RegistryUsers['get'] = (...given) => this.#users.get(...given);
  listUsers: RegistryUsers['list'] = (...given) => this.#users.list(...given);
  sawUser: RegistryUsers['saw'] = (...given) => this.#users.saw(...given);
  linkIdentity: RegistryUsers['linkIdentity'] = (...given) => this.#users.linkIdentity(...given);
  listIdentities: RegistryUsers['listIdentities'] = (...given) => this.#users.listIdentities(...given);
  unlinkIdentity: RegistryUsers['unlinkIdentity'] = (...given) => this.#users.unlinkIdentity(...given);

  /** The agent that a messaging identity speaks for, or null. */
  async linkedAgent(identity: string): Promise<AgentAnswer | null> {
    const agent = await this.#port.linkedAgent(identity);
    return agent === undefined ? null : this.#answer(agent);
  }

  async #move(caller: Caller, agentId: string, verb: AgentVerb, options: WriteOptions): Promise<AgentAnswer> {
    requireWrite(caller);
    const id = parseAgentId(agentId);
    return this.#answer(
      await this.#port.moveAgent(scopeOf(caller, id, this.#limits), id, verb, guardOf(caller, options)),
    );
  }

  #requireAgent(caller: Caller, agentId: string): StoredAgent {
    const id = parseAgentId(agentId);
    const agent = this.#port.getAgent(scopeOf(caller, id, this.#limits), id);
    if (agent === undefined) throw new StoaError('not_found', `There is no agent ${id}.`);
    return agent;
  }

  #checkChange({
    spec,
    labels,
    error_message,
  }: Pick<UpdateAgentInput, 'spec' | 'labels' | 'error_message'>): void {
    if (spec !== undefined) checkSpec(given(spec), this.#limits);
    if (labels !== undefined) checkLabels(labels, this.#limits);
    if (typeof error_message === 'string') checkErrorMessage(error_message, this.#limits);
  }

  /** A signed agent sees itself and nobody else. */
  async #ownPage(caller: Caller, filter: AgentFilter): Promise<Page<AgentAnswer>> {
    const own =
      caller.agentId === null ? undefined : this.#port.getAgent(userOf(caller, this.#limits), caller.agentId);
    const items = own === undefined ? [] : [this.#answer(own)];
    return { items: items.filter((agent) => passes(agent, filter)), next_cursor: null };
  }

  #page(list: string, { items, nextKey }: KeyedPage<StoredAgent>): Page<AgentAnswer> {
    return {
      items: items.map((agent) => this.#answer(agent)),
      next_cursor: nextKey === null ? null : encodeCursor(list, nextKey),
    };
  }

  #answer(agent: StoredAgent): AgentAnswer {
    return agentAnswer(agent, this.#port.leaseTimes(), this.#port.nowMs());
  }
}

/** What a caller shows with a write. */
export function guardOf(caller: Caller, options: WriteOptions = {}): WriteGuard {
  return { fence: caller.fence, ifVersion: options.ifVersion };
}

function passes(agent: AgentAnswer, { status, name, label }: AgentFilter): boolean {
  if (status !== undefined && agent.status !== status) return false;
  if (name !== undefined && agent.name !== name) return false;
  if (label === undefined) return true;
  const value = Object.hasOwn(agent.labels, label.name) ? agent.labels[label.name] : undefined;
  return value !== undefined && (label.value === null || label.value === value);
}

/** Only the fields that were given: an undefined one must not hide a default. */
function given<T extends object>(fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  // Object.fromEntries forgets which keys it had; they are some of T's, without the undefined ones.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof T]?: Exclude<T[Name], undefined>;
  };
}
