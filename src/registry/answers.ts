/** The registry's records as callers see them: states as words, times as text, and the lease as of now. */
import type { Limits } from '../core/settings/limits.js';
import { isoTime, isoTimeOrNull } from '../core/text/iso-time.js';
import { type CountedLease, presenceOf } from './lifecycle/lease.js';
import {
  type AgentRecord,
  type Lease,
  type SessionRecord,
  type SessionStatus,
  type StoredUser,
  sessionStatusOf,
  stateOf,
} from './model.js';
import type { AgentView } from './port.js';
import type { AgentAnswer, LeaseAnswer, SessionAnswer, UserAnswer } from './schemas.js';

export function agentAnswer({ record, meta, lease, activeSessions }: AgentView, nowMs: number): AgentAnswer {
  const presence = presenceOf(lease, nowMs);
  return {
    agent_id: record.agent_id,
    user_id: record.user_id,
    user: meta.user,
    name: record.name,
    status: stateOf(record),
    // Copies, because records are shared with later readers and callers may change an answer.
    spec: { ...record.spec },
    labels: { ...meta.labels },
    error_message: meta.errorMessage,
    created_at: isoTime(record.created_at),
    updated_at: isoTime(record.updated_at),
    last_heartbeat_at: isoTimeOrNull(lastHeartbeatAtMs(record, lease)),
    version: meta.version,
    presence,
    lease: presence === 'live' || presence === 'lapsed' ? leaseAnswer(lease) : null,
    active_sessions: activeSessions,
  };
}

/**
 * The record follows the lease lazily. A lease that was never held only stores a number and was never
 * renewed.
 */
function lastHeartbeatAtMs({ last_heartbeat_at }: AgentRecord, lease: Lease | null): number | null {
  const latestMs = Math.max(lease?.renewedAtMs ?? 0, last_heartbeat_at ?? 0);
  return latestMs === 0 ? last_heartbeat_at : latestMs;
}

export function leaseAnswer(lease: CountedLease | null): LeaseAnswer | null {
  if (lease === null || lease.holder === null) return null;
  return { holder: lease.holder, fence: lease.fence, expires_at: isoTime(lease.lapsesAtMs) };
}

export function sessionAnswer(session: SessionRecord): SessionAnswer {
  // The codec refuses every other byte.
  return {
    ...session,
    status: sessionStatusOf(session.status) as SessionStatus,
    created_at: isoTime(session.created_at),
    closed_at: isoTimeOrNull(session.closed_at),
  };
}

export function userAnswer({ record, user, agents, agentsMax }: StoredUser, limits: Limits): UserAnswer {
  return {
    ...record,
    created_at: isoTime(record.created_at),
    last_seen_at: isoTime(record.last_seen_at),
    user,
    agents,
    agents_max: agentsMax ?? limits.agentsPerUserMax,
  };
}
