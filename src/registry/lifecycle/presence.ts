/** What heartbeats, releases and time make of an agent's lease: pure, so that every home decides alike. */
import type { Change } from '../../core/change.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { agentChange } from '../announcements.js';
import { type LeaseTimes, beat, checkFence, lostAtMs, vacated } from './lease.js';
import type { AgentRecord, Lease, StoredAgent } from '../model.js';
import type { WriteGuard } from '../port.js';

/**
 * The home announces `ended`, lets other domains take back what the agent held, stores the agent, and
 * announces the rest.
 */
export interface PresenceOutcome {
  agent: StoredAgent;
  /** The change that says that a presence ended; null where none did. */
  ended: Change | null;
  changes: readonly Change[];
}

/** A lease that nobody has held. */
export const noLease: Lease = {
  holder: null,
  fence: 0,
  renewedAtMs: 0,
  expiresAtMs: 0,
  timerAtMs: null,
  lost: false,
};

/**
 * The lease that an agent under an id of the caller's own begins with: nobody's, above every number that was
 * given out.
 */
export function firstLease(fenceOfDeleted: number): Lease | null {
  return fenceOfDeleted === 0 ? null : { ...noLease, fence: fenceOfDeleted + 1 };
}

export function heartbeat(
  agent: StoredAgent,
  holder: string,
  guard: WriteGuard,
  times: LeaseTimes,
  limits: Limits,
  nowMs: number,
): PresenceOutcome & { lease: Lease } {
  checkFence(agent.lease, guard.fence, times, nowMs);
  const { lease: current, ended } = settledOf(agent, agent.lease, times, nowMs);
  const lease = withTimer(beat(current, holder, times, nowMs), times);
  return {
    agent: { ...agent, lease, record: followed(agent.record, limits, nowMs) },
    lease,
    ended,
    changes:
      current?.holder === holder ? [] : [agentChange('agent.present', agent, { holder, fence: lease.fence })],
  };
}

/** Without a holder, for any holder. Answers null where nobody holds the lease. */
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
    throw new StoaError('conflict', `The lease is held by "${lease.holder}".`, {
      details: { holder: lease.holder },
    });
  const { holder: former, fence } = lease;
  return {
    agent: { ...agent, lease: { ...vacated(lease, false), timerAtMs: null } },
    ended: agentChange('agent.released', agent, { holder: former, fence }),
    changes: [],
  };
}

/**
 * The timer is set for the end of the lease of that moment; where heartbeats came since then, it is set
 * again. Answers null for a timer that is a leftover.
 */
export function onLeaseTimer(agent: StoredAgent, times: LeaseTimes, nowMs: number): PresenceOutcome | null {
  const { lease } = agent;
  if (lease === null || lease.timerAtMs === null || lease.timerAtMs > nowMs) return null;
  const rung = { ...lease, timerAtMs: null };
  const { lease: left = rung, ended } = settledOf(agent, rung, times, nowMs);
  return {
    agent: { ...agent, lease: left === null || left.holder === null ? left : withTimer(left, times) },
    ended,
    changes: [],
  };
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

/** One timer a lease. A heartbeat finds it set and leaves it alone. */
function withTimer(lease: Lease, times: LeaseTimes): Lease {
  return lease.timerAtMs === null ? { ...lease, timerAtMs: lostAtMs(lease, times) } : lease;
}

/** The record's own time of the last heartbeat follows lazily, without a new version. */
function followed(record: AgentRecord, { heartbeatRecordSeconds }: Limits, nowMs: number): AgentRecord {
  const last = record.last_heartbeat_at;
  if (last !== null && nowMs - last < heartbeatRecordSeconds * 1_000) return record;
  return { ...record, last_heartbeat_at: nowMs };
}
