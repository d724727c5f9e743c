/** Tasks in PostgreSQL: claimed with SKIP LOCKED, so that claimers never wait for each other. */
import { claimFailure } from '../../../workspaces/claim-failure.js';
import { versionFailure } from '../../../core/version-failure.js';
import { StoaError } from '../../../core/errors.js';
import { type Task, type TaskLease, isOpen } from '../../../workspaces/model.js';
import type { ClaimOutcome, Owner, Reporter } from '../../../workspaces/port.js';
import type { CompleteRequest, FailRequest, NewTask, TaskPatch } from '../../../workspaces/schemas.js';
import { checkTakesTasks } from '../../../workspaces/sessions.js';
import * as rules from '../../../workspaces/tasks.js';
import { checkVersion, notFound } from '../../../workspaces/workspaces.js';
import { type Queryable, query } from '../connection.js';
import { count } from './counters.js';
import { settleDependants } from './dependants.js';
import { findProject } from './holders.js';
import {
  type Row,
  insertRecord,
  leaseColumns,
  leaseOf,
  putLease,
  recordOf,
  selected,
  sessionTable,
  taskTable,
  timeText,
  updateRecord,
} from './rows.js';
import { type SessionPath, findSession, visible, wakeSession } from './sessions.js';
import type { WorkspacesWork } from './work.js';

export interface TaskPath extends SessionPath {
  held: rules.HeldTask;
}

const columns = `${selected('t', taskTable)}, ${selected('s', sessionTable)}, ${leaseColumns}, t.project_id, w.owner_id`;
const joined = `workspaces.tasks t JOIN workspaces.sessions s ON s.id = t.session_id JOIN workspaces.projects p ON p.id = t.project_id
  JOIN workspaces.workspaces w ON w.id = p.workspace_id LEFT JOIN workspaces.leases l ON l.task_id = t.id`;

/** Leases end by the database's clock; there is no outage of a single server to add. */
export const endOf: rules.LeaseEnd = (lease) => lease.expiresAtMs;

export async function findTask(sql: Queryable, owner: Owner, id: string, lock = false): Promise<TaskPath> {
  const [row] = await query<Row>(
    sql,
    `SELECT ${columns} FROM ${joined} WHERE t.id = $1 AND ${visible}${lock ? ' FOR UPDATE OF t' : ''}`,
    [id],
  );
  if (row === undefined || (owner !== null && row['owner_id'] !== owner)) throw notFound('task', id);
  return pathOf(row);
}

export async function createTask(
  work: WorkspacesWork,
  owner: Owner,
  sessionId: string,
  id: string,
  input: NewTask,
): Promise<Task> {
  const path = await findSession(work.sql, owner, sessionId);
  checkTakesTasks(path.session);
  const task = rules.newTask(id, sessionId, input, work.limits, work.nowMs);
  const waitsFor = await unfinishedOf(work, path, task.depends_on);
  await insertRecord(work.sql, taskTable, task, { project_id: path.projectId, blockers: waitsFor.length });
  for (const dependency of waitsFor)
    await work.rows('INSERT INTO workspaces.task_dependencies (task_id, depends_on) VALUES ($1, $2)', [
      id,
      dependency,
    ]);
  announce(work, 'created', task, path);
  if (waitsFor.length === 0) work.becameReady(path.projectId);
  await count(work, sessionId, { open: 1, isActivity: true });
  return task;
}

export async function updateTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  patch: TaskPatch,
  ifVersion: number | undefined,
): Promise<Task> {
  const path = await findTask(work.sql, owner, id, true);
  checkVersion(path.held.task, ifVersion);
  const task = rules.changeTask(path.held.task, patch, work.nowMs);
  await updateRecord(work.sql, taskTable, task);
  announce(work, 'updated', task, path);
  return task;
}

export async function deleteTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  ifVersion: number | undefined,
): Promise<void> {
  const path = await findTask(work.sql, owner, id, true);
  const { task } = path.held;
  checkVersion(task, ifVersion);
  await work.rows('DELETE FROM workspaces.tasks WHERE id = $1', [id]);
  announce(work, 'deleted', task, path);
  if (task.status !== 'completed')
    await settleDependants(work, id, 'never', work.limits.workspaceStepRowsMax);
  if (isOpen(task.status)) await count(work, task.session_id, { open: -1 });
}

