/** What may happen to a work session, as pure functions that every backend calls. */
import { StoaError } from '../../core/errors.js';
import { given } from '../../core/given.js';
import type { Limits } from '../../core/settings/limits.js';
import { isoTime } from '../../core/text/iso-time.js';
import { type SessionStatus, type Task, type WorkSession, holdsSlot } from '../model.js';
import type { NewSession, SessionPatch } from '../schemas.js';
import { checkSessionTransition } from './transitions.js';

export function newSession(
  id: string,
  projectId: string,
  input: NewSession,
  limits: Limits,
  nowMs: number,
): WorkSession {
  const now = isoTime(nowMs);
  return {
    id,
    project_id: projectId,
    agent_id: input.agent_id ?? null,
    process_id: input.process_id ?? null,
    status: 'pending',
    started_at: null,
    ended_at: null,
    last_active: now,
    metadata: input.metadata ?? {},
    command_count: 0,
    bytes_in: 0,
    bytes_out: 0,
    error_count: 0,
    max_idle_time: input.max_idle_time ?? limits.workSessionIdleSeconds,
    max_lifetime: input.max_lifetime ?? limits.workSessionLifetimeSeconds,
    created_at: now,
    updated_at: now,
    version: 1,
  };
}

export function moveSession(session: WorkSession, to: SessionStatus, nowMs: number): WorkSession {
  checkSessionTransition(session.status, to);
  const now = isoTime(nowMs);
  return {
    ...session,
    status: to,
    started_at: to === 'active' ? (session.started_at ?? now) : session.started_at,
    ended_at: to === 'ended' ? now : session.ended_at,
    last_active: to === 'active' ? now : session.last_active,
    version: session.version + 1,
    updated_at: now,
  };
}

/** The fields of a patch other than the status, which goes through `moveSession`. */
export function changeSession(session: WorkSession, patch: SessionPatch, nowMs: number): WorkSession {
  const { status: _status, takeover: _takeover, ...fields } = patch;
  const now = isoTime(nowMs);
  return { ...session, ...given(fields), last_active: now, version: session.version + 1, updated_at: now };
}

/** The steps by which a session is ended from where it is. */
export function stepsToEnd(status: SessionStatus): readonly SessionStatus[] {
  if (status === 'ended') return [];
  if (status === 'pending') return ['error', 'ended'];
  return status === 'ending' || status === 'error' ? ['ended'] : ['ending', 'ended'];
}

/** Activity moves the clock of the idle limit, and neither version nor updated_at. */
export function activeNow(session: WorkSession, nowMs: number): WorkSession {
  return { ...session, last_active: isoTime(nowMs) };
}

/** The session after one of its tasks ended. */
export function afterTask(session: WorkSession, task: Task, nowMs: number): WorkSession {
  return {
    ...activeNow(session, nowMs),
    command_count: sum(session.command_count, 1),
    bytes_in: sum(session.bytes_in, task.bytes_in),
    bytes_out: sum(session.bytes_out, task.bytes_out),
    error_count: sum(session.error_count, task.status === 'failed' ? 1 : 0),
  };
}

/**
 * Counters stop at the largest integer that JSON carries. Callers may report any number, and a task must
 * still end.
 */
function sum(count: number, more: number): number {
  return Math.min(count + more, Number.MAX_SAFE_INTEGER);
}

/**
 * When a session must end and why, with its current times. Undefined if it has no limit or does not hold
 * the slot.
 */
export function sessionDeadline(
  session: WorkSession,
): { atMs: number; reason: 'idle' | 'lifetime' } | undefined {
  if (!holdsSlot(session.status)) return undefined;
  const idleAtMs =
    session.max_idle_time === 0 ? Infinity : Date.parse(session.last_active) + session.max_idle_time * 1_000;
  const startedMs = Date.parse(session.started_at ?? session.created_at);
  const lifetimeAtMs = session.max_lifetime === 0 ? Infinity : startedMs + session.max_lifetime * 1_000;
  if (idleAtMs === Infinity && lifetimeAtMs === Infinity) return undefined;
  return idleAtMs < lifetimeAtMs
    ? { atMs: idleAtMs, reason: 'idle' }
    : { atMs: lifetimeAtMs, reason: 'lifetime' };
}

export function slotTaken(holder: WorkSession): StoaError {
  return new StoaError('conflict', `The project already has an active session, ${holder.id}.`, {
    fix: 'End that session first, or send takeover: true, which ends it.',
    details: { holder: holder.id, holder_agent: holder.agent_id, holder_status: holder.status },
  });
}

/** Throws for a session that has ended or is ending. */
export function checkTakesTasks(session: WorkSession): void {
  if (session.status === 'pending' || holdsSlot(session.status)) return;
  throw new StoaError('conflict', `The session is ${session.status} and does not accept new tasks.`, {
    fix: 'Create another session.',
    details: { status: session.status },
  });
}
