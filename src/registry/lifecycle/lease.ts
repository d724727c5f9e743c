/** The rules of leases: who holds a lease, until when, and which writes are too late. */
import { StoaError } from '../../core/errors.js';
import { type Outage, extendedByOutages } from '../../core/outages.js';
import type { Limits } from '../../core/settings/limits.js';
import type { Lease } from '../model.js';

export const dayMs = 86_400_000;

export interface LeaseTimes {
  /** For a lease that heartbeats renew. */
  ttlMs: number;
  /** For a lease that the agent's calls renew. */
  presenceMs: number;
  graceMs: number;
  /** From the end of an agent's presence until the agent is forgotten. */
  forgottenAfterMs: number;
  outages: readonly Outage[];
}

export function leaseTimesOf(
  { leaseSeconds, agentPresenceSeconds, leaseGraceSeconds, agentLostDays }: Limits,
  outages: readonly Outage[],
): LeaseTimes {
  return {
    ttlMs: leaseSeconds * 1_000,
    presenceMs: agentPresenceSeconds * 1_000,
    graceMs: leaseGraceSeconds * 1_000,
    forgottenAfterMs: agentLostDays * dayMs,
    outages,
  };
}

/** Whether an agent is alive. `none` means that the lease has no holder and no holder was lost. */
export type Presence = 'none' | 'live' | 'lapsed' | 'lost';

/** The end of a lease, extended by the time that the server was down. */
function lapsesAtMs(lease: Lease, { outages }: LeaseTimes): number {
  return extendedByOutages(lease.renewedAtMs, lease.expiresAtMs, outages);
}

/** When the presence of a holder that stays silent is lost. */
export function lostAtMs(lease: Lease, { outages, graceMs }: LeaseTimes): number {
  return extendedByOutages(lease.renewedAtMs, lease.expiresAtMs + graceMs, outages);
}

/** When a lease ends. Time in which no server ran does not count. */
interface LeaseEnds {
  lapsesAtMs: number;
  lostAtMs: number;
}

/** A lease as a home returns it. */
export type CountedLease = Lease & LeaseEnds;

export function counted(lease: Lease, times: LeaseTimes): CountedLease {
  return { ...lease, lapsesAtMs: lapsesAtMs(lease, times), lostAtMs: lostAtMs(lease, times) };
}

export function presenceOf(lease: CountedLease | null, nowMs: number): Presence {
  if (lease === null) return 'none';
  if (lease.lost) return 'lost';
  if (lease.holder === null) return 'none';
  if (nowMs < lease.lapsesAtMs) return 'live';
  return nowMs < lease.lostAtMs ? 'lapsed' : 'lost';
}

/**
 * The lease after a heartbeat: renewed for its holder, or taken by a new one. A renewal never ends the lease
 * earlier than it ended before. Throws while another holder keeps it with heartbeats.
 */
export function beat(lease: Lease | null, holder: string, times: LeaseTimes, nowMs: number): Lease {
  const current = lease === null ? null : settled(lease, times, nowMs);
  const expiresAtMs = nowMs + times.ttlMs;
  const renewal = { holder, renewedAtMs: nowMs, expiresAtMs, lost: false, implicit: false };
  if (current === null) return { ...renewal, fence: 1, timerAtMs: null };
  if (current.implicit && current.holder !== null && current.holder !== holder)
    return { ...vacated(current, false), ...renewal };
  if (current.holder !== null && current.holder !== holder) {
    throw new StoaError('conflict', `The agent's lease is held by "${current.holder}".`, {
      fix: 'Wait until the holder releases the lease, or until its time and grace period end (details.free_at).',
      details: { holder: current.holder, free_at: lostAtMs(current, times) },
    });
  }
  if (current.holder === null) return { ...current, ...renewal };
  return { ...current, ...renewal, expiresAtMs: Math.max(expiresAtMs, lapsesAtMs(current, times)) };
}

/**
 * The lease after a call of the agent itself. A lease that heartbeats renew is renewed for its holder. A
 * lease without a holder is given to the agent. `untilMs`: the end of the longest claim or lock of the agent.
 */
export function callOn(
  lease: Lease | null,
  agent: string,
  untilMs: number,
  times: LeaseTimes,
  nowMs: number,
): Lease {
  const current = lease === null ? null : settled(lease, times, nowMs);
  const isHeld = current !== null && current.holder !== null;
  const implicit = isHeld ? current.implicit : true;
  const ownEndMs = nowMs + (implicit ? times.presenceMs : times.ttlMs);
  return {
    holder: isHeld ? current.holder : agent,
    fence: current?.fence ?? 1,
    renewedAtMs: nowMs,
    expiresAtMs: Math.max(ownEndMs, untilMs, isHeld ? lapsesAtMs(current, times) : 0),
    timerAtMs: current?.timerAtMs ?? null,
    lost: false,
    implicit,
  };
}

/**
 * The lease without a holder. The number grows at once, so that a late write of the former holder is refused.
 */
export function vacated(lease: Lease, lost: boolean): Lease {
  return { ...lease, holder: null, fence: lease.fence + 1, lost };
}

/** The lease as of now, even if the sweeper has not run yet. */
export function settled(lease: Lease, times: LeaseTimes, nowMs: number): Lease {
  return lease.holder !== null && nowMs >= lostAtMs(lease, times) ? vacated(lease, true) : lease;
}

/** Throws `fenced` if the number of the writer is lower than that of the lease. */
export function checkFence(
  lease: Lease | null,
  fence: number | null,
  times: LeaseTimes,
  nowMs: number,
): void {
  if (fence === null || lease === null) return;
  const current = settled(lease, times, nowMs);
  if (fence >= current.fence) return;
  throw new StoaError(
    'fenced',
    `The fencing number ${fence} is out of date: the lease has ${current.fence}.`,
    {
      fix: 'Discard the work that was started under the old lease. Send a heartbeat to ask for a new lease.',
      details: { fence, current_fence: current.fence },
    },
  );
}