/** The first ready task that nobody else is claiming at this moment. */
export async function claimTask(
  work: WorkspacesWork,
  owner: Owner,
  projectId: string,
  holder: string,
  leaseSeconds: number,
): Promise<ClaimOutcome> {
  await findProject(work.sql, owner, projectId);
  const [row] = await work.rows(
    `SELECT ${columns} FROM (
        SELECT t.id FROM workspaces.tasks t
        WHERE t.project_id = $1 AND t.status = 'pending' AND t.blockers = 0 AND NOT EXISTS (SELECT 1 FROM workspaces.sessions s WHERE s.id = t.session_id AND s.removed)
        ORDER BY t.priority DESC, t.created_at, t.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED
      ) first JOIN ${joined.replace('workspaces.tasks t', 'workspaces.tasks t ON t.id = first.id')}`,
    [projectId],
  );
  if (row === undefined) return 'none';
  const path = pathOf(row);
  const after = rules.claimTask(path.held, holder, leaseSeconds, work.nowMs);
  await updateRecord(work.sql, taskTable, after.task);
  await putLease(work.sql, after.task.id, after.lease, path.held.lease);
  announce(work, 'claimed', after.task, path, { holder, fence: after.lease.fence });
  await wakeSession(work, path);
  await showActivity(work, path);
  return { task: after.task, lease: rules.claimLease(after.lease) };
}

export async function heartbeatTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  fence: number,
  by: Reporter,
): Promise<TaskLease> {
  const path = await findTask(work.sql, owner, id, true);
  const lease = rules.renewLease(path.held, fence, work.nowMs, endOf, by);
  await putLease(work.sql, id, lease, path.held.lease);
  await showActivity(work, path);
  return lease;
}

export async function completeTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  input: CompleteRequest,
  by: Reporter,
): Promise<Task> {
  const path = await findTask(work.sql, owner, id, true);
  return endTask(work, path, rules.completeTask(path.held, input, work.nowMs, endOf, by));
}

export async function failTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  input: FailRequest,
  by: Reporter,
): Promise<Task> {
  const path = await findTask(work.sql, owner, id, true);
  return endTask(work, path, rules.failTask(path.held, input, work.nowMs, endOf, by));
}

export async function cancelTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  reason: string | undefined,
): Promise<Task> {
  const path = await findTask(work.sql, owner, id, true);
  return endTask(work, path, rules.cancelTask(path.held, reason, work.nowMs));
}

/** A check of a commit. Zero is the version of a task that does not exist. */
export async function requireTaskVersion(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  version: number,
): Promise<void> {
  const current = (await lockedTask(work, owner, id))?.task.version ?? 0;
  if (current !== version) throw versionFailure(`The task ${id}`, current, version);
}

/** A check of a commit: the fencing number holds the task. */
export async function requireClaim(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  fence: number,
): Promise<void> {
  const failure = claimFailure(id, await lockedTask(work, owner, id), fence, work.nowMs, endOf);
  if (failure !== undefined) throw failure;
}

/** Returns the tasks whose leases have lapsed; answers how many. */
export async function returnLapsed(work: WorkspacesWork, limit: number): Promise<number> {
  const rows = await work.rows(
    `SELECT ${columns} FROM ${joined} WHERE l.holder IS NOT NULL AND l.expires_at <= $1 AND t.status = 'running' ORDER BY l.expires_at LIMIT ${limit} FOR UPDATE OF t SKIP LOCKED`,
    [work.now],
  );
  for (const row of rows) {
    const path = pathOf(row);
    const { lease } = path.held;
    if (lease !== undefined && lease.holder !== null && lease.expiresAtMs <= work.nowMs)
      await endTask(work, path, rules.returnTask(path.held, rules.lapsedReason(lease), work.nowMs));
  }
  return rows.length;
}

