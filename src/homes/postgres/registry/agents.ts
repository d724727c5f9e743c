/** Agents and their leases in PostgreSQL: create, update, change state, delete. */
import { agentNamed } from './lists.js';
import { versionFailure } from '../../../core/errors.js';
import { agentChange } from '../../../registry/announcements.js';
import {
  type AgentChange,
  checkAgentQuota,
  checkVersion,
  newAgent,
} from '../../../registry/lifecycle/changes.js';
import { agentOfFirstWrite, onCall } from '../../../registry/lifecycle/calls.js';
import { checkFence, settled } from '../../../registry/lifecycle/lease.js';
import {
  applied,
  checkNewPut,
  moved,
  onActivityTimer,
  putChange,
} from '../../../registry/lifecycle/lifecycle.js';
import {
  type Lease,
  type StoredAgent,
  agentStateBytes,
  sessionStatusBytes,
} from '../../../registry/model.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import type { CreateAgent, PutAgent, WriteGuard } from '../../../registry/port.js';
import {
  checkRemovable,
  firstLease,
  heartbeat as beat,
  onLeaseTimer,
  release,
} from '../../../registry/lifecycle/presence.js';
import { agentExists, agentNotFound, leaseNumberDiffers, nameTaken } from '../../../registry/refusals.js';
import type { AgentVerb } from '../../../registry/lifecycle/transitions.js';
import { linkOwnerId } from './links.js';
import { type Queryable, query } from '../database/connection.js';
import { type Row, number, text } from './rows.js';
import { type LockedUser, ensureUser, lockUser, userIdOf } from './users.js';
import type { RegistryWork } from './work.js';

/** The id is new, so the agent starts without a lease. */
export async function createAgent(
  work: RegistryWork,
  agentId: string,
  input: CreateAgent,
): Promise<StoredAgent> {
  return addAgent(work, await ensureUser(work, input.user), { ...input, agentId }, null);
}

export async function putAgent(work: RegistryWork, input: PutAgent, guard: WriteGuard): Promise<StoredAgent> {
  const user = await ensureUser(work, input.user);
  const [owner] = await work.rows('SELECT user_id FROM registry.owners WHERE id = $1', [input.agentId]);
  if (owner === undefined) {
    checkNewPut(input, guard);
    return addAgent(work, user, input, firstLease(user.deletedFence));
  }
  if (text(owner, 'user_id') !== user.record.user_id) throw agentNotFound(input.agentId);
  const before = await guarded(work, user.record.user_id, input.agentId, guard);
  return changeNamed(work, before, putChange(before, input));
}

export async function updateAgent(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  change: AgentChange,
  guard: WriteGuard,
): Promise<StoredAgent> {
  return changeNamed(work, await guarded(work, userId, agentId, guard), change);
}

/** A change that may give the agent another name. */
async function changeNamed(
  work: RegistryWork,
  before: StoredAgent,
  change: AgentChange,
): Promise<StoredAgent> {
  const { name } = change;
  if (name !== undefined && name !== before.record.name) {
    await checkNameFree(work, before.record.user_id, name);
    await work.renamed(before, name);
  }
  return work.store(before, applied(before, change, work.times));
}

/** The unique index decides between two writes at once. */
async function checkNameFree(work: RegistryWork, userId: string, name: string): Promise<void> {
  const holder = await agentNamed(work.sql, userId, name);
  if (holder !== undefined) throw nameTaken(name, holder);
}

export async function moveAgent(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  verb: AgentVerb,
  guard: WriteGuard,
): Promise<StoredAgent> {
  const before = await guarded(work, userId, agentId, guard);
  return work.store(before, moved(before, verb, work.times));
}

/**
 * Deletes some sessions of an agent that has too many to delete in one write. Returns true if there may still
 * be too many.
 */
export async function deleteSomeSessions(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  guard: WriteGuard,
  forgets: boolean,
): Promise<boolean> {
  const agent = await guarded(work, userId, agentId, guard);
  checkRemovable(agent, forgets, work.leaseTimes, work.nowMs);
  const limit = work.limits.sessionsDeletedAtOnceMax;
  const found = await work.rows(
    `SELECT session_id, status FROM registry.sessions WHERE user_id = $1 AND agent_id = $2
      ORDER BY session_id LIMIT $3`,
    [agent.record.user_id, agentId, limit + 1],
  );
  if (found.length <= limit) return false;
  const ids = found.map((row) => text(row, 'session_id'));
  await work.rows(
    'DELETE FROM registry.sessions WHERE user_id = $1 AND agent_id = $2 AND session_id = ANY($3::text[])',
    [agent.record.user_id, agentId, ids],
  );
  await work.removeOwners(ids);
  const active = found.filter((row) => number(row, 'status') === sessionStatusBytes.active).length;
  const left = { ...agent, activeSessions: agent.activeSessions - active };
  if (active > 0) await work.store(agent, { agent: left, changes: [] });
  return true;
}

