/** The registry service: its reads, and its writes, each with one step. */
import { type Caller, requireOperator } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import { type Step, type Writer, writeOne } from '../core/write.js';
import type { Limits } from '../core/settings/limits.js';
import { type Page, type PageRequest, decodeCursor, encodeCursor, pageLimit } from '../core/paging.js';
import { validate } from '../core/validation/validate.js';
import { requireUserWide, userOf, userScopeOf } from './access.js';
import { AgentLookup } from './agent-lookup.js';
import { agentAnswer } from './answers.js';
import { agentKeyBytes } from './layout/keys.js';
import type { AgentState } from './model.js';
import type { AgentFilter, AgentView, RegistryPort } from './port.js';
import { checkAgentName, parseLabelFilter } from './rules.js';
import {
  type AgentAnswer,
  type CreateAgentInput,
  type HeartbeatInput,
  type LeaseAnswer,
  type ListAgentsInput,
  type PutAgentInput,
  type PutUserInput,
  type UpdateAgentInput,
  type UserAnswer,
  agentStatusSchema,
  listAgentsSchema,
} from './schemas.js';
import { RegistrySessions } from './sessions.js';
import { type RemoveOptions, RegistrySteps, type WriteOptions } from './steps.js';
import { actingAgent } from './recent-agents.js';
import type { AgentVerb } from './lifecycle/transitions.js';
import { RegistryUsers } from './users.js';

export interface RegistryServiceOptions {
  writer: Writer;
  port: RegistryPort;
  limits: Limits;
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
  readonly port: RegistryPort;
  /** The same writes as steps, for writing them together with others. */
  readonly steps: RegistrySteps;
  /** Finds agents by their names and ids. */
  readonly agents: AgentLookup;
  readonly #writer: Writer;
  readonly #limits: Limits;
  readonly #sessions: RegistrySessions;
  readonly #users: RegistryUsers;

  constructor({ writer, port, limits }: RegistryServiceOptions) {
    this.port = port;
    this.steps = new RegistrySteps(port, limits);
    this.#writer = writer;
    this.#limits = limits;
    this.agents = new AgentLookup(port, limits);
    this.#sessions = new RegistrySessions({ port, limits, steps: this.steps, agents: this.agents, writer });
    this.#users = new RegistryUsers(port, limits);
  }

  // Agents

  async createAgent(
    caller: Caller,
    input: CreateAgentInput,
    idempotency: Idempotency | null = null,
  ): Promise<AgentAnswer> {
    return this.#write(caller, this.steps.createAgent(caller, input), idempotency);
  }

  /** Creates an agent under an id that the caller chose, or updates it. */
  async putAgent(caller: Caller, input: PutAgentInput, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#write(caller, this.steps.putAgent(caller, input, options));
  }

  async getAgent(caller: Caller, agentId: string): Promise<AgentAnswer> {
    return this.#answer(await this.agents.get(caller, agentId));
  }

