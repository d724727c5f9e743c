/** Work that is too large for one transaction: purges, tasks with many dependants, and claims of lost agents. */
import { type TaskStatus, isOpen } from '../../../workspaces/model.js';
import { releaseRest } from './tasks/claims.js';
import { canComplete, hasDependants, settleDependants } from './tasks/dependants.js';
import type { WorkspacesWork } from './work.js';

export interface Mark {
  readonly owner_id: string;
  readonly kind: string;
  readonly name: string;
  readonly value: string;
}

/** Dependants that a purge step settles for each removed task. Later steps settle the rest. */
const dependantsEachMax = 10;

/** Does one step of the first work item that no other server has locked. Returns false if there is none. */
export async function bulkStep(work: WorkspacesWork): Promise<boolean> {
  const [mark] = await work.rows<Mark>(
    `SELECT owner_id, kind, name, value FROM workspaces.bulk_work
      ORDER BY owner_id, kind, name LIMIT 1 FOR UPDATE SKIP LOCKED`,
  );
  if (mark === undefined) return false;
  const isDone = await stepOf(mark.kind)(work, mark);
  if (isDone)
    work.send('DELETE FROM workspaces.bulk_work WHERE owner_id = $1 AND kind = $2 AND name = $3', [
      mark.owner_id,
      mark.kind,
      mark.name,
    ]);
  return true;
}

function stepOf(kind: string): (work: WorkspacesWork, mark: Mark) => Promise<boolean> {
  if (kind === 'dependants') return dependantsStep;
  return kind === 'release' ? releaseRest : purgeStep;
}

async function dependantsStep(
  work: WorkspacesWork,
  { owner_id: owner, name: taskId, value: outcome }: Mark,
): Promise<boolean> {
  // A task that was retried meanwhile can still be completed.
  if (outcome === 'never' && (await canComplete(work, owner, taskId))) return true;
  await settleDependants(
    work,
    owner,
    taskId,
    outcome === 'completed' ? 'completed' : 'never',
    work.limits.workspaceStepRowsMax,
  );
  return !(await hasDependants(work, owner, taskId));
}

/** Tasks first, then sessions, projects and the workspace: the foreign keys require this order. */
async function purgeStep(
  work: WorkspacesWork,
  { owner_id: owner, name: id, value: entity }: Mark,
): Promise<boolean> {
  const limit = work.limits.workspaceStepRowsMax;
  const projects =
    entity === 'workspace'
      ? '(SELECT id FROM workspaces.projects WHERE owner_id = $1 AND workspace_id = $2)'
      : '($2)';
  const remove = (
    table: string,
    column: string,
    of = '($2)',
  ): Promise<readonly { id: string; status: TaskStatus }[]> =>
    work.rows(
      `DELETE FROM workspaces.${table} WHERE owner_id = $1 AND id IN (
          SELECT id FROM workspaces.${table}
            WHERE owner_id = $1 AND ${column} IN ${of} ORDER BY id LIMIT ${limit})
        RETURNING id, status`,
      [owner, id],
    );
  const tasks = await remove('tasks', entity === 'session' ? 'session_id' : 'project_id', projects);
  // The project of a deleted session stays: its other tasks may depend on the removed ones.
  if (entity === 'session')
    for (const task of tasks)
      if (isOpen(task.status)) await settleDependants(work, owner, task.id, 'never', dependantsEachMax);
  if (tasks.length === limit) return false;
  const sessions = await remove('sessions', entity === 'session' ? 'id' : 'project_id', projects);
  if (entity === 'session') return true;
  if (sessions.length === limit) return false;
  if ((await remove('projects', entity === 'workspace' ? 'workspace_id' : 'id')).length === limit)
    return false;
  if (entity === 'workspace') await remove('workspaces', 'id');
  return true;
}
