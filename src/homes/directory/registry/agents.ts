/** Agents in the embedded store: made, changed, moved through their table, deleted. */
import { StoaError } from '../../../core/errors.js';
import type { Outage } from '../../../core/outages.js';
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import {
  type AgentChange,
  activityDueMs,
  changedAgent,
  checkAgentQuota,
  checkVersion,
  newAgent,
} from '../../../registry/changes.js';
import { idBytes, sessionIdOf } from '../../../registry/ids.js';
import { agentCountKey, sessionByAgentKey } from '../../../registry/keys.js';
import {
  type AgentState,
  type Lease,
  type StoredAgent,
  agentSpecDefaults,
  sessionStatusBytes,
  stateOf,
} from '../../../registry/model.js';
import type { CreateAgent, PutAgent, WriteGuard } from '../../../registry/port.js';
import { type AgentVerb, checkDeletable, verbPath } from '../../../registry/transitions.js';
import { registryFamilies as families } from './families.js';
import { sessionRecords } from './indexes.js';
import type { LeaseVerbs } from './leases.js';
import { removeLinks } from './links.js';
import {
  findAgent,
  firstLease,
  noLease,
  readCount,
  readSession,
  removeAgent,
  writeAgent,
  writeLease,
  writeMeta,
} from './rows.js';
import type { UserVerbs } from './users.js';

export const activityTimer = 'registry.activity';

type Facts = Record<string, string | number | boolean | null>;

export class AgentVerbs {
  readonly #limits: Limits;
  readonly #outages: () => readonly Outage[];
  readonly #users: UserVerbs;
  readonly #leases: LeaseVerbs;

  constructor(limits: Limits, outages: () => readonly Outage[], users: UserVerbs, leases: LeaseVerbs) {
    this.#limits = limits;
    this.#outages = outages;
    this.#users = users;
    this.#leases = leases;
  }

  /** The agent. Throws `not_found` where it does not exist or belongs to another user. */
  require(reader: Reader, user: Buffer | null, agentId: string): StoredAgent {
    const agent = findAgent(reader, user, agentId);
    if (agent === undefined) throw agentNotFound(agentId);
    return agent;
  }

  create(tx: Transaction, agentId: string, input: CreateAgent): StoredAgent {
    return this.#add(tx, { ...input, agentId });
  }

  /**
   * Creates or updates the agent. The transition table, the quota and the version are checked as in other
   * writes.
   */
  put(tx: Transaction, input: PutAgent, guard: WriteGuard): StoredAgent {
    const user = this.#users.ensure(tx, input.user);
    const owner = tx.get(families.agentsById, idBytes(input.agentId));
    if (owner !== undefined && !owner.equals(user)) throw agentNotFound(input.agentId);
    if (owner === undefined) {
      if (guard.ifVersion !== undefined && guard.ifVersion !== 0) throw agentNotFound(input.agentId);
      if (input.status !== undefined && input.status !== 'provisioning') {
        throw new StoaError(
          'invalid_transition',
          `A new agent cannot start as ${input.status}. Expected provisioning.`,
          { details: { from: null, to: input.status } },
        );
      }
      return this.#add(tx, input, firstLease(tx, user));
    }
    const status =
      input.status === stateOf(this.require(tx, user, input.agentId).record) ? undefined : input.status;
    const spec = { ...agentSpecDefaults, ...input.spec };
    return this.update(
      tx,
      user,
      input.agentId,
      { name: input.name, status, spec, labels: input.labels, errorMessage: input.errorMessage },
      guard,
    );
  }