  /**
   * Whether a messaging identity speaks for an agent of this user. An agent that is created again under the
   * id of a deleted one does not get its identities.
   */
  speaksFor(identity: string, user: string, agentId: string): Promise<boolean> {
    return this.port.isLinked(user, agentId, identity);
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
    const { items, nextKey } = await this.port.listAgents(scope, filter, {
      after: decodeCursor(list, cursor, agentKeyBytes)?.toString('hex') ?? null,
      limit: pageLimit(limit, this.#limits),
    });
    return {
      items: items.map((agent) => this.#answer(agent)),
      next_cursor: nextKey === null ? null : encodeCursor(list, Buffer.from(nextKey, 'hex')),
    };
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
    return this.port.countAgents(userOf(caller, this.#limits));
  }

  async updateAgent(
    caller: Caller,
    agent: string,
    input: UpdateAgentInput,
    options: WriteOptions = {},
  ): Promise<AgentAnswer> {
    const agentId = await this.agents.idOf(caller, agent);
    return this.#write(caller, this.steps.updateAgent(caller, agentId, input, options));
  }

  updateAgentStatus(
    caller: Caller,
    agentId: string,
    status: AgentState,
    options: WriteOptions = {},
  ): Promise<AgentAnswer> {
    return this.updateAgent(caller, agentId, { status: validate(agentStatusSchema, status) }, options);
  }

  /**
   * Deletes the agent with its sessions. If there are very many sessions, separate writes delete them first.
   */
  async deleteAgent(caller: Caller, agent: string, options: RemoveOptions = {}): Promise<string> {
    const agentId = await this.agents.idOf(caller, agent);
    while (await this.#write(caller, this.steps.deleteSomeSessions(caller, agentId, options)));
    await this.#write(caller, this.steps.deleteAgent(caller, agentId, options));
    return agentId;
  }

  /** Removes an agent that is not present, whatever its status, with its sessions. Answers its id. */
  forgetAgent(caller: Caller, agent: string, options: WriteOptions = {}): Promise<string> {
    return this.deleteAgent(caller, agent, { ...options, forgets: true });
  }

  /** One step towards running. */
  start(caller: Caller, agent: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agent, 'start', options);
  }

  /** One step towards stopped. */
  stop(caller: Caller, agent: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agent, 'stop', options);
  }

  /** Through stopping and stopped to provisioning, in one commit. */
  restart(caller: Caller, agent: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agent, 'restart', options);
  }

  hibernate(caller: Caller, agent: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agent, 'hibernate', options);
  }

  wake(caller: Caller, agent: string, options: WriteOptions = {}): Promise<AgentAnswer> {
    return this.#move(caller, agent, 'wake', options);
  }

  // Leases

  /**
   * Takes or renews the lease. The holder is the one named, else the identity or agent that calls, else the
   * agent itself.
   */
  async heartbeat(
    caller: Caller,
    agent: string,
    input: HeartbeatInput = {},
  ): Promise<{ lease: LeaseAnswer }> {
    const agentId = await this.agents.idOf(caller, agent);
    return this.#write(caller, this.steps.heartbeat(caller, agentId, input));
  }

  /**
   * Gives the lease back before its time; without a holder, for any holder. Without a lease it does nothing.
   */
  async releaseLease(caller: Caller, agent: string, input: HeartbeatInput = {}): Promise<void> {
    const agentId = await this.agents.idOf(caller, agent);
    await this.#write(caller, this.steps.releaseLease(caller, agentId, input));
  }

  /** Throws for a signed agent whose fencing number is below the number of its lease. */
  async checkFence(caller: Caller): Promise<void> {
    if (caller.agentId !== null)
      await this.port.checkFence(userOf(caller, this.#limits), caller.agentId, caller.fence);
  }

  // Sessions

  openSession: RegistrySessions['open'] = (...given) => this.#sessions.open(...given);
  putSession: RegistrySessions['put'] = (...given) => this.#sessions.put(...given);
  closeSession: RegistrySessions['close'] = (...given) => this.#sessions.close(...given);
  updateSessionStatus: RegistrySessions['updateStatus'] = (...given) => this.#sessions.updateStatus(...given);
  getSession: RegistrySessions['get'] = (...given) => this.#sessions.get(...given);
  listSessions: RegistrySessions['list'] = (...given) => this.#sessions.list(...given);

  // Users and identities

  async putUser(caller: Caller, user: string, input: PutUserInput = {}): Promise<UserAnswer> {
    return this.#write(caller, this.steps.putUser(caller, user, input));
  }

  getUser: RegistryUsers['get'] = (...given) => this.#users.get(...given);
  listUsers: RegistryUsers['list'] = (...given) => this.#users.list(...given);

  /** Records that the user called, but not with every call. */
  async recordUserCall(caller: Caller): Promise<void> {
    if (caller.everyUser) return;
    const user = userOf(caller, this.#limits);
    const known = await this.port.getUser(user);
    const isDue =
      known !== undefined &&
      this.port.nowMs() - known.record.last_seen_at >= this.#limits.lastSeenSeconds * 1_000;
    // A fenced caller still counts as seen. The call may be a read, which makes no agent.
    if (isDue) await this.#write({ ...caller, fence: null, agent: null }, this.port.recordUserCall(user));
  }

  /** Renews the presence of the agent that calls, if the agent exists and that was not done recently. */
  async recordAgentCall(caller: Caller): Promise<void> {
    const acting = actingAgent(caller);
    if (acting === null || (await this.port.agentNamed(acting.user, acting.agent)) === undefined) return;
    const quiet = { ...caller, fence: null, agent: null };
    await this.#write(quiet, this.port.recordAgentCall(acting.user, acting.agent));
  }

  async listIdentities(caller: Caller, agent: string, page?: PageRequest): Promise<Page<string>> {
    return this.#users.listIdentities(caller, await this.agents.idOf(caller, agent), page);
  }

  /** The agent that a messaging identity speaks for, or null. */
  async linkedAgent(identity: string): Promise<AgentAnswer | null> {
    const agent = await this.port.linkedAgent(identity);
    return agent === undefined ? null : this.#answer(agent);
  }

  #write<Result>(
    caller: Caller,
    step: Step<Result>,
    idempotency: Idempotency | null = null,
  ): Promise<Result> {
    return writeOne(this.#writer, { caller, idempotency }, step);
  }

  async #move(caller: Caller, agent: string, verb: AgentVerb, options: WriteOptions): Promise<AgentAnswer> {
    const agentId = await this.agents.idOf(caller, agent);
    return this.#write(caller, this.steps.moveAgent(caller, agentId, verb, options));
  }

  /** A signed agent sees only itself. */
  async #ownPage(caller: Caller, filter: AgentFilter): Promise<Page<AgentAnswer>> {
    const own =
      caller.agentId === null
        ? undefined
        : await this.port.getAgent(userOf(caller, this.#limits), caller.agentId);
    const items = own === undefined ? [] : [this.#answer(own)];
    return { items: items.filter((agent) => passes(agent, filter)), next_cursor: null };
  }

  #answer(agent: AgentView): AgentAnswer {
    return agentAnswer(agent, this.port.nowMs());
  }
}

function passes(agent: AgentAnswer, { status, name, label }: AgentFilter): boolean {
  if (status !== undefined && agent.status !== status) return false;
  if (name !== undefined && agent.name !== name) return false;
  if (label === undefined) return true;
  const value = Object.hasOwn(agent.labels, label.name) ? agent.labels[label.name] : undefined;
  return value !== undefined && (label.value === null || label.value === value);
}
