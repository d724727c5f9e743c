/**
 * How updates, sessions and idleness change an agent, as pure functions, so that every home decides the same.
 */
import type { Change } from '../../core/change.js';
import { StoaError } from '../../core/errors.js';
import type { Outage } from '../../core/outages.js';
import { limitError } from '../../core/settings/exceeds.js';
import type { Limits } from '../../core/settings/limits.js';
import { type Facts, agentChange, sessionChange } from '../announcements.js';
import { type AgentChange, activityDueMs, changedAgent } from './changes.js';
import {
  type AgentState,
  type SessionRecord,
  type StoredAgent,
  agentSpecDefaults,
  sessionStatusBytes,
  stateOf,
  type Lease,
} from '../model.js';
import type { PutAgent, WriteGuard } from '../port.js';
import { leaseTimesOf } from './lease.js';
import { firstLease, noLease } from './presence.js';
import { agentNotFound } from '../refusals.js';
import { type AgentVerb, stateForSession, verbPath } from './transitions.js';

/** The clock of the home. */
export interface Times {
  readonly limits: Limits;
  /** The times when no server ran; empty on a home with many servers. */
  readonly outages: readonly Outage[];
  readonly nowMs: number;
}

/** The home stores the agent and announces the changes in this order. */
export interface AgentOutcome {
  agent: StoredAgent;
  changes: readonly Change[];
}

/** The same object as before if nothing changes. */
export function applied(
  before: StoredAgent,
  change: AgentChange,
  times: Times,
  facts: Facts = {},
): AgentOutcome {
  const after = changedAgent(before, change, times.nowMs);
  if (after === before) return { agent: before, changes: [] };
  const [from, to] = [stateOf(before.record), stateOf(after.record)];
  if (from === to) return { agent: after, changes: [agentChange('agent.updated', after, facts)] };
  return {
    agent: rescheduled(after, times),
    changes: [agentChange('agent.transitioned', after, { from, to, ...facts })],
  };
}

export function moved(before: StoredAgent, verb: AgentVerb, times: Times): AgentOutcome {
  const changes: Change[] = [];
  let agent = before;
  for (const status of verbPath(verb, stateOf(before.record))) {
    const outcome = applied(agent, { status }, times, { verb });
    agent = outcome.agent;
    changes.push(...outcome.changes);
  }
  return { agent, changes };
}

/**
 * The change that a put makes to an existing agent: the given fields, and defaults for the rest of its spec.
 */
export function putChange(before: StoredAgent, input: PutAgent): AgentChange {
  const { name, labels, errorMessage } = input;
  const status = input.status === stateOf(before.record) ? undefined : input.status;
  return { name, status, spec: { ...agentSpecDefaults, ...input.spec }, labels, errorMessage };
}

/** Refuses a put that would create an agent with another version or status than a new agent has. */
export function checkNewPut({ agentId, status }: PutAgent, { ifVersion }: WriteGuard): void {
  if (ifVersion !== undefined && ifVersion !== 0) throw agentNotFound(agentId);
  if (status !== undefined && status !== 'provisioning')
    throw new StoaError(
      'invalid_transition',
      `The status of the new agent is "${status}". Expected "provisioning".`,
      {
        fix: 'Create the agent without a status, then start it.',
        details: { from: null, to: status },
      },
    );
}

/** The idle timer fired. Returns null for an outdated timer: a later one is set. */
export function onActivityTimer(agent: StoredAgent, times: Times): AgentOutcome | null {
  const { activityTimerAtMs } = agent.meta;
  if (activityTimerAtMs === null || activityTimerAtMs > times.nowMs) return null;
  const dueMs = activityDueMs(agent, times.limits, times.outages);
  if (dueMs === null || dueMs > times.nowMs) return { agent: rescheduled(agent, times), changes: [] };
  const status: AgentState = stateOf(agent.record) === 'running' ? 'idle' : 'hibernating';
  return applied(agent, { status }, times, { reason: 'inactive' });
}

export function opened(
  agent: StoredAgent,
  sessionId: string,
  times: Times,
): AgentOutcome & { session: SessionRecord } {
  const status = stateForSession(stateOf(agent.record));
  checkRoom(agent, times.limits);
  const session: SessionRecord = {
    session_id: sessionId,
    agent_id: agent.record.agent_id,
    user_id: agent.record.user_id,
    status: sessionStatusBytes.active,
    created_at: times.nowMs,
    closed_at: null,
  };
  const busy = { ...agent, activeSessions: agent.activeSessions + 1 };
  const changes = [sessionChange('session.opened', agent, sessionId)];
  if (status === null) return { session, agent: withSign(busy, times), changes };
  const woken = applied(busy, { status }, times, { session: sessionId });
  // Programs that run agents listen for this change.
  const wake = agentChange('agent.wake_requested', woken.agent, { session: sessionId });
  return {
    session,
    agent: woken.agent,
    changes: [...changes, ...woken.changes, ...(status === 'provisioning' ? [wake] : [])],
  };
}

