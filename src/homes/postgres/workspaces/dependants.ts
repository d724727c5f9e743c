/** What follows in PostgreSQL for the tasks that depend on one that has ended. */
import { blockedForever, cancelTask } from '../../../workspaces/tasks.js';
import { count } from './counters.js';
import { recordOf, selected, taskTable, updateRecord } from './rows.js';
import type { WorkspacesWork } from './work.js';

/** `completed` lets dependants go on; `never` ends them. */
export type DependencyOutcome = 'completed' | 'never';

/** Settles at most `rowsMax` dependants, and theirs in turn where they are cancelled; a mark is left for the rest. */
export async function settleDependants(
  work: WorkspacesWork,
  taskId: string,
  outcome: DependencyOutcome,
  rowsMax: number,
): Promise<void> {
  const open = [{ taskId, outcome }];
  let left = rowsMax;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const rows = await work.rows<{ task_id: string }>(
      `DELETE FROM workspaces.task_dependencies WHERE (depends_on, task_id) IN
        (SELECT depends_on, task_id FROM workspaces.task_dependencies WHERE depends_on = $1 ORDER BY task_id LIMIT ${left}) RETURNING task_id`,
      [next.taskId],
    );
    for (const { task_id: id } of rows) {
      const cancelled =
        next.outcome === 'completed' ? await unblock(work, id) : await cancelBlocked(work, id, next.taskId);
      if (cancelled) open.push({ taskId: id, outcome: 'never' });
    }
    if (rows.length === left) await markRest(work, next.taskId, next.outcome);
    left -= rows.length;
  }
}

async function markRest(work: WorkspacesWork, taskId: string, outcome: DependencyOutcome): Promise<void> {
  const rest = await work.rows('SELECT 1 FROM workspaces.task_dependencies WHERE depends_on = $1 LIMIT 1', [
    taskId,
  ]);
  if (rest.length > 0) await work.markBulk('dependants', taskId, outcome);
}

/** One thing less to wait for. Never cancels. */
async function unblock(work: WorkspacesWork, id: string): Promise<boolean> {
  const [row] = await work.rows<{ blockers: number; project_id: string; version: number; owner_id: string }>(
    `UPDATE workspaces.tasks t SET blockers = t.blockers - 1 FROM workspaces.projects p, workspaces.workspaces w
      WHERE t.id = $1 AND t.status = 'pending' AND t.blockers > 0 AND p.id = t.project_id AND w.id = p.workspace_id RETURNING t.blockers, t.project_id, t.version, w.owner_id`,
    [id],
  );
  if (row?.blockers === 0) {
    work.change({
      kind: 'task.ready',
      id,
      user: row.owner_id,
      version: row.version,
      facts: { project: row.project_id },
    });
    work.becameReady(row.project_id);
  }
  return false;
}

async function cancelBlocked(work: WorkspacesWork, id: string, dependency: string): Promise<boolean> {
  const [row] = await work.rows(
    `SELECT ${selected('t', taskTable)}, t.project_id, w.owner_id FROM workspaces.tasks t JOIN workspaces.sessions s ON s.id = t.session_id
      JOIN workspaces.projects p ON p.id = t.project_id JOIN workspaces.workspaces w ON w.id = p.workspace_id
      WHERE t.id = $1 AND t.status = 'pending' AND NOT s.removed FOR UPDATE OF t`,
    [id],
  );
  if (row === undefined) return false;
  const after = cancelTask(
    { task: recordOf('t', taskTable, row), lease: undefined },
    blockedForever(dependency),
    work.nowMs,
  );
  if (after === undefined) return false;
  await updateRecord(work.sql, taskTable, after.task, { blockers: 0 });
  await work.rows('DELETE FROM workspaces.task_dependencies WHERE task_id = $1', [id]);
  const project = String(row['project_id']);
  work.change({
    kind: 'task.cancelled',
    id,
    user: String(row['owner_id']),
    version: after.task.version,
    facts: { from: 'pending', to: 'cancelled', project, dependency },
  });
  await count(work, after.task.session_id, { open: -1 });
  return true;
}