/**
 * Deletes the agent with its sessions and links. The user's row is locked first, in the same order as on
 * creation.
 */
export async function deleteAgent(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  guard: WriteGuard,
  forgets: boolean,
): Promise<void> {
  const owner = userId ?? (await ownerOf(work, agentId));
  if (owner === null || (await lockUser(work, owner)) === undefined) throw agentNotFound(agentId);
  const agent = await guarded(work, owner, agentId, guard);
  checkRemovable(agent, forgets, work.leaseTimes, work.nowMs);
  if (agent.lease !== null && agent.lease.holder !== null) await work.presenceEnded(agent);
  await work.removed(agent);
  const sessions = await work.rows(
    'DELETE FROM registry.sessions WHERE user_id = $1 AND agent_id = $2 RETURNING session_id',
    [owner, agentId],
  );
  const links = await work.rows(
    'DELETE FROM registry.identity_links WHERE user_id = $1 AND agent_id = $2 RETURNING identity',
    [owner, agentId],
  );
  await work.rows('DELETE FROM registry.agents WHERE user_id = $1 AND agent_id = $2', [owner, agentId]);
  await work.rows(
    `UPDATE registry.users SET agents = agents - 1, deleted_fence = greatest(deleted_fence, $2)
      WHERE user_id = $1`,
    [owner, agent.lease?.fence ?? 0],
  );
  await work.removeOwners([
    agentId,
    ...sessions.map((row) => text(row, 'session_id')),
    ...links.map((row) => linkOwnerId(text(row, 'identity'))),
  ]);
  work.announce(agentChange('agent.deleted', agent));
}

export async function requireAgentVersion(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  version: number,
): Promise<void> {
  const current = (await work.findLocked(userId, agentId))?.meta.version ?? 0;
  if (current !== version) throw versionFailure(`The agent ${agentId}`, current, version);
}

export async function heartbeat(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  holder: string | null,
  guard: WriteGuard,
): Promise<Lease> {
  const agent = await work.requireLocked(userId, agentId);
  const outcome = beat(agent, holder, guard, work.leaseTimes, work.limits, work.nowMs);
  await work.storePresence(agent, outcome);
  return outcome.lease;
}

export async function releaseLease(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  holder: string | null,
  guard: WriteGuard,
): Promise<void> {
  const agent = await work.requireLocked(userId, agentId);
  const outcome = release(agent, holder, guard, work.leaseTimes, work.nowMs);
  if (outcome === null) return;
  work.forgetRecent(agent);
  await work.storePresence(agent, outcome);
}

/**
 * A write of an agent in its own name: makes the agent with its first write, and renews its presence with
 * later ones. Without `makeId` a new agent is not made.
 */
export async function called(
  work: RegistryWork,
  { user, agent: name }: ActingAgent,
  untilMs: number,
  makeId: (() => string) | null,
): Promise<StoredAgent | undefined> {
  const done = work.calledAgent;
  if (done?.record.name === name && untilMs <= (done.lease?.expiresAtMs ?? 0)) return done;
  const userId = userIdOf(user);
  const known = await work.findNamed(userId, name);
  if (known !== undefined) return callAgain(work, known, untilMs);
  if (makeId === null) return undefined;
  const owner = await ensureUser(work, user);
  // Another first write may have made it while this one waited for the user's row.
  const made = await work.findNamed(userId, name);
  if (made !== undefined) return callAgain(work, made, untilMs);
  await checkRoom(work, owner);
  const input = { agentId: makeId(), userId, user, name, spec: {}, labels: {} };
  const agent = agentOfFirstWrite(input, untilMs, work.times);
  await insertAgent(work, agent);
  work.announce(agentChange('agent.created', agent));
  work.remember(agent);
  return agent;
}

async function callAgain(work: RegistryWork, agent: StoredAgent, untilMs: number): Promise<StoredAgent> {
  const outcome = onCall(agent, untilMs, work.times);
  await work.storePresence(agent, outcome);
  work.remember(outcome.agent);
  return outcome.agent;
}

/** Absent agents are counted only if the user has as many agents as it may have. */
async function checkRoom(work: RegistryWork, { record, agents, agentsMax }: LockedUser): Promise<void> {
  const most = agentsMax ?? work.limits.agentsPerUserMax;
  if (agents < most) return;
  const absent = await absentAgents(work.sql, record.user_id);
  checkAgentQuota({ agents, absent, agentsMax: most }, work.limits);
}

