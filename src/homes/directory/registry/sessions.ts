/** Sessions in the embedded store, and what opening and closing them does to their agent. */
import { StoaError } from '../../../core/errors.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import { sessionBytes } from '../../../registry/ids.js';
import {
  type SessionRecord,
  type StoredAgent,
  sessionStatusBytes,
  stateOf,
} from '../../../registry/model.js';
import type { WriteGuard } from '../../../registry/port.js';
import { stateForSession } from '../../../registry/transitions.js';
import type { AgentVerbs } from './agents.js';
import { sessionRecords } from './indexes.js';
import type { LeaseVerbs } from './leases.js';
import { readSession } from './rows.js';
import { limitError } from '../../../core/settings/exceeds.js';

export class SessionVerbs {
  readonly #limits: Limits;
  readonly #agents: AgentVerbs;
  readonly #leases: LeaseVerbs;

  constructor(limits: Limits, agents: AgentVerbs, leases: LeaseVerbs) {
    this.#limits = limits;
    this.#agents = agents;
    this.#leases = leases;
  }

  /** The session, or undefined where it does not exist or belongs to another user. */
  find(reader: Reader, user: Buffer | null, sessionId: string): SessionRecord | undefined {
    const session = readSession(reader, sessionBytes(sessionId));
    if (session === undefined || (user !== null && session.user_id !== user.toString('hex')))
      return undefined;
    return session;
  }

  open(
    tx: Transaction,
    user: Buffer | null,
    agentId: string,
    sessionId: string,
    guard: WriteGuard,
  ): SessionRecord {
    const agent = this.#agents.require(tx, user, agentId);
    this.#leases.checkFence(tx, agent, guard.fence);
    const status = stateForSession(stateOf(agent.record));
    this.#checkRoom(agent);
    if (readSession(tx, sessionBytes(sessionId)) !== undefined) throw sessionExists(sessionId);
    const session: SessionRecord = {
      session_id: sessionId,
      agent_id: agentId,
      user_id: agent.record.user_id,
      status: sessionStatusBytes.active,
      created_at: tx.nowMs,
      closed_at: null,
    };
    sessionRecords.put(tx, undefined, session);
    const busy = { ...agent, activeSessions: agent.activeSessions + 1 };
    this.#announce(tx, agent, 'session.opened', sessionId);
    if (status === null) {
      this.#agents.noteActivity(tx, busy);
      return session;
    }
    const woken = this.#agents.apply(tx, busy, { status }, { session: sessionId });
    // Programs that run agents listen for this change.
    if (status === 'provisioning') this.#announce(tx, woken, 'agent.wake_requested', sessionId);
    return session;
  }

  close(
    tx: Transaction,
    user: Buffer | null,
    agentId: string | null,
    sessionId: string,
    guard: WriteGuard,
  ): SessionRecord {
    const session = this.find(tx, user, sessionId);
    if (session === undefined || (agentId !== null && session.agent_id !== agentId))
      throw sessionNotFound(sessionId);
    const agent = this.#agents.require(tx, user, session.agent_id);
    this.#leases.checkFence(tx, agent, guard.fence);
    if (session.status === sessionStatusBytes.closed) return session;
    const closed: SessionRecord = { ...session, status: sessionStatusBytes.closed, closed_at: tx.nowMs };
    sessionRecords.put(tx, session, closed);
    this.#announce(tx, agent, 'session.closed', sessionId);
    const left = { ...agent, activeSessions: agent.activeSessions - 1 };
    if (left.activeSessions === 0 && stateOf(agent.record) === 'running')
      this.#agents.apply(tx, left, { status: 'idle' }, { session: sessionId });
    else this.#agents.noteActivity(tx, left);
    return closed;
  }

  #checkRoom(agent: StoredAgent): void {
    const { sessionsPerAgentMax } = this.#limits;
    if (sessionsPerAgentMax === 0 || agent.activeSessions < sessionsPerAgentMax) return;
    throw limitError('quota_exceeded', {
      subject: 'With this session the agent',
      unit: 'active sessions',
      limit: 'sessionsPerAgentMax',
      limits: this.#limits,
      received: agent.activeSessions + 1,
      advice: 'Close a session first',
      details: { active_sessions: agent.activeSessions, sessions_max: sessionsPerAgentMax },
    });
  }

  #announce(tx: Transaction, { record, meta }: StoredAgent, kind: string, session: string): void {
    const isOfAgent = kind.startsWith('agent.');
    tx.change({
      domain: 'registry',
      kind,
      id: isOfAgent ? record.agent_id : session,
      user: meta.user,
      version: isOfAgent ? meta.version : null,
      facts: isOfAgent ? { session } : { agent: record.agent_id },
    });
  }
}

export function sessionNotFound(sessionId: string): StoaError {
  return new StoaError('not_found', `There is no session ${sessionId}.`);
}

export function sessionExists(sessionId: string): StoaError {
  return new StoaError('already_exists', `A session with the id ${sessionId} exists already.`, {
    fix: 'Open a session with another id. A closed session cannot be opened again.',
  });
}
