/** Agents in the data directory: created, changed, moved between states, deleted. */
import type { Outage } from '../../../core/outages.js';
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import { agentChange } from '../../../registry/announcements.js';
import {
  type AgentChange,
  type NewAgent,
  checkAgentQuota,
  checkVersion,
  newAgent,
} from '../../../registry/lifecycle/changes.js';
import { userKey } from '../../../identity/user-key.js';
import { idBytes, sessionIdOf } from '../../../registry/ids.js';
import { absentCountKey, agentCountKey, sessionByAgentKey } from '../../../registry/layout/keys.js';
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
} from '../../../registry/model.js';
import type { CreateAgent, PutAgent, WriteGuard } from '../../../registry/port.js';
import { agentOfFirstWrite } from '../../../registry/lifecycle/calls.js';
import { checkRemovable, firstLease } from '../../../registry/lifecycle/presence.js';
import type { ActingAgent, RecentAgents } from '../../../registry/recent-agents.js';
import { agentExists, agentNotFound, nameTaken } from '../../../registry/refusals.js';
import type { AgentVerb } from '../../../registry/lifecycle/transitions.js';
import { registryFamilies as families } from './families.js';
import { sessionRecords } from './indexes.js';
import type { LeaseVerbs } from './leases.js';
import { removeLinks } from './links/links.js';
import {
  agentNamed,
  countAbsence,
  fenceOfDeleted,
  findAgent,
  readCount,
  readSession,
  removeAgent,
  writeAgent,
  writeLease,
  writeMeta,
} from './rows.js';
import { activityTimer, leaseTimer, setTimer } from './timers.js';
import type { UserVerbs } from './users.js';

/** Called in the transaction of a change of name, with the agent as it was. */
export type RenameHook = (tx: Transaction, root: Transaction, agent: StoredAgent, name: string) => void;

/** Called in the transaction that removes an agent. */
export type RemovedHook = (root: Transaction, agent: StoredAgent) => void;

export interface AgentVerbsOptions {
  readonly limits: Limits;
  readonly outages: () => readonly Outage[];
  readonly users: UserVerbs;
  readonly leases: LeaseVerbs;
  readonly recent: RecentAgents;
}

export class AgentVerbs {
  /** Called before an agent gets another name. It throws if the agent holds something under its name. */
  onRename: RenameHook = () => undefined;
  /** Called when an agent is removed: what other domains keep for it goes with it. */
  onRemoved: RemovedHook = () => undefined;
  readonly #limits: Limits;
  readonly #outages: () => readonly Outage[];
  readonly #users: UserVerbs;
  readonly #leases: LeaseVerbs;
  readonly #recent: RecentAgents;

