/** Tasks in PostgreSQL: create, change, delete, and the version check of a commit. */
import { versionFailure } from '../../../../core/errors.js';
import { type Task, isOpen } from '../../../../workspaces/model.js';
import type { Owner } from '../../../../workspaces/port.js';
import type { NewTask, TaskPatch } from '../../../../workspaces/schemas.js';
import { checkTakesTasks } from '../../../../workspaces/rules/sessions.js';
import { checkDependency, retryTask as retried } from '../../../../workspaces/tasks/retry.js';
import * as rules from '../../../../workspaces/tasks/tasks.js';
import { checkVersion, notFound } from '../../../../workspaces/rules/workspaces.js';
import { updateCounters } from '../counters.js';
import { insertDependencies, settleDependants } from './dependants.js';
import { insertRecord, taskTable, updateRecord } from '../rows.js';
import { type SessionPath, lookUpSession } from '../sessions.js';
import { lockTask, lockTaskIfExists } from './rows.js';
import type { WorkspacesWork } from '../work.js';
import { taskChanged } from '../../../../workspaces/changes.js';

export async function createTask(
  work: WorkspacesWork,
  owner: Owner,
  sessionId: string,
  id: string,
  input: NewTask,
): Promise<Task> {
  const path = await lookUpSession(work, owner, sessionId);
  checkTakesTasks(path.session);
  const task = rules.newTask(id, sessionId, input, work.limits, work.nowMs);
  const waitsFor = await unfinishedOf(work, path, task.depends_on, 'refused');
  const { ownerId, projectId } = path;
  insertRecord(work, taskTable, ownerId, task, {
    project_id: projectId,
    blockers: waitsFor.length,
  });
  insertDependencies(work, ownerId, id, waitsFor);
  work.announce(taskChanged('created', task, path));
  if (waitsFor.length === 0 && task.run_at === null) work.becameReady(projectId, task.labels);
  updateCounters(work, ownerId, sessionId, { open: 1, isActivity: true });
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
  updateRecord(work, taskTable, path.ownerId, task, { before: path.held.task });
  work.announce(taskChanged('updated', task, path));
  // Claims that wait for its new labels may take it. If it is still blocked, they find nothing.
  if (task.run_at === null) work.becameReady(path.projectId, task.labels);
  return task;
}

/** Returns a task that ended without a result to the queue, where it waits for its unfinished dependencies again. */
export async function retryTask(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  reason: string | undefined,
): Promise<Task> {
  const path = await lockTask(work, owner, id);
  const { task } = retried(path.held, reason, work.nowMs);
  checkTakesTasks(path.session);
  const waitsFor = await unfinishedOf(work, path, task.depends_on, 'completed');
  const { ownerId, projectId } = path;
  updateRecord(work, taskTable, ownerId, task, { more: { blockers: waitsFor.length } });
  insertDependencies(work, ownerId, id, waitsFor);
  work.announce(taskChanged('retried', task, path, rules.factsOf(path.held.task)));
  if (waitsFor.length === 0) work.becameReady(projectId, task.labels);
  updateCounters(work, ownerId, task.session_id, { open: 1, isActivity: true });
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
  work.announce(taskChanged('deleted', task, path));
  if (task.status !== 'completed')
    await settleDependants(work, ownerId, id, 'never', work.limits.workspaceStepRowsMax);
  if (isOpen(task.status)) updateCounters(work, ownerId, task.session_id, { open: -1 });
}

/** A check of a commit. A task that does not exist has version 0. */
export async function requireTaskVersion(
  work: WorkspacesWork,
  owner: Owner,
  id: string,
  version: number,
): Promise<void> {
  const current = (await lockTaskIfExists(work, owner, id))?.held.task.version ?? 0;
  if (current !== version) throw versionFailure(`The task ${id}`, current, version);
}

/**
 * The dependencies that are not finished. They are locked, so they cannot change until this transaction ends.
 * A new task cannot depend on a missing task; for a task that exists, a missing dependency was completed.
 */
async function unfinishedOf(
  work: WorkspacesWork,
  path: SessionPath,
  ids: readonly string[],
  missing: 'refused' | 'completed',
): Promise<string[]> {
  const unfinished: string[] = [];
  for (const id of ids.toSorted()) {
    const [row] = await work.rows<{ status: Task['status']; project_id: string }>(
      `SELECT t.status, t.project_id FROM workspaces.tasks t
        JOIN workspaces.sessions s ON s.owner_id = t.owner_id AND s.id = t.session_id
        WHERE t.owner_id = $1 AND t.id = $2 AND NOT s.removed FOR SHARE OF t`,
      [path.ownerId, id],
    );
    if (row === undefined && missing === 'completed') continue;
    if (row === undefined || row.project_id !== path.projectId) throw notFound('task', id);
    checkDependency(id, row);
    if (row.status !== 'completed') unfinished.push(id);
  }
  return unfinished;
}
