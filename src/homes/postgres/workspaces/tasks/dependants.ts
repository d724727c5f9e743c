/** Unblocks or cancels the tasks that depend on a task that has ended. */
import { blockedForever, cancelTask } from '../../../../workspaces/tasks/tasks.js';
import { updateCounters } from '../counters.js';
import { query } from '../../database/connection.js';
import { type OwnedRow, recordOf, selected, taskTable, textsOf, updateRecord } from '../rows.js';
import type { LoadAll } from '../../write/look-ups.js';
import { sendRow } from '../../write/merged-rows.js';
import { ready } from './rows.js';
import type { WorkspacesWork } from '../work.js';
import { taskBlocked, taskReady } from '../../../../workspaces/changes.js';

/** `completed` unblocks dependants. `never` cancels them: the task will not be completed. */
export type DependencyOutcome = 'completed' | 'never';

/**
 * Settles at most `rowsMax` dependants, including those of cancelled dependants. If some are left, a row of
 * bulk work is written for them.
 */
export async function settleDependants(
  work: WorkspacesWork,
  owner: string,
  taskId: string,
  outcome: DependencyOutcome,
  rowsMax: number,
): Promise<void> {
  const open = [{ taskId, outcome }];
  let left = rowsMax;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const rows = await work.rows<{ task_id: string }>(
      `DELETE FROM workspaces.task_dependencies WHERE owner_id = $1 AND depends_on = $2 AND task_id IN (
          SELECT task_id FROM workspaces.task_dependencies
            WHERE owner_id = $1 AND depends_on = $2 ORDER BY task_id LIMIT ${left})
        RETURNING task_id`,
      [owner, next.taskId],
    );
    for (const { task_id: id } of rows) {
      const cancelled =
        next.outcome === 'completed'
          ? await unblock(work, owner, id)
          : await cancelBlocked(work, owner, id, next.taskId);
      if (cancelled) open.push({ taskId: id, outcome: 'never' });
    }
    if (rows.length === left) await deferRest(work, owner, next.taskId, next.outcome);
    left -= rows.length;
  }
}

async function deferRest(
  work: WorkspacesWork,
  owner: string,
  taskId: string,
  outcome: DependencyOutcome,
): Promise<void> {
  if (await hasDependants(work, owner, taskId)) work.addBulkWork(owner, 'dependants', taskId, outcome);
}

/** Whether tasks depend on these. */
export const dependedOn: LoadAll<OwnedRow, boolean> = async (sql, keys) => {
  const rows = await query<{ place: string }>(
    sql,
    `SELECT given.place FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (owner_id, id, place)
      WHERE (SELECT true FROM workspaces.task_dependencies d
        WHERE d.owner_id = given.owner_id AND d.depends_on = given.id LIMIT 1)`,
    [keys.map(({ owner }) => owner), keys.map(({ id }) => id)],
  );
  const places = new Set(rows.map(({ place }) => Number(place)));
  return keys.map((_, index) => places.has(index + 1));
};

export async function hasDependants(work: WorkspacesWork, owner: string, taskId: string): Promise<boolean> {
  const found = await work.rows(
    'SELECT 1 FROM workspaces.task_dependencies WHERE owner_id = $1 AND depends_on = $2 LIMIT 1',
    [owner, taskId],
  );
  return found.length > 0;
}

/**
 * The task is not locked. A write that ends it after this read settles its dependants itself, or notes the rest of them
 * again: that note waits for the one whose step reads this.
 */
export async function canComplete(work: WorkspacesWork, owner: string, taskId: string): Promise<boolean> {
  const found = await work.rows(
    `SELECT 1 FROM workspaces.tasks
      WHERE owner_id = $1 AND id = $2 AND status NOT IN ('failed', 'cancelled')`,
    [owner, taskId],
  );
  return found.length > 0;
}

export function insertDependencies(
  work: WorkspacesWork,
  owner: string,
  taskId: string,
  dependsOn: readonly string[],
): void {
  for (const id of dependsOn)
    sendRow(
      work,
      (given) => `INSERT INTO workspaces.task_dependencies (owner_id, task_id, depends_on)
        SELECT given.owner_id, given.task_id, given.depends_on FROM ${given}`,
      { owner_id: owner, task_id: taskId, depends_on: id },
    );
}

export function deleteDependencies(work: WorkspacesWork, owner: string, taskId: string): void {
  work.send('DELETE FROM workspaces.task_dependencies WHERE owner_id = $1 AND task_id = $2', [owner, taskId]);
}

/** Removes one blocker. Always returns false, because it cancels nothing. */
async function unblock(work: WorkspacesWork, owner: string, id: string): Promise<boolean> {
  const [row] = await work.rows<{ ready: boolean; project_id: string; version: number; labels: string }>(
    `UPDATE workspaces.tasks t SET blockers = blockers - 1
      WHERE owner_id = $1 AND id = $2 AND status = 'pending' AND blockers > 0
      RETURNING ${ready} AS ready, project_id, version, labels`,
    [owner, id],
  );
  if (row?.ready === true) {
    work.announce(taskReady({ id, version: row.version }, { projectId: row.project_id, ownerId: owner }));
    work.becameReady(row.project_id, textsOf(row.labels));
  }
  return false;
}

async function cancelBlocked(
  work: WorkspacesWork,
  owner: string,
  id: string,
  dependency: string,
): Promise<boolean> {
  const [row] = await work.rows(
    `SELECT ${selected('t', taskTable)}, t.project_id FROM workspaces.tasks t
      JOIN workspaces.sessions s ON s.owner_id = t.owner_id AND s.id = t.session_id
      WHERE t.owner_id = $1 AND t.id = $2 AND t.status = 'pending' AND NOT s.removed FOR UPDATE OF t`,
    [owner, id],
  );
  if (row === undefined) return false;
  const after = cancelTask(
    { task: recordOf('t', taskTable, row), lease: undefined },
    blockedForever(dependency),
    work.nowMs,
  );
  if (after === undefined) return false;
  updateRecord(work, taskTable, owner, after.task, { more: { blockers: 0 } });
  deleteDependencies(work, owner, id);
  const place = { projectId: String(row['project_id']), ownerId: owner };
  work.announce(taskBlocked(after.task, place, dependency));
  updateCounters(work, owner, after.task.session_id, { open: -1 });
  return true;
}
