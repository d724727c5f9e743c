/** Sessions in the data directory, and what opening and closing them does to their agent. */
import type { Reader, Transaction } from '../kernel/transaction.js';
import { sessionBytes } from '../../../registry/ids.js';
import type { SessionRecord } from '../../../registry/model.js';
import type { WriteGuard } from '../../../registry/port.js';
import { sessionExists, sessionNotFound } from '../../../registry/refusals.js';
import type { AgentVerbs } from './agents.js';
import { sessionRecords } from './indexes.js';
import type { LeaseVerbs } from './leases.js';
import { readSession } from './rows.js';

export class SessionVerbs {
  readonly #agents: AgentVerbs;
  readonly #leases: LeaseVerbs;

  constructor(agents: AgentVerbs, leases: LeaseVerbs) {
    this.#agents = agents;
    this.#leases = leases;
  }

  /** The session, or undefined if it does not exist or belongs to another user. */
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
    const session = this.#agents.open(tx, agent, sessionId);
    if (readSession(tx, sessionBytes(sessionId)) !== undefined) throw sessionExists(sessionId);
    sessionRecords.put(tx, undefined, session);
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
    const closed = this.#agents.close(tx, agent, session);
    if (closed === null) return session;
    sessionRecords.put(tx, session, closed);
    return closed;
  }
}
