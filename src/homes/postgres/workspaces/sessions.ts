/** Work sessions in PostgreSQL. A unique index makes sure that a project has at most one active session. */
import { type SessionStatus, type WorkSession, holdsSlot } from '../../../workspaces/model.js';
import type { Owner } from '../../../workspaces/port.js';
import type { NewSession, SessionPatch } from '../../../workspaces/schemas.js';
import {
  changeSession,
  moveSession,
  newSession,
  sessionDeadline,
  slotTaken,
  stepsToEnd,
} from '../../../workspaces/rules/sessions.js';
import { checkVersion, notFound } from '../../../workspaces/rules/workspaces.js';
import { lockKeySql } from '../database/advisory-locks.js';
import { type Queryable, query } from '../database/connection.js';
import { clockColumn } from '../database/database-clock.js';
import { findProject, workspaceOfProject } from './project-verbs.js';
import {
  type Row,
  insertRecord,
  joinOne,
  loadRows,
  recordOf,
  rowAt,
  selected,
  sessionTable,
  updateRecord,
} from './rows.js';
import type { WorkspacesWork } from './work.js';
import { sessionChanged, sessionMoved } from '../../../workspaces/changes.js';

/** A session with the ids of its project and owner. */
export interface SessionPath {
  session: WorkSession;
  projectId: string;
  ownerId: string;
}

/** Joins the project and the workspace of a session `s`. */
export const sessionParents = `${joinOne('p', 'projects', 'owner_id = s.owner_id AND id = s.project_id')}
  ${workspaceOfProject}`;
const joined = `workspaces.sessions s ${sessionParents}`;
/** Excludes sessions that are deleted or being purged, or whose project or workspace is deleted. */
export const visible = 'NOT s.removed AND p.deleted_at IS NULL AND w.deleted_at IS NULL';

export async function findSession(
  sql: Queryable,
  owner: Owner,
  id: string,
  lock = false,
): Promise<SessionPath> {
  const [at, parameters] = rowAt('s', owner, id);
  const [row] = await query<Row>(
    sql,
    `SELECT ${selected('s', sessionTable)}, s.owner_id FROM ${joined}
      WHERE ${at} AND ${visible}${lock ? ' FOR UPDATE OF s' : ''}`,
    parameters,
  );
  if (row === undefined) throw notFound('session', id);
  return pathOf(row);
}

/** `findSession` for a write: those of a group share a statement. */
export async function lookUpSession(work: WorkspacesWork, owner: Owner, id: string): Promise<SessionPath> {
  if (owner === null) return findSession(work.sql, owner, id);
  const row = await work.lookUp(foundSessions, { owner, id });
  if (row === undefined) throw notFound('session', id);
  return pathOf(row);
}

const foundSessions = loadRows({
  table: 'sessions',
  alias: 's',
  columns: `${selected('s', sessionTable)}, s.owner_id`,
  joins: sessionParents,
  where: visible,
  isLocked: false,
});

export async function activeSession(
  sql: Queryable,
  owner: string,
  projectId: string,
  lock = false,
): Promise<WorkSession | null> {
  const [row] = await query<Row>(
    sql,
    `SELECT ${selected('s', sessionTable)} FROM workspaces.sessions s
      WHERE s.owner_id = $1 AND s.project_id = $2 AND s.status IN ('active', 'idle') AND NOT s.removed
      ${lock ? 'FOR UPDATE' : ''}`,
    [owner, projectId],
  );
  return row === undefined ? null : recordOf('s', sessionTable, row);
}

export async function createSession(
  work: WorkspacesWork,
  owner: Owner,
  projectId: string,
  id: string,
  input: NewSession,
): Promise<WorkSession> {
  const { workspace } = await findProject(work.sql, owner, projectId);
  const session = newSession(id, projectId, input, work.limits, work.nowMs);
  insertRecord(work, sessionTable, workspace.owner_id, session);
  const path = { session, projectId, ownerId: workspace.owner_id };
  work.announce(sessionChanged('created', path.session, path.ownerId));
  return input.status === 'active'
    ? moveTo(work, path, 'active', { takeover: input.takeover === true })
    : session;
}

