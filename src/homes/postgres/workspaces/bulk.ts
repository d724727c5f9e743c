/** Work too large for one transaction in PostgreSQL: purges and long lines of dependants. */
import { resealKind } from './reseal.js';
import { settleDependants } from './dependants.js';
import type { WorkspacesWork } from './work.js';

/** One step of whatever is marked and no other server is at; false when there is nothing. */
export async function bulkStep(work: WorkspacesWork): Promise<boolean> {
  const [mark] = await work.rows<{ kind: string; name: string; value: string }>(
    'SELECT kind, name, value FROM workspaces.bulk_work WHERE kind <> $1 ORDER BY kind, name LIMIT 1 FOR UPDATE SKIP LOCKED',
    [resealKind],
  );
  if (mark === undefined) return false;
  const isDone =
    mark.kind === 'dependants'
      ? await dependantsStep(work, mark.name, mark.value)
      : await purgeStep(work, mark.value, mark.name);
  if (isDone)
    await work.rows('DELETE FROM workspaces.bulk_work WHERE kind = $1 AND name = $2', [mark.kind, mark.name]);
  return true;
}

async function dependantsStep(work: WorkspacesWork, taskId: string, outcome: string): Promise<boolean> {
  await settleDependants(
    work,
    taskId,
    outcome === 'completed' ? 'completed' : 'never',
    work.limits.workspaceStepRowsMax,
  );
  const rest = await work.rows('SELECT 1 FROM workspaces.task_dependencies WHERE depends_on = $1 LIMIT 1', [
    taskId,
  ]);
  return rest.length === 0;
}

/** Tasks first, then what held them: foreign keys allow no other order. */
async function purgeStep(work: WorkspacesWork, entity: string, id: string): Promise<boolean> {
  const limit = work.limits.workspaceStepRowsMax;
  const column = entity === 'session' ? 'session_id' : 'project_id';
  const parents =
    entity === 'workspace' ? '(SELECT id FROM workspaces.projects WHERE workspace_id = $1)' : '($1)';
  const tasks = await work.rows<{ id: string; status: string }>(
    `DELETE FROM workspaces.tasks WHERE id IN (SELECT id FROM workspaces.tasks WHERE ${column} IN ${parents} ORDER BY id LIMIT ${limit}) RETURNING id, status`,
    [id],
  );
  // Of a deleted session the project lives on: its other tasks may depend on those that go.
  if (entity === 'session')
    for (const task of tasks)
      if (task.status === 'pending' || task.status === 'running')
        await settleDependants(work, task.id, 'never', dependantsEachMax);
  if (tasks.length === limit) return false;
  if (entity === 'session') {
    await work.rows('DELETE FROM workspaces.sessions WHERE id = $1', [id]);
    return true;
  }
  const sessions = await work.rows(
    `DELETE FROM workspaces.sessions WHERE id IN (SELECT id FROM workspaces.sessions WHERE project_id IN ${parents} LIMIT ${limit}) RETURNING id`,
    [id],
  );
  if (sessions.length === limit) return false;
  const projects = await work.rows(
    `DELETE FROM workspaces.projects WHERE id IN (SELECT id FROM workspaces.projects WHERE ${entity === 'workspace' ? 'workspace_id' : 'id'} = $1 LIMIT ${limit}) RETURNING id`,
    [id],
  );
  if (projects.length === limit) return false;
  if (entity === 'workspace') await work.rows('DELETE FROM workspaces.workspaces WHERE id = $1', [id]);
  return true;
}

/** Each removed task settles this many dependants in the step; the rest follows in steps of their own. */
const dependantsEachMax = 10;