  constructor({ limits, outages, users, leases, recent }: AgentVerbsOptions) {
    this.#limits = limits;
    this.#outages = outages;
    this.#users = users;
    this.#leases = leases;
    this.#recent = recent;
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
   * A write of an agent in its own name: makes the agent with its first write, and renews its presence with
   * later ones. `makeId` is called for a new agent. Answers undefined for an agent that must not be made.
   */
  called(
    tx: Transaction,
    { user, agent: name }: ActingAgent,
    untilMs: number,
    makeId: ((user: Buffer) => string) | null,
  ): StoredAgent | undefined {
    const key = makeId === null ? userKey(user) : this.#users.ensure(tx, user);
    const id = agentNamed(tx, key, name);
    if (id === undefined && makeId === null) return undefined;
    const agent =
      id === undefined && makeId !== null
        ? this.#addCalling(tx, { agentId: makeId(key), user, name, spec: {}, labels: {} }, key, untilMs)
        : this.#leases.called(tx, this.require(tx, key, id as string), untilMs, this.#times(tx));
    this.#recent.remember(agent, tx.nowMs);
    tx.onUndone(() => this.#recent.forget(agent));
    return agent;
  }

  #addCalling(tx: Transaction, input: Omit<NewAgent, 'userId'>, user: Buffer, untilMs: number): StoredAgent {
    this.#checkRoom(tx, user);
    const given = { ...input, userId: user.toString('hex') };
    const agent = agentOfFirstWrite(given, untilMs, this.#times(tx));
    writeAgent(tx, undefined, agent);
    if (agent.lease !== null) writeLease(tx, agent.record, agent.lease);
    setTimer(tx, leaseTimer, agent, null, agent.lease?.timerAtMs ?? null);
    setTimer(tx, activityTimer, agent, null, agent.meta.activityTimerAtMs);
    tx.change(agentChange('agent.created', agent));
    return agent;
  }

  #checkRoom(tx: Transaction, user: Buffer): void {
    const agents = readCount(tx, agentCountKey(user));
    const absent = readCount(tx, absentCountKey(user));
    checkAgentQuota({ agents, absent, agentsMax: this.#users.agentsMax(tx, user) }, this.#limits);
  }

  /**
   * Creates or updates the agent. The transition table, the quota and the version are checked as in other
   * writes.
   */
  put(tx: Transaction, root: Transaction, input: PutAgent, guard: WriteGuard): StoredAgent {
    const user = this.#users.ensure(tx, input.user);
    const owner = tx.get(families.agentsById, idBytes(input.agentId));
    if (owner !== undefined && !owner.equals(user)) throw agentNotFound(input.agentId);
    if (owner === undefined) {
      checkNewPut(input, guard);
      return this.#add(tx, input, firstLease(fenceOfDeleted(tx, user)));
    }
    const before = this.#guarded(tx, user, input.agentId, guard);
    return this.#changeNamed(tx, root, before, putChange(before, input));
  }

  /**
   * Writes an imported agent over an existing one. A fencing number never falls. Quota and state were checked
   * before.
   */
  restore(tx: Transaction, root: Transaction, given: RestoredAgent, fence: number | null): void {
    const user = this.#users.ensure(tx, given.meta.user);
    const before = findAgent(tx, user, given.record.agent_id);
    if (before !== undefined) this.#rename(tx, root, before, given.record.name);
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
    root: Transaction,
    user: Buffer | null,
    agentId: string,
    change: AgentChange,
    guard: WriteGuard,
  ): StoredAgent {
    return this.#changeNamed(tx, root, this.#guarded(tx, user, agentId, guard), change);
  }

  /** A change that may give the agent another name. */
  #changeNamed(tx: Transaction, root: Transaction, before: StoredAgent, change: AgentChange): StoredAgent {
    if (change.name !== undefined) this.#rename(tx, root, before, change.name);
    return this.apply(tx, before, change);
  }

  /** What other domains keep under the name follows it. */
  #rename(tx: Transaction, root: Transaction, before: StoredAgent, name: string): void {
    if (name === before.record.name) return;
    checkNameFree(tx, idBytes(before.record.user_id), name, before.record.agent_id);
    this.onRename(tx, root, before, name);
    this.#recent.forget(before);
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
    root: Transaction,
    user: Buffer | null,
    agentId: string,
    guard: WriteGuard,
    forgets: boolean,
  ): { sessions: string[]; identities: string[] } {
    const agent = this.#guarded(tx, user, agentId, guard);
    checkRemovable(agent, forgets, this.#leases.times(), tx.nowMs);
    const id = idBytes(agentId);
    this.#recent.forget(agent);
    this.onRemoved(root, agent);
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
  deleteSomeSessions(
    tx: Transaction,
    user: Buffer | null,
    agentId: string,
    guard: WriteGuard,
    forgets: boolean,
  ): string[] {
    const agent = this.#guarded(tx, user, agentId, guard);
    checkRemovable(agent, forgets, this.#leases.times(), tx.nowMs);
    const limit = this.#limits.sessionsDeletedAtOnceMax;
    const found = sessionsOf(tx, idBytes(agentId), limit + 1);
    if (found.length <= limit) return [];
    const active = removeSessions(tx, idBytes(agentId), found);
    if (active > 0) {
      const left = { ...agent, activeSessions: agent.activeSessions - active };
      writeMeta(tx, left);
      countAbsence(tx, agent, left);
    }
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
    if (agent.record === before.record) {
      writeMeta(tx, agent);
      countAbsence(tx, before, agent);
    } else writeAgent(tx, before, agent);
    if (agent.lease !== null && agent.lease !== before.lease) writeLease(tx, agent.record, agent.lease);
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
    checkNameFree(tx, user, input.name, input.agentId);
    this.#checkRoom(tx, user);
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

/** Names are unique among the agents of a user. */
function checkNameFree(reader: Reader, user: Buffer, name: string, agentId: string): void {
  const known = agentNamed(reader, user, name);
  if (known !== undefined && known !== agentId) throw nameTaken(name, known);
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