export async function hasRoom(
  { sql, limits }: Pick<RegistryWork, 'sql' | 'limits'>,
  { record, agents, agentsMax }: Pick<LockedUser, 'record' | 'agents' | 'agentsMax'>,
): Promise<boolean> {
  const most = agentsMax ?? limits.agentsPerUserMax;
  return agents < most || agents - (await absentAgents(sql, record.user_id)) < most;
}

/** How many agents of the user were present, have gone away and hold nothing: `isAbsent` in SQL. */
export async function absentAgents(on: Queryable, userId: string): Promise<number> {
  const [row] = await query<Row>(
    on,
    `SELECT count(*) AS absent FROM registry.agents WHERE user_id = $1 AND lease_holder IS NULL
      AND lease_fence IS NOT NULL AND lease_renewed_at > to_timestamp(0) AND active_sessions = 0 AND status <> $2`,
    [userId, agentStateBytes.stopped],
  );
  return row === undefined ? 0 : number(row, 'absent');
}

export async function requireLease(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  fence: number,
): Promise<void> {
  const agent = (await work.findLocked(userId, agentId)) ?? (await keepMissing(work, userId, agentId));
  const lease = agent?.lease ?? null;
  // The sweeper may not have reached an expired lease yet.
  const current = lease === null ? 0 : settled(lease, work.leaseTimes, work.nowMs).fence;
  if (current !== fence) throw leaseNumberDiffers(agentId, current, fence);
}

/**
 * Keeps an agent that does not exist from being made until the transaction ends: every insert of its id waits
 * for the one here. Returns the agent if another transaction has just made it.
 */
async function keepMissing(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
): Promise<StoredAgent | undefined> {
  if (!(await work.addOwner(agentId, userId ?? ''))) return work.findLocked(userId, agentId);
  await work.removeOwners([agentId]);
  return undefined;
}

export interface SweptLeases {
  count: number;
  /** The agents that were away for too long. They are removed in separate writes. */
  forgotten: string[];
}

/** Handles up to `limit` leases whose timer is due. */
export async function sweepLeases(work: RegistryWork, limit: number): Promise<SweptLeases> {
  const due = await work.lockDue('lease_timer_at', limit);
  const forgotten: string[] = [];
  for (const agent of due) {
    const outcome = onLeaseTimer(agent, work.leaseTimes, work.nowMs);
    if (outcome !== null) await work.storePresence(agent, outcome);
    if (outcome?.forgotten === true) forgotten.push(agent.record.agent_id);
  }
  return { count: due.length, forgotten };
}

/** Handles up to `limit` agents whose activity timer is due. Returns how many there were. */
export async function sweepActivity(work: RegistryWork, limit: number): Promise<number> {
  const due = await work.lockDue('activity_timer_at', limit);
  for (const agent of due) {
    const outcome = onActivityTimer(agent, work.times);
    if (outcome !== null) await work.store(agent, outcome);
  }
  return due.length;
}

/** Locks the agent and checks the caller's fencing number and version. */
export async function guarded(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  guard: WriteGuard,
): Promise<StoredAgent> {
  const agent = await work.requireLocked(userId, agentId);
  checkFence(agent.lease, guard.fence, work.leaseTimes, work.nowMs);
  checkVersion(agent.meta.version, guard.ifVersion);
  return agent;
}

async function addAgent(
  work: RegistryWork,
  user: LockedUser,
  input: CreateAgent & { agentId: string },
  lease: Lease | null,
): Promise<StoredAgent> {
  const userId = user.record.user_id;
  await checkNameFree(work, userId, input.name);
  await checkRoom(work, user);
  const agent = { ...newAgent({ ...input, userId }, work.nowMs), lease };
  if (!(await insertAgent(work, agent))) {
    // An agent of another user is reported as not found.
    throw (await ownerOf(work, input.agentId)) === userId
      ? agentExists(input.agentId)
      : agentNotFound(input.agentId);
  }
  work.announce(agentChange('agent.created', agent));
  return agent;
}

/** Adds an agent to a locked user. Returns false if the id is in use. */
export async function insertAgent(work: RegistryWork, agent: StoredAgent): Promise<boolean> {
  const { user_id, agent_id } = agent.record;
  if (!(await work.addOwner(agent_id, user_id))) return false;
  await work.insert(agent);
  await work.rows('UPDATE registry.users SET agents = agents + 1 WHERE user_id = $1', [user_id]);
  return true;
}

async function ownerOf(work: RegistryWork, id: string): Promise<string | null> {
  const [row] = await work.rows('SELECT user_id FROM registry.owners WHERE id = $1', [id]);
  return row === undefined ? null : text(row, 'user_id');
}
