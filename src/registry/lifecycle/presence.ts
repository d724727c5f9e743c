/**
 * How heartbeats, releases and time change the lease of an agent, as pure functions, so that every home
 * decides the same.
 */
import type { Change } from '../../core/change.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { agentChange } from '../announcements.js';
import { type LeaseTimes, beat, callOn, checkFence, dayMs, lostAtMs, settled, vacated } from './lease.js';
import { checkDeletable, isAtRest } from './transitions.js';
import { agentIsPresent } from '../refusals.js';
import { type AgentRecord, type Lease, type StoredAgent, stateOf } from '../model.js';
import type { WriteGuard } from '../port.js';

/**
 * The home announces `ended`, lets other domains release what the agent held, stores the agent, and announces
 * the rest.
 */
export interface PresenceOutcome {
  agent: StoredAgent;
  /** The agent has been away for so long that the home removes it. */
  forgotten?: boolean;
  /** The change that announces the end of a presence; null if no presence ended. */
  ended: Change | null;
  changes: readonly Change[];
}

/** A lease that never had a holder. */
export const noLease: Lease = {
  holder: null,
  fence: 0,
  renewedAtMs: 0,
  expiresAtMs: 0,
  timerAtMs: null,
  lost: false,
  implicit: false,
};

/**
 * The first lease of an agent whose id the caller chose: without a holder, and with a number above every
 * number given out.
 */
export function firstLease(fenceOfDeleted: number): Lease | null {
  return fenceOfDeleted === 0 ? null : { ...noLease, fence: fenceOfDeleted + 1 };
}

/** Without a holder, the agent holds its own lease, under its name: as after a call of the agent. */
export function heartbeat(
  agent: StoredAgent,
  given: string | null,
  guard: WriteGuard,
  times: LeaseTimes,
  limits: Limits,
  nowMs: number,
): PresenceOutcome & { lease: Lease } {
  checkFence(agent.lease, guard.fence, times, nowMs);
  const holder = given ?? agent.record.name;
  const { lease: current, ended } = settledOf(agent, agent.lease, times, nowMs);
  const lease = withTimer(beat(current, holder, times, nowMs), times, nowMs);
  return {
    agent: { ...agent, lease, record: followed(agent.record, limits, nowMs) },
    lease,
    ended,
    changes:
      current?.holder === holder ? [] : [agentChange('agent.present', agent, { holder, fence: lease.fence })],
  };
}

/** A call of the agent itself, which also shows that it is alive. Its status is decided by the caller. */
export function called(
  agent: StoredAgent,
  untilMs: number,
  times: LeaseTimes,
  limits: Limits,
  nowMs: number,
): PresenceOutcome & { lease: Lease } {
  const { lease: current, ended } = settledOf(agent, agent.lease, times, nowMs);
  const lease = withTimer(callOn(current, agent.record.name, untilMs, times, nowMs), times, nowMs);
  const { holder, fence } = lease;
  return {
    agent: { ...agent, lease, record: followed(agent.record, limits, nowMs) },
    lease,
    ended,
    changes:
      current?.holder === holder
        ? []
        : [agentChange('agent.present', agent, { holder: agent.record.name, fence })],
  };
}

/** Without `holder`, any holder's lease is released. Returns null if the lease has no holder. */
export function release(
  agent: StoredAgent,
  holder: string | null,
  guard: WriteGuard,
  times: LeaseTimes,
  nowMs: number,
): PresenceOutcome | null {
  const { lease } = agent;
  checkFence(lease, guard.fence, times, nowMs);
  if (lease === null || lease.holder === null) return null;
  if (holder !== null && lease.holder !== holder)
    throw new StoaError('conflict', `The lease is held by "${lease.holder}", not by "${holder}".`, {
      fix: 'Only its holder can release the lease. Send the name of the holder, or none.',
      details: { holder: lease.holder },
    });
  const { holder: former, fence } = lease;
  return {
    agent: { ...agent, lease: withTimer({ ...vacated(lease, false), timerAtMs: null }, times, nowMs) },
    ended: agentChange('agent.released', agent, { holder: former, fence }),
    changes: [],
  };
}

/**
 * The timer was set for the end of the lease at that time; after later heartbeats it is set again. After the
 * presence has ended, it is set for the time when the agent is forgotten. Returns null for an outdated timer.
 */
export function onLeaseTimer(agent: StoredAgent, times: LeaseTimes, nowMs: number): PresenceOutcome | null {
  const { lease } = agent;
  if (lease === null || lease.timerAtMs === null || lease.timerAtMs > nowMs) return null;
  if (lease.holder === null) {
    // An agent that is stopped or has sessions is kept; it is checked again a day later.
    const kept = { ...agent, lease: { ...lease, timerAtMs: nowMs + dayMs } };
    return { agent: kept, ended: null, changes: [], forgotten: isAbsent(agent) };
  }
  const { lease: left, ended } = settledOf(agent, { ...lease, timerAtMs: null }, times, nowMs);
  return { agent: { ...agent, lease: left && withTimer(left, times, nowMs) }, ended, changes: [] };
}

/**
 * Whether an agent is lost and holds nothing: it does not count in the quota, and is forgotten after some
 * time. A stopped agent is kept, because it was stopped to be started again.
 */
export function isAbsent({ lease, activeSessions, record }: StoredAgent): boolean {
  return (
    lease !== null &&
    lease.holder === null &&
    lease.renewedAtMs > 0 &&
    activeSessions === 0 &&
    stateOf(record) !== 'stopped'
  );
}

/** Ends the presence of a holder that has been silent for too long. */
function settledOf(
  agent: StoredAgent,
  lease: Lease | null,
  times: LeaseTimes,
  nowMs: number,
): { lease: Lease | null; ended: Change | null } {
  if (lease === null || lease.holder === null || nowMs < lostAtMs(lease, times))
    return { lease, ended: null };
  const { holder, fence } = lease;
  return { lease: vacated(lease, true), ended: agentChange('agent.lost', agent, { holder, fence }) };
}

/** One timer for each lease. A heartbeat does not change a timer that is set. */
function withTimer(lease: Lease, times: LeaseTimes, nowMs: number): Lease {
  const dueMs = lease.holder === null ? nowMs + times.forgottenAfterMs : lostAtMs(lease, times);
  return lease.timerAtMs === null || lease.timerAtMs > dueMs ? { ...lease, timerAtMs: dueMs } : lease;
}

/**
 * Throws for an agent that cannot be removed: one that is not at rest, or for `forget`, one that is present.
 */
export function checkRemovable(agent: StoredAgent, forgets: boolean, times: LeaseTimes, nowMs: number): void {
  const status = stateOf(agent.record);
  if (!forgets) return checkDeletable(status);
  const isPresent = agent.lease !== null && settled(agent.lease, times, nowMs).holder !== null;
  if (isPresent && !isAtRest(status)) throw agentIsPresent(agent.record.name);
}

/** The time of the last heartbeat in the record is updated only sometimes, without a new version. */
function followed(record: AgentRecord, { heartbeatRecordSeconds }: Limits, nowMs: number): AgentRecord {
  const last = record.last_heartbeat_at;
  if (last !== null && nowMs - last < heartbeatRecordSeconds * 1_000) return record;
  return { ...record, last_heartbeat_at: nowMs };
}