  /**
   * Writes an imported agent over an existing one. A fencing number never falls. Quota and state were checked
   * before.
   */
  restore(tx: Transaction, given: Pick<StoredAgent, 'record' | 'meta'>, fence: number | null): void {
    const user = this.#users.ensure(tx, given.meta.user);
    const before = findAgent(tx, user, given.record.agent_id);
    if (before !== undefined) this.#unschedule(tx, before);
    const lease = before === undefined ? firstLease(tx, user) : before.lease;
    const agent: StoredAgent = { ...given, lease, activeSessions: before?.activeSessions ?? 0 };
    writeAgent(
      tx,
      before,
      this.#rescheduled(tx, { ...agent, meta: { ...agent.meta, activityTimerAtMs: null } }),
    );
    if (fence !== null && fence > (lease?.fence ?? 0))
      writeLease(tx, agent.record, { ...(lease ?? noLease), fence });
    else if (before === undefined && lease !== null) writeLease(tx, agent.record, lease);
    tx.change({
      domain: 'registry',
      kind: 'agent.imported',
      id: agent.record.agent_id,
      user: agent.meta.user,
      version: agent.meta.version,
    });
  }

  update(
    tx: Transaction,
    user: Buffer | null,
    agentId: string,
    change: AgentChange,
    guard: WriteGuard,
  ): StoredAgent {
    const before = this.#guarded(tx, user, agentId, guard);
    return this.apply(tx, before, change);
  }

  move(
    tx: Transaction,
    user: Buffer | null,
    agentId: string,
    verb: AgentVerb,
    guard: WriteGuard,
  ): StoredAgent {
    let agent = this.#guarded(tx, user, agentId, guard);
    for (const status of verbPath(verb, stateOf(agent.record)))
      agent = this.apply(tx, agent, { status }, { verb });
    return agent;
  }

  /**
   * Removes the agent, its sessions, its lease, its links and every index entry, in one batch. Answers the
   * ids of the sessions and of the identities that spoke for it.
   */
  delete(
    tx: Transaction,
    user: Buffer | null,
    agentId: string,
    guard: WriteGuard,
  ): { sessions: string[]; identities: string[] } {
    const agent = this.#guarded(tx, user, agentId, guard);
    checkDeletable(stateOf(agent.record));
    const id = idBytes(agentId);
    this.#leases.end(tx, agent);
    this.#unschedule(tx, agent);
    const sessions = sessionsOf(tx, id);
    removeSessions(tx, id, sessions);
    const identities = removeLinks(tx, id);
    removeAgent(tx, agent);
    tx.change({
      domain: 'registry',
      kind: 'agent.deleted',
      id: agentId,
      user: agent.meta.user,
      version: agent.meta.version,
    });
    return { sessions: sessions.map(sessionIdOf), identities };
  }

  /**
   * Removes some sessions of an agent that is about to be deleted, where there are more than one
   * commit should hold. Answers their ids; none when the rest can go with the agent.
   */
  thinSessions(tx: Transaction, user: Buffer | null, agentId: string, guard: WriteGuard): string[] {
    const agent = this.#guarded(tx, user, agentId, guard);
    checkDeletable(stateOf(agent.record));
    const limit = this.#limits.sessionsDeletedAtOnceMax;
    const found = sessionsOf(tx, idBytes(agentId), limit + 1);
    if (found.length <= limit) return [];
    const active = removeSessions(tx, idBytes(agentId), found);
    if (active > 0) writeMeta(tx, { ...agent, activeSessions: agent.activeSessions - active });
    return found.map(sessionIdOf);
  }

  /** Makes a change that has passed every guard, and announces it. */
  apply(tx: Transaction, before: StoredAgent, change: AgentChange, facts: Facts = {}): StoredAgent {
    const after = changedAgent(before, change, tx.nowMs);
    if (after === before) return before;
    const from = stateOf(before.record);
    const to = stateOf(after.record);
    const saved = from === to ? after : this.#rescheduled(tx, after);
    writeAgent(tx, before, saved);
    tx.change({
      domain: 'registry',
      kind: from === to ? 'agent.updated' : 'agent.transitioned',
      id: after.record.agent_id,
      user: after.meta.user,
      version: after.meta.version,
      facts: from === to ? facts : { from, to, ...facts },
    });
    return saved;
  }

