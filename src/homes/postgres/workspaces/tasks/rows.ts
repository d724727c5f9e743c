/** Reads of tasks with their session, project and lease, with or without a lock. */
import { StoaError } from '../../../../core/errors.js';
import { type TaskLease, heldStatuses } from '../../../../workspaces/model.js';
import type { Owner } from '../../../../workspaces/port.js';
import type * as rules from '../../../../workspaces/tasks/tasks.js';
import { notFound } from '../../../../workspaces/rules/workspaces.js';
import { type Queryable, query } from '../../database/connection.js';
import { clockColumn } from '../../database/database-clock.js';
import {
  type Row,
  joinOne,
  leaseColumns,
  leaseOf,
  loadRows,
  recordOf,
  rowAt,
  selected,
  sessionTable,
  taskTable,
} from '../rows.js';
import { type SessionPath, sessionParents, visible } from '../sessions.js';
import type { RowName } from '../../write/step.js';
import type { WorkspacesWork } from '../work.js';

/** A task with its lease and the records above it. */
export interface TaskPath extends SessionPath {
  held: rules.HeldTask;
}

export const taskColumns = `${selected('t', taskTable)}, ${selected('s', sessionTable)}, ${leaseColumns},
  t.project_id, t.owner_id`;
/** A task `t` that can be claimed. The index tasks_ready has the same condition. */
export const ready = `t.status = 'pending' AND t.blockers = 0 AND t.run_at IS NULL`;
/** A task `t` that an agent holds. The index tasks_claimed has the same condition. */
export const held = `t.status IN (${heldStatuses.map((status) => `'${status}'`).join(', ')})`;
const sessionOfTask = joinOne('s', 'sessions', 'owner_id = t.owner_id AND id = t.session_id');
const leaseOfTask = joinOne('l', 'leases', 'owner_id = t.owner_id AND task_id = t.id', 'LEFT JOIN');
/** Joins the session, project and workspace of a task `t`. */
const taskPlace = `${sessionOfTask} ${sessionParents}`;
/** The same, and its lease. */
export const taskParents = `${taskPlace} ${leaseOfTask}`;
export const joinedTasks = `workspaces.tasks t ${taskParents}`;

/**
 * Leases expire by the database's clock. Outages of a server do not extend them: other servers can renew
 * them.
 */
export const endOf: rules.LeaseEnd = (lease) => lease.expiresAtMs;

export function taskRow(id: string): RowName {
  return { table: 'tasks', key: id };
}

export async function findTask(sql: Queryable, owner: Owner, id: string): Promise<TaskPath> {
  const [at, parameters] = rowAt('t', owner, id);
  const [row] = await query<Row>(
    sql,
    `SELECT ${taskColumns} FROM ${joinedTasks} WHERE ${at} AND ${visible}`,
    parameters,
  );
  if (row === undefined) throw notFound('task', id);
  return taskPathOf(row);
}

/** Locks the task until the transaction ends, and reads the clock after the lock is held. */
export async function lockTask(work: WorkspacesWork, owner: Owner, id: string): Promise<TaskPath> {
  const row = owner === null ? await lockOfAnyOwner(work, id) : await work.lookUp(lockedTasks, { owner, id });
  if (row === undefined) throw notFound('task', id);
  work.readClock(row);
  const path = taskPathOf(row);
  // Its first claim was committed while this waited for the lock, and the lease is from before.
  if (path.held.lease === undefined && heldStatuses.includes(path.held.task.status))
    path.held = { ...path.held, lease: await lockLease(work, path) };
  return path;
}

const lockedTasks = loadRows({
  table: 'tasks',
  alias: 't',
  columns: taskColumns,
  joins: taskParents,
  where: visible,
  isLocked: true,
});

async function lockOfAnyOwner(work: WorkspacesWork, id: string): Promise<Row | undefined> {
  const [row] = await work.rows(
    `SELECT locked.*, ${clockColumn} FROM (
        SELECT ${taskColumns} FROM ${joinedTasks} WHERE t.id = $1 AND ${visible} FOR UPDATE OF t) locked`,
    [id],
  );
  return row;
}

/** `lockTask`, but undefined if the task does not exist or belongs to another owner. */
export async function lockTaskIfExists(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
): Promise<TaskPath | undefined> {
  try {
    return await lockTask(work, owner, id);
  } catch (error) {
    if (error instanceof StoaError && error.code === 'not_found') return undefined;
    throw error;
  }
}

/**
 * Reads the lease again under a lock. `lockTask` may have waited for the task, and then its lease is from
 * before the wait.
 */
export async function lockLease(
  work: WorkspacesWork,
  { ownerId, held }: TaskPath,
): Promise<TaskLease | undefined> {
  const [row] = await work.rows(
    `SELECT locked.*, ${clockColumn} FROM (
        SELECT ${leaseColumns} FROM workspaces.leases l
        WHERE l.owner_id = $1 AND l.task_id = $2 FOR SHARE) locked`,
    [ownerId, held.task.id],
  );
  work.readClock(row);
  return row && leaseOf(row);
}

export function taskPathOf(row: Row): TaskPath {
  return {
    held: { task: recordOf('t', taskTable, row), lease: leaseOf(row) },
    session: recordOf('s', sessionTable, row),
    projectId: String(row['project_id']),
    ownerId: String(row['owner_id']),
  };
}
