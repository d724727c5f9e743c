/** Tasks in PostgreSQL: claimed with SKIP LOCKED, so that claimers never wait for each other. */
import { claimFailure } from '../../../workspaces/tasks/claim-failure.js';
import { versionFailure } from '../../../core/version-failure.js';
import { StoaError } from '../../../core/errors.js';
import { type Task, type TaskLease, isOpen } from '../../../workspaces/model.js';
import type { ClaimOutcome, Owner, Reporter } from '../../../workspaces/port.js';
import type { CompleteRequest, FailRequest, NewTask, TaskPatch } from '../../../workspaces/schemas.js';
import { checkTakesTasks } from '../../../workspaces/sessions.js';
import * as rules from '../../../workspaces/tasks/tasks.js';
import { checkVersion, notFound } from '../../../workspaces/workspaces.js';
import { type Queryable, query } from '../connection.js';
import { count } from './counters.js';
import { clockColumn } from '../database-clock.js';
import { deleteDependencies, insertDependencies, settleDependants } from './dependants.js';
import { findProject, workspaceOfProject } from './holders.js';
import {
  type Row,
  insertRecord,
  leaseColumns,
  leaseOf,
  putLease,
  recordOf,
  rowAt,
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

const columns = `${selected('t', taskTable)}, ${selected('s', sessionTable)}, ${leaseColumns}, t.project_id, t.owner_id`;
const above = `JOIN workspaces.sessions s ON s.owner_id = t.owner_id AND s.id = t.session_id
  JOIN workspaces.projects p ON p.owner_id = t.owner_id AND p.id = t.project_id ${workspaceOfProject}
  LEFT JOIN workspaces.leases l ON l.owner_id = t.owner_id AND l.task_id = t.id`;
const joined = `workspaces.tasks t ${above}`;

/** Leases end by the database's clock; there is no outage of a single server to add. */
export const endOf: rules.LeaseEnd = (lease) => lease.expiresAtMs;

export async function findTask(sql: Queryable, owner: Owner, id: string): Promise<TaskPath> {
  const [at, parameters] = rowAt('t', owner, id);
  const [row] = await query<Row>(
    sql,
    `SELECT ${columns} FROM ${joined} WHERE ${at} AND ${visible}`,
    parameters,
  );
  if (row === undefined) throw notFound('task', id);
  return pathOf(row);
}

/** Holds the task until the transaction ends, and reads the clock when it is held. */
async function lockTask(work: WorkspacesWork, owner: Owner, id: string): Promise<TaskPath> {
  const [at, parameters] = rowAt('t', owner, id);
  const [row] = await work.rows(
    `SELECT locked.*, ${clockColumn} FROM (SELECT ${columns} FROM ${joined} WHERE ${at} AND ${visible} FOR UPDATE OF t) locked`,
    parameters,
  );
  if (row === undefined) throw notFound('task', id);
  work.readClock(row);
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
  const { ownerId, projectId } = path;
  insertRecord(work, taskTable, ownerId, task, {
    project_id: projectId,
    blockers: waitsFor.length,
  });
  insertDependencies(work, ownerId, id, waitsFor);
  announce(work, 'created', task, path);
  if (waitsFor.length === 0) work.becameReady(projectId);
  count(work, ownerId, sessionId, { open: 1, isActivity: true });
  return task;
}

export async function updateTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  patch: TaskPatch,
  ifVersion: number | undefined,
): Promise<Task> {
  const path = await lockTask(work, owner, id);
  checkVersion(path.held.task, ifVersion);
  const task = rules.changeTask(path.held.task, patch, work.nowMs);
  updateRecord(work, taskTable, path.ownerId, task);
  announce(work, 'updated', task, path);
  return task;
}

