/** Sessions of agents in PostgreSQL. Opening and closing a session can also change the state of its agent. */
import { closed, opened } from '../../../registry/lifecycle/lifecycle.js';
import { type SessionRecord, type SessionStatus, sessionStatusBytes } from '../../../registry/model.js';
import type { KeyedPage, KeyedPageRequest, WriteGuard } from '../../../registry/port.js';
import { sessionBytes, sessionIdOf } from '../../../registry/ids.js';
import { sessionExists, sessionNotFound } from '../../../registry/refusals.js';
import { type Queryable, query } from '../database/connection.js';
import { guarded } from './agents.js';
import { type Row, sessionColumns, sessionOf, time } from './rows.js';
import type { RegistryWork } from './work.js';

const oneSession = `SELECT ${sessionColumns} FROM registry.sessions
  WHERE session_id = $1 AND user_id = coalesce($2, (SELECT user_id FROM registry.owners WHERE id = $1))`;

export async function findSession(
  sql: Queryable,
  userId: string | null,
  sessionId: string,
): Promise<SessionRecord | undefined> {
  const [row] = await query<Row>(sql, oneSession, [sessionId, userId]);
  return row === undefined ? undefined : sessionOf(row);
}

export async function openSession(
  work: RegistryWork,
  userId: string | null,
  agentId: string,
  sessionId: string,
  { fence }: WriteGuard,
): Promise<SessionRecord> {
  const agent = await guarded(work, userId, agentId, { fence });
  const outcome = opened(agent, sessionId, work.times);
  if (!(await work.addOwner(sessionId, agent.record.user_id))) throw sessionExists(sessionId);
  await insertSession(work, outcome.session);
  await work.store(agent, outcome);
  return outcome.session;
}

export async function insertSession(work: RegistryWork, session: SessionRecord): Promise<void> {
  const { user_id, agent_id, session_id, status, created_at, closed_at } = session;
  await work.rows(
    `INSERT INTO registry.sessions (user_id, agent_id, session_id, status, created_at, closed_at)
      VALUES ($1, $2, $3, $4, $5, $6)`,
    [user_id, agent_id, session_id, status, time(created_at), time(closed_at)],
  );
}

export async function closeSession(
  work: RegistryWork,
  userId: string | null,
  agentId: string | null,
  sessionId: string,
  { fence }: WriteGuard,
): Promise<SessionRecord> {
  const read = async (): Promise<SessionRecord> => {
    const [row] = await work.rows(oneSession, [sessionId, userId]);
    const session = row === undefined ? undefined : sessionOf(row);
    if (session === undefined || (agentId !== null && session.agent_id !== agentId))
      throw sessionNotFound(sessionId);
    return session;
  };
  const agent = await guarded(work, userId, (await read()).agent_id, { fence });
  // Sessions change only while their agent is locked, so the session is read again under the lock.
  const session = await read();
  const outcome = closed(agent, session, work.times);
  if (outcome === null) return session;
  await work.rows(
    `UPDATE registry.sessions SET status = $4, closed_at = $5
      WHERE user_id = $1 AND agent_id = $2 AND session_id = $3`,
    [session.user_id, session.agent_id, sessionId, outcome.session.status, time(outcome.session.closed_at)],
  );
  await work.store(agent, outcome);
  return outcome.session;
}

/** A page of the agent's sessions, ordered by id. */
export async function listSessions(
  sql: Queryable,
  owner: { userId: string; agentId: string },
  status: SessionStatus | undefined,
  { after, limit }: KeyedPageRequest,
): Promise<KeyedPage<SessionRecord>> {
  const withStatus = status === undefined ? '' : `AND status = ${sessionStatusBytes[status]}`;
  const rows = await query<Row>(
    sql,
    `SELECT ${sessionColumns} FROM registry.sessions
      WHERE user_id = $1 AND agent_id = $2 AND session_id > $3 ${withStatus} ORDER BY session_id LIMIT $4`,
    [owner.userId, owner.agentId, after === null ? '' : sessionIdOf(Buffer.from(after, 'hex')), limit + 1],
  );
  const items = rows.slice(0, limit).map(sessionOf);
  const last = rows.length > limit ? items.at(-1) : undefined;
  return { items, nextKey: last === undefined ? null : sessionBytes(last.session_id).toString('hex') };
}