export async function updateSession(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  patch: SessionPatch,
  ifVersion: number | undefined,
): Promise<WorkSession> {
  const path = await findSession(work.sql, owner, id, true);
  checkVersion(path.session, ifVersion);
  const { status, takeover, ...fields } = patch;
  if (status !== undefined) path.session = await moveTo(work, path, status, { takeover: takeover === true });
  if (Object.keys(fields).length === 0 && status !== undefined) return path.session;
  path.session = changeSession(path.session, fields, work.nowMs);
  updateRecord(work, sessionTable, path.ownerId, path.session);
  work.announce(sessionChanged('updated', path.session, path.ownerId));
  return path.session;
}

export async function deleteSession(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  ifVersion: number | undefined,
): Promise<void> {
  const path = await findSession(work.sql, owner, id, true);
  checkVersion(path.session, ifVersion);
  work.send(
    `WITH gone AS (
        UPDATE workspaces.sessions SET removed = true WHERE owner_id = $1 AND id = $2
        RETURNING project_id, open_tasks)
      UPDATE workspaces.projects p SET open_tasks = p.open_tasks - gone.open_tasks FROM gone
        WHERE p.owner_id = $1 AND p.id = gone.project_id`,
    [path.ownerId, id],
  );
  work.addBulkWork(path.ownerId, 'purge', id, 'session');
  work.announce(sessionChanged('deleted', path.session, path.ownerId));
}

/** Makes an idle session active again. */
export async function wakeSession(work: WorkspacesWork, path: SessionPath): Promise<void> {
  const { ownerId, session } = path;
  if (session.status !== 'idle') return;
  await work.once(`wake ${ownerId} ${session.id}`, async () => {
    // The session was read without a lock before, so it is read again.
    const fresh = await findSession(work.sql, ownerId, session.id, true);
    if (fresh.session.status === 'idle') await moveTo(work, fresh, 'active', {});
  });
}

/** Ends sessions that have reached `max_idle_time` or `max_lifetime`. Returns how many there were. */
export async function endDueSessions(work: WorkspacesWork, limit: number): Promise<number> {
  const rows = await work.rows(
    `SELECT due.*, ${clockColumn} FROM (SELECT ${selected('s', sessionTable)}, s.owner_id FROM ${joined}
      WHERE s.status IN ('active', 'idle') AND NOT s.removed AND (
        (s.max_idle_time > 0
          AND s.last_active + s.max_idle_time * interval '1 second' <= ${work.clockSql}) OR
        (s.max_lifetime > 0
          AND s.started_at + s.max_lifetime * interval '1 second' <= ${work.clockSql}))
      ORDER BY s.id LIMIT ${limit} FOR UPDATE OF s SKIP LOCKED) due`,
  );
  work.readClock(rows.at(-1));
  for (const row of rows) {
    const path = pathOf(row);
    const deadline = sessionDeadline(path.session);
    if (deadline !== undefined && deadline.atMs <= work.nowMs) await endSession(work, path, deadline.reason);
  }
  return rows.length;
}

async function endSession(work: WorkspacesWork, path: SessionPath, reason: string): Promise<void> {
  let { session } = path;
  for (const to of stepsToEnd(session.status))
    session = await moveTo(work, { ...path, session }, to, { reason });
}

async function moveTo(
  work: WorkspacesWork,
  path: SessionPath,
  to: SessionStatus,
  options: { takeover?: boolean; reason?: string },
): Promise<WorkSession> {
  const { session } = path;
  const after = moveSession(session, to, work.nowMs);
  if (holdsSlot(to) && !holdsSlot(session.status)) {
    // Only one session of a project can become active at a time.
    await work.rows(lockKeySql('activeSession'), [session.project_id]);
    const holder = await activeSession(work.sql, path.ownerId, session.project_id, true);
    if (holder !== null && options.takeover !== true) throw slotTaken(holder);
    if (holder !== null) await endSession(work, { ...path, session: holder }, 'takeover');
  }
  updateRecord(work, sessionTable, path.ownerId, after);
  work.announce(sessionMoved(session, after, path.ownerId, options.reason));
  return after;
}

function pathOf(row: Row): SessionPath {
  const session = recordOf('s', sessionTable, row);
  return { session, projectId: session.project_id, ownerId: String(row['owner_id']) };
}