export async function deleteTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  ifVersion: number | undefined,
): Promise<void> {
  const path = await lockTask(work, owner, id);
  const { ownerId } = path;
  const { task } = path.held;
  checkVersion(task, ifVersion);
  work.send('DELETE FROM workspaces.tasks WHERE owner_id = $1 AND id = $2', [ownerId, id]);
  announce(work, 'deleted', task, path);
  if (task.status !== 'completed')
    await settleDependants(work, ownerId, id, 'never', work.limits.workspaceStepRowsMax);
  if (isOpen(task.status)) count(work, ownerId, task.session_id, { open: -1 });
}

/** The first ready task that nobody else is claiming at this moment. */
export async function claimTask(
  work: WorkspacesWork,
  owner: Owner,
  projectId: string,
  holder: string,
  leaseSeconds: number,
): Promise<ClaimOutcome> {
  const ownerId = owner ?? (await findProject(work.sql, owner, projectId)).workspace.owner_id;
  const [row] = await work.rows(
    `SELECT ${columns}, ${clockColumn} FROM (
        SELECT t.id FROM workspaces.tasks t
        WHERE t.owner_id = $1 AND t.project_id = $2 AND t.status = 'pending' AND t.blockers = 0
          AND NOT EXISTS (SELECT 1 FROM workspaces.sessions s WHERE s.owner_id = t.owner_id AND s.id = t.session_id AND s.removed)
        ORDER BY t.priority DESC, t.created_at, t.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED
      ) first JOIN workspaces.tasks t ON t.owner_id = $1 AND t.id = first.id ${above} WHERE ${visible}`,
    [ownerId, projectId],
  );
  if (row === undefined) {
    // Nothing is ready, or there is nothing to claim from.
    await findProject(work.sql, ownerId, projectId);
    return 'none';
  }
  work.readClock(row);
  const path = pathOf(row);
  const after = rules.claimTask(path.held, holder, leaseSeconds, work.nowMs);
  updateRecord(work, taskTable, ownerId, after.task);
  putLease(work, ownerId, after.task.id, after.lease, path.held.lease);
  announce(work, 'claimed', after.task, path, { holder, fence: after.lease.fence });
  await wakeSession(work, path);
  showActivity(work, path);
  return { task: after.task, lease: rules.claimLease(after.lease) };
}

export async function heartbeatTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  fence: number,
  by: Reporter,
): Promise<TaskLease> {
  const path = await lockTask(work, owner, id);
  const lease = rules.renewLease(path.held, fence, work.nowMs, endOf, by);
  putLease(work, path.ownerId, id, lease, path.held.lease);
  showActivity(work, path);
  return lease;
}

export async function completeTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  input: CompleteRequest,
  by: Reporter,
): Promise<Task> {
  const path = await lockTask(work, owner, id);
  return endTask(work, path, rules.completeTask(path.held, input, work.nowMs, endOf, by));
}

export async function failTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  input: FailRequest,
  by: Reporter,
): Promise<Task> {
  const path = await lockTask(work, owner, id);
  return endTask(work, path, rules.failTask(path.held, input, work.nowMs, endOf, by));
}

export async function cancelTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  reason: string | undefined,
): Promise<Task> {
  const path = await lockTask(work, owner, id);
  return endTask(work, path, rules.cancelTask(path.held, reason, work.nowMs));
}

/** A check of a commit. Zero is the version of a task that does not exist. */
export async function requireTaskVersion(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  version: number,
): Promise<void> {
  const current = (await lockedTask(work, owner, id))?.held.task.version ?? 0;
  if (current !== version) throw versionFailure(`The task ${id}`, current, version);
}

/** A check of a commit: the fencing number holds the task. */
export async function requireClaim(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  fence: number,
): Promise<void> {
  const path = await lockedTask(work, owner, id);
  // The look that waited for the task has its lease from before the wait.
  const held = path && { task: path.held.task, lease: await lockedLease(work, path) };
  const failure = claimFailure(id, held, fence, work.nowMs, endOf);
  if (failure !== undefined) throw failure;
}