/** Takes back what an agent had claimed, under its id or its name. */
export async function releaseClaims(
  work: WorkspacesWork,
  ownerId: string,
  holders: readonly string[],
): Promise<void> {
  for (const holder of holders) {
    const rows = await work.rows(
      `SELECT ${columns} FROM ${joined} WHERE t.status = 'running' AND t.claimed_by = $1 AND w.owner_id = $2 LIMIT ${work.limits.workspaceStepRowsMax} FOR UPDATE OF t`,
      [holder, ownerId],
    );
    for (const row of rows) {
      const path = pathOf(row);
      await endTask(work, path, rules.returnTask(path.held, rules.presenceLostReason(holder), work.nowMs));
    }
  }
}

/** Undefined for a task that does not exist, or is not the owner's. */
async function lockedTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
): Promise<rules.HeldTask | undefined> {
  try {
    return (await findTask(work.sql, owner, id, true)).held;
  } catch (error) {
    if (error instanceof StoaError && error.code === 'not_found') return undefined;
    throw error;
  }
}

/** Writes an end or a return with all that follows. Without `after` it was done before. */
async function endTask(
  work: WorkspacesWork,
  path: TaskPath,
  after: rules.HeldTask | undefined,
): Promise<Task> {
  const before = path.held.task;
  if (after === undefined) return before;
  const { task, lease } = after;
  const left = before.status === 'pending' && task.status !== 'pending';
  await updateRecord(work.sql, taskTable, task, left ? { blockers: 0 } : {});
  if (left) await work.rows('DELETE FROM workspaces.task_dependencies WHERE task_id = $1', [task.id]);
  if (lease !== undefined) await putLease(work.sql, task.id, lease, path.held.lease);
  const facts: Record<string, string> = { from: before.status };
  if (before.claimed_by !== null) facts['holder'] = before.claimed_by;
  announce(work, task.status === 'pending' ? 'returned' : task.status, task, path, facts);
  if (task.status === 'pending') work.becameReady(path.projectId);
  if (task.status === 'completed')
    await settleDependants(work, task.id, 'completed', work.limits.workspaceStepRowsMax);
  if (rules.endsWithoutResult(task))
    await settleDependants(work, task.id, 'never', work.limits.workspaceStepRowsMax);
  if (!isOpen(task.status))
    await count(work, task.session_id, { open: -1, ...(task.status !== 'cancelled' && { finished: task }) });
  return task;
}

async function showActivity(work: WorkspacesWork, { session }: SessionPath): Promise<void> {
  const quietMs = work.nowMs - Date.parse(session.last_active);
  if (quietMs < work.limits.workSessionActivitySeconds * 1_000) return;
  await work.rows('UPDATE workspaces.sessions SET last_active = GREATEST(last_active, $2) WHERE id = $1', [
    session.id,
    timeText(work.nowMs),
  ]);
}

/** Which of the dependencies are unfinished. They stay as they are until this transaction ends. */
async function unfinishedOf(
  work: WorkspacesWork,
  path: SessionPath,
  ids: readonly string[],
): Promise<string[]> {
  const unfinished: string[] = [];
  for (const id of ids.toSorted()) {
    const [row] = await work.rows<{ status: Task['status']; project_id: string }>(
      'SELECT t.status, t.project_id FROM workspaces.tasks t JOIN workspaces.sessions s ON s.id = t.session_id WHERE t.id = $1 AND NOT s.removed FOR SHARE OF t',
      [id],
    );
    if (row === undefined || row.project_id !== path.projectId) throw notFound('task', id);
    if (row.status === 'failed' || row.status === 'cancelled') {
      throw new StoaError('conflict', `${id} is ${row.status}, so nothing can depend on it.`, {
        details: { depends_on: id, status: row.status },
      });
    }
    if (row.status !== 'completed') unfinished.push(id);
  }
  return unfinished;
}

function pathOf(row: Row): TaskPath {
  return {
    held: { task: recordOf('t', taskTable, row), lease: leaseOf(row) },
    session: recordOf('s', sessionTable, row),
    projectId: String(row['project_id']),
    ownerId: String(row['owner_id']),
  };
}

function announce(
  work: WorkspacesWork,
  event: string,
  task: Task,
  path: SessionPath,
  facts: Record<string, string | number> = {},
): void {
  work.change({
    kind: `task.${event}`,
    id: task.id,
    user: path.ownerId,
    version: event === 'deleted' ? null : task.version,
    facts: { project: path.projectId, session: task.session_id, ...facts },
  });
}