  /**
   * Notes a sign of life that changes nothing a reader sees, and sets the timer of idleness where none is
   * set.
   */
  noteActivity(tx: Transaction, agent: StoredAgent): void {
    const noted = { ...agent, meta: { ...agent.meta, activeAtMs: tx.nowMs } };
    writeMeta(tx, agent.meta.activityTimerAtMs === null ? this.#rescheduled(tx, noted) : noted);
  }

  /**
   * On the idle timer: the agent becomes idle or hibernates, unless it was active since the timer was set.
   */
  onTimer(tx: Transaction, reference: Buffer): void {
    const agent = findAgent(tx, null, reference.toString('hex'));
    if (agent === undefined) return;
    const { activityTimerAtMs } = agent.meta;
    // A later timer is set, so this one is outdated.
    if (activityTimerAtMs === null || activityTimerAtMs > tx.nowMs) return;
    const dueMs = activityDueMs(agent, this.#limits, this.#outages());
    if (dueMs !== null && dueMs <= tx.nowMs) {
      const status: AgentState = stateOf(agent.record) === 'running' ? 'idle' : 'hibernating';
      this.apply(tx, agent, { status }, { reason: 'inactive' });
      return;
    }
    writeMeta(tx, this.#rescheduled(tx, agent));
  }

  /** An id that was never used has no lease. */
  #add(tx: Transaction, input: CreateAgent & { agentId: string }, lease: Lease | null = null): StoredAgent {
    const user = this.#users.ensure(tx, input.user);
    if (tx.get(families.agentsById, idBytes(input.agentId)) !== undefined) {
      throw new StoaError('already_exists', `An agent with the id ${input.agentId} exists already.`);
    }
    checkAgentQuota(readCount(tx, agentCountKey(user)), this.#users.agentsMax(tx, user));
    const agent = { ...newAgent({ ...input, userId: user.toString('hex') }, tx.nowMs), lease };
    writeAgent(tx, undefined, agent);
    if (lease !== null) writeLease(tx, agent.record, lease);
    tx.change({
      domain: 'registry',
      kind: 'agent.created',
      id: input.agentId,
      user: input.user,
      version: agent.meta.version,
    });
    return agent;
  }

  #guarded(tx: Transaction, user: Buffer | null, agentId: string, guard: WriteGuard): StoredAgent {
    const agent = this.require(tx, user, agentId);
    this.#leases.checkFence(tx, agent, guard.fence);
    checkVersion(agent.meta.version, guard.ifVersion);
    return agent;
  }

  #rescheduled(tx: Transaction, agent: StoredAgent): StoredAgent {
    this.#unschedule(tx, agent);
    const dueMs = activityDueMs(agent, this.#limits, this.#outages());
    const atMs = dueMs === null ? null : Math.max(dueMs, tx.nowMs);
    if (atMs !== null) tx.schedule({ atMs, kind: activityTimer, reference: idBytes(agent.record.agent_id) });
    return { ...agent, meta: { ...agent.meta, activityTimerAtMs: atMs } };
  }

  #unschedule(tx: Transaction, agent: StoredAgent): void {
    const { activityTimerAtMs } = agent.meta;
    if (activityTimerAtMs !== null)
      tx.unschedule({
        atMs: activityTimerAtMs,
        kind: activityTimer,
        reference: idBytes(agent.record.agent_id),
      });
  }
}

/** The keys of an agent's sessions, open and closed. */
function sessionsOf(reader: Reader, agent: Buffer, limit?: number): Buffer[] {
  const range = { ...prefixRange(agent), ...(limit !== undefined && { limit }) };
  return Array.from(reader.range(families.sessionsByAgent, range), ({ key }) => key.subarray(agent.length));
}

/** Answers how many of them were active. */
function removeSessions(tx: Transaction, agent: Buffer, sessions: readonly Buffer[]): number {
  let active = 0;
  for (const key of sessions) {
    const session = readSession(tx, key);
    if (session?.status === sessionStatusBytes.active) active += 1;
    if (session === undefined) tx.delete(families.sessionsByAgent, sessionByAgentKey(agent, key));
    else sessionRecords.remove(tx, session);
  }
  return active;
}

export function agentNotFound(agentId: string): StoaError {
  return new StoaError('not_found', `There is no agent ${agentId}.`);
}