/** Returns the tasks whose leases have lapsed; answers how many. */
export async function returnLapsed(work: WorkspacesWork, limit: number): Promise<number> {
  const rows = await work.rows(
    `SELECT lapsed.*, ${clockColumn} FROM (SELECT ${columns} FROM ${joined}
      WHERE l.holder IS NOT NULL AND l.expires_at <= ${work.clockSql} AND t.status = 'running' ORDER BY l.expires_at LIMIT ${limit} FOR UPDATE OF t SKIP LOCKED) lapsed`,
  );
  work.readClock(rows.at(-1));
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
      `SELECT ${columns} FROM ${joined} WHERE t.owner_id = $2 AND t.claimed_by = $1 AND t.status = 'running' LIMIT ${work.limits.workspaceStepRowsMax} FOR UPDATE OF t`,
      [holder, ownerId],
    );
    for (const row of rows) {
      const path = pathOf(row);
      await endTask(work, path, rules.returnTask(path.held, rules.presenceLostReason(holder), work.nowMs));
    }
  }
}

/** Undefined for a task that does not exist, or is not the owner's. */
async function lockedTask(work: WorkspacesWork, owner: Owner, id: string): Promise<TaskPath | undefined> {
  try {
    return await lockTask(work, owner, id);
  } catch (error) {
    if (error instanceof StoaError && error.code === 'not_found') return undefined;
    throw error;
  }
}

async function lockedLease(
  work: WorkspacesWork,
  { ownerId, held }: TaskPath,
): Promise<TaskLease | undefined> {
  const [row] = await work.rows(
    `SELECT locked.*, ${clockColumn} FROM (SELECT ${leaseColumns} FROM workspaces.leases l WHERE l.owner_id = $1 AND l.task_id = $2 FOR SHARE) locked`,
    [ownerId, held.task.id],
  );
  work.readClock(row);
  return row && leaseOf(row);
}

/** Writes an end or a return with all that follows. Without `after` it was done before. */
async function endTask(
  work: WorkspacesWork,
  path: TaskPath,
  after: rules.HeldTask | undefined,
): Promise<Task> {
  const before = path.held.task;
  if (after === undefined) return before;
  const { ownerId } = path;
  const { task, lease } = after;
  const left = before.status === 'pending' && task.status !== 'pending';
  updateRecord(work, taskTable, ownerId, task, left ? { blockers: 0 } : {});
  if (left) deleteDependencies(work, ownerId, task.id);
  if (lease !== undefined) putLease(work, ownerId, task.id, lease, path.held.lease);
  const facts: Record<string, string> = { from: before.status };
  if (before.claimed_by !== null) facts['holder'] = before.claimed_by;
  announce(work, task.status === 'pending' ? 'returned' : task.status, task, path, facts);
  if (task.status === 'pending') work.becameReady(path.projectId);
  if (task.status === 'completed')
    await settleDependants(work, ownerId, task.id, 'completed', work.limits.workspaceStepRowsMax);
  if (rules.endsWithoutResult(task))
    await settleDependants(work, ownerId, task.id, 'never', work.limits.workspaceStepRowsMax);
  if (!isOpen(task.status))
    count(work, ownerId, task.session_id, {
      open: -1,
      ...(task.status !== 'cancelled' && { finished: task }),
    });
  return task;
}

function showActivity(work: WorkspacesWork, { ownerId, session }: SessionPath): void {
  const quietMs = work.nowMs - Date.parse(session.last_active);
  if (quietMs < work.limits.workSessionActivitySeconds * 1_000) return;
  work.send(
    'UPDATE workspaces.sessions SET last_active = GREATEST(last_active, $3) WHERE owner_id = $1 AND id = $2',
    [ownerId, session.id, timeText(work.nowMs)],
  );
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
      `SELECT t.status, t.project_id FROM workspaces.tasks t JOIN workspaces.sessions s ON s.owner_id = t.owner_id AND s.id = t.session_id
        WHERE t.owner_id = $1 AND t.id = $2 AND NOT s.removed FOR SHARE OF t`,
      [path.ownerId, id],
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