/** Returns null if the session is closed already. */
export function closed(
  agent: StoredAgent,
  session: SessionRecord,
  times: Times,
): (AgentOutcome & { session: SessionRecord }) | null {
  if (session.status === sessionStatusBytes.closed) return null;
  const ended = { ...session, status: sessionStatusBytes.closed, closed_at: times.nowMs };
  const left = { ...agent, activeSessions: agent.activeSessions - 1 };
  const changes = [sessionChange('session.closed', agent, session.session_id)];
  if (left.activeSessions > 0 || stateOf(agent.record) !== 'running')
    return { session: ended, agent: withSign(left, times), changes };
  const idle = applied(left, { status: 'idle' }, times, { session: session.session_id });
  return { session: ended, agent: idle.agent, changes: [...changes, ...idle.changes] };
}

/** An agent of an export. Only a move gives its lease; otherwise it is known when the agent was last present. */
export type RestoredAgent = Pick<StoredAgent, 'record' | 'meta'> & {
  lease?: Lease | null | undefined;
  presence: { seen_at: number; lost: boolean } | null;
};

/**
 * An agent of an export, written over the stored agent. A fencing number never falls; quota and status were
 * checked before.
 */
export function restored(
  given: RestoredAgent,
  before: StoredAgent | undefined,
  fences: { given: number | null; deleted: number },
  times: Times,
): AgentOutcome {
  const current = before === undefined ? firstLease(fences.deleted) : before.lease;
  const fence = fences.given === null ? 0 : fences.given + 1;
  const isMoved = given.lease !== undefined && (given.lease?.fence ?? 0) >= (before?.lease?.fence ?? 0);
  const vacant = fence > (current?.fence ?? 0) ? { ...(current ?? noLease), fence } : current;
  const absent = before === undefined ? absentLease(vacant, given.presence, times) : vacant;
  const lease = isMoved ? (given.lease ?? null) : absent;
  const { record, meta } = given;
  const agent = rescheduled({ record, meta, lease, activeSessions: before?.activeSessions ?? 0 }, times);
  return { agent, changes: [agentChange('agent.imported', agent)] };
}

/**
 * The lease of an imported agent that was present elsewhere. It counts as absent, and the time until it is
 * forgotten begins with the import.
 */
function absentLease(
  vacant: Lease | null,
  presence: RestoredAgent['presence'],
  { limits, outages, nowMs }: Times,
): Lease | null {
  if (presence === null) return vacant;
  const { seen_at: seenAtMs, lost } = presence;
  const timerAtMs = nowMs + leaseTimesOf(limits, outages).forgottenAfterMs;
  return { ...(vacant ?? noLease), renewedAtMs: seenAtMs, expiresAtMs: seenAtMs, lost, timerAtMs };
}

/** Sets the idle timer, or removes it. */
export function rescheduled(agent: StoredAgent, { limits, outages, nowMs }: Times): StoredAgent {
  const dueMs = activityDueMs(agent, limits, outages);
  const activityTimerAtMs = dueMs === null ? null : Math.max(dueMs, nowMs);
  return { ...agent, meta: { ...agent.meta, activityTimerAtMs } };
}

/** A sign of life that readers do not see. Sets the idle timer if none is set. */
function withSign(agent: StoredAgent, times: Times): StoredAgent {
  const noted = { ...agent, meta: { ...agent.meta, activeAtMs: times.nowMs } };
  return agent.meta.activityTimerAtMs === null ? rescheduled(noted, times) : noted;
}

function checkRoom({ activeSessions }: StoredAgent, limits: Limits): void {
  const { sessionsPerAgentMax } = limits;
  if (sessionsPerAgentMax === 0 || activeSessions < sessionsPerAgentMax) return;
  throw limitError('quota_exceeded', {
    subject: 'With this session the agent',
    unit: 'active sessions',
    limit: 'sessionsPerAgentMax',
    limits,
    received: activeSessions + 1,
    advice: 'Close a session first',
    details: { active_sessions: activeSessions, sessions_max: sessionsPerAgentMax },
  });
}
