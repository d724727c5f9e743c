/** Agents in the data directory: created, changed, moved between states, deleted. */
import type { Outage } from '../../../core/outages.js';
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import { agentChange } from '../../../registry/announcements.js';
import {
  type AgentChange,
  checkAgentQuota,
  checkVersion,
  newAgent,
} from '../../../registry/lifecycle/changes.js';
import { idBytes, sessionIdOf } from '../../../registry/ids.js';
import { agentCountKey, sessionByAgentKey } from '../../../registry/layout/keys.js';
import {
  type AgentOutcome,
  type RestoredAgent,
  type Times,
  applied,
  checkNewPut,
  closed,
  moved,
  onActivityTimer,
  opened,
  putChange,
  restored,
} from '../../../registry/lifecycle/lifecycle.js';
import {
  type Lease,
  type SessionRecord,
  type StoredAgent,
  sessionStatusBytes,
  stateOf,
} from '../../../registry/model.js';
import type { CreateAgent, PutAgent, WriteGuard } from '../../../registry/port.js';
import { firstLease } from '../../../registry/lifecycle/presence.js';
import { agentExists, agentNotFound } from '../../../registry/refusals.js';
import { type AgentVerb, checkDeletable } from '../../../registry/lifecycle/transitions.js';
import { registryFamilies as families } from './families.js';
import { sessionRecords } from './indexes.js';
import { type LeaseVerbs, leaseTimer } from './leases.js';
import { removeLinks } from './links.js';
import {
  fenceOfDeleted,
  findAgent,
  readCount,
  readSession,
  removeAgent,
  writeAgent,
  writeLease,
  writeMeta,
} from './rows.js';
import { setTimer } from './timers.js';
import type { UserVerbs } from './users.js';

export const activityTimer = 'registry.activity';

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

  /** The agent. Throws `not_found` if it does not exist or belongs to another user. */
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
      checkNewPut(input, guard);
      return this.#add(tx, input, firstLease(fenceOfDeleted(tx, user)));
    }
    const before = this.#guarded(tx, user, input.agentId, guard);
    return this.apply(tx, before, putChange(before, input));
  }

  /**
   * Writes an imported agent over an existing one. A fencing number never falls. Quota and state were checked
   * before.
   */
  restore(tx: Transaction, given: RestoredAgent, fence: number | null): void {
    const user = this.#users.ensure(tx, given.meta.user);
    const before = findAgent(tx, user, given.record.agent_id);
    const fences = { given: fence, deleted: fenceOfDeleted(tx, user) };
    const { agent, changes } = restored(given, before, fences, this.#times(tx));
    const timerAtMs = before?.meta.activityTimerAtMs ?? null;
    setTimer(tx, activityTimer, agent, timerAtMs, agent.meta.activityTimerAtMs);
    setTimer(tx, leaseTimer, agent, before?.lease?.timerAtMs ?? null, agent.lease?.timerAtMs ?? null);
    writeAgent(tx, before, agent);
    if (agent.lease !== null && agent.lease !== before?.lease) writeLease(tx, agent.record, agent.lease);
    for (const change of changes) tx.change(change);
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
    const before = this.#guarded(tx, user, agentId, guard);
    return this.store(tx, before, moved(before, verb, this.#times(tx)));
  }

  /**
   * Removes the agent, its sessions, its lease, its links and every index entry, in one batch. Returns the
   * ids of its sessions and of its linked identities.
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
    setTimer(tx, activityTimer, agent, agent.meta.activityTimerAtMs, null);
    const sessions = sessionsOf(tx, id);
    removeSessions(tx, id, sessions);
    const identities = removeLinks(tx, id);
    removeAgent(tx, agent);
    tx.change(agentChange('agent.deleted', agent));
    return { sessions: sessions.map(sessionIdOf), identities };
  }

  /**
   * Removes some sessions of an agent that is about to be deleted, if there are too many for one commit.
   * Returns their ids, or none if the rest can be deleted with the agent.
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

  /** Makes a change that has passed every check, and announces it. */
  apply(tx: Transaction, before: StoredAgent, change: AgentChange): StoredAgent {
    return this.store(tx, before, applied(before, change, this.#times(tx)));
  }

  store(tx: Transaction, before: StoredAgent, { agent, changes }: AgentOutcome): StoredAgent {
    if (agent === before) return before;
    setTimer(tx, activityTimer, agent, before.meta.activityTimerAtMs, agent.meta.activityTimerAtMs);
    // A sign of life changes neither the record nor an index.
    if (agent.record === before.record) writeMeta(tx, agent);
    else writeAgent(tx, before, agent);
    for (const change of changes) tx.change(change);
    return agent;
  }

  open(tx: Transaction, agent: StoredAgent, sessionId: string): SessionRecord {
    const outcome = opened(agent, sessionId, this.#times(tx));
    this.store(tx, agent, outcome);
    return outcome.session;
  }

  /** Null for a session that is closed already. */
  close(tx: Transaction, agent: StoredAgent, session: SessionRecord): SessionRecord | null {
    const outcome = closed(agent, session, this.#times(tx));
    if (outcome !== null) this.store(tx, agent, outcome);
    return outcome?.session ?? null;
  }

  /**
   * The idle timer is due: the agent becomes idle or hibernates, unless it was active since the timer was
   * set.
   */
  onTimer(tx: Transaction, reference: Buffer): void {
    const agent = findAgent(tx, null, reference.toString('hex'));
    const outcome = agent === undefined ? null : onActivityTimer(agent, this.#times(tx));
    if (agent !== undefined && outcome !== null) this.store(tx, agent, outcome);
  }

  /** An id that was never used has no lease. */
  #add(tx: Transaction, input: CreateAgent & { agentId: string }, lease: Lease | null = null): StoredAgent {
    const user = this.#users.ensure(tx, input.user);
    if (tx.get(families.agentsById, idBytes(input.agentId)) !== undefined) {
      throw agentExists(input.agentId);
    }
    checkAgentQuota(readCount(tx, agentCountKey(user)), this.#users.agentsMax(tx, user));
    const agent = { ...newAgent({ ...input, userId: user.toString('hex') }, tx.nowMs), lease };
    writeAgent(tx, undefined, agent);
    if (lease !== null) writeLease(tx, agent.record, lease);
    tx.change(agentChange('agent.created', agent));
    return agent;
  }

  #guarded(tx: Transaction, user: Buffer | null, agentId: string, guard: WriteGuard): StoredAgent {
    const agent = this.require(tx, user, agentId);
    this.#leases.checkFence(tx, agent, guard.fence);
    checkVersion(agent.meta.version, guard.ifVersion);
    return agent;
  }

  #times(tx: Transaction): Times {
    return { limits: this.#limits, outages: this.#outages(), nowMs: tx.nowMs };
  }
}

/** The keys of an agent's sessions, open and closed. */
function sessionsOf(reader: Reader, agent: Buffer, limit?: number): Buffer[] {
  const range = { ...prefixRange(agent), ...(limit !== undefined && { limit }) };
  return Array.from(reader.range(families.sessionsByAgent, range), ({ key }) => key.subarray(agent.length));
}

/** Returns the number of active ones. */
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
