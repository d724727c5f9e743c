/** Work too large for one transaction in PostgreSQL: purges, long lines of dependants, re-keying. */
import type { Sealer } from '../../secrets/sealer.js';
import { resealConfig } from '../../workspaces/config-secrets.js';
import type { JsonObject } from '../../workspaces/model.js';
import { settleDependants } from './workspaces-dependants.js';
import type { Row } from './workspaces-rows.js';
import type { Work } from './workspaces-work.js';

/** One step of whatever is marked and no other server is at; false when there is nothing. */
export async function bulkStep(work: Work): Promise<boolean> {
  const [mark] = await work.rows<{ kind: string; name: string; value: string }>('SELECT kind, name, value FROM workspaces.bulk_work ORDER BY kind, name LIMIT 1 FOR UPDATE SKIP LOCKED');
  if (mark === undefined) return false;
  const isDone = mark.kind === 'dependants' ? await dependantsStep(work, mark.name, mark.value) : await purgeStep(work, mark.value, mark.name);
  if (isDone) await work.rows('DELETE FROM workspaces.bulk_work WHERE kind = $1 AND name = $2', [mark.kind, mark.name]);
  return true;
}

async function dependantsStep(work: Work, taskId: string, outcome: string): Promise<boolean> {
  await settleDependants(work, taskId, outcome === 'completed' ? 'completed' : 'never', work.limits.workspaceStepRowsMax);
  const rest = await work.rows('SELECT 1 FROM workspaces.task_dependencies WHERE depends_on = $1 LIMIT 1', [taskId]);
  return rest.length === 0;
}

/** Tasks first, then what held them: foreign keys allow no other order. */
async function purgeStep(work: Work, entity: string, id: string): Promise<boolean> {
  const limit = work.limits.workspaceStepRowsMax;
  const column = entity === 'session' ? 'session_id' : 'project_id';
  const parents = entity === 'workspace' ? '(SELECT id FROM workspaces.projects WHERE workspace_id = $1)' : '($1)';
  const tasks = await work.rows<{ id: string; status: string }>(
    `DELETE FROM workspaces.tasks WHERE id IN (SELECT id FROM workspaces.tasks WHERE ${column} IN ${parents} ORDER BY id LIMIT ${limit}) RETURNING id, status`,
    [id],
  );
  // Of a deleted session the project lives on: its other tasks may depend on those that go.
  if (entity === 'session') for (const task of tasks) if (task.status === 'pending' || task.status === 'running') await settleDependants(work, task.id, 'never', dependantsEachMax);
  if (tasks.length === limit) return false;
  if (entity === 'session') {
    await work.rows('DELETE FROM workspaces.sessions WHERE id = $1', [id]);
    return true;
  }
  const sessions = await work.rows(`DELETE FROM workspaces.sessions WHERE id IN (SELECT id FROM workspaces.sessions WHERE project_id IN ${parents} LIMIT ${limit}) RETURNING id`, [id]);
  if (sessions.length === limit) return false;
  const projects = await work.rows(`DELETE FROM workspaces.projects WHERE id IN (SELECT id FROM workspaces.projects WHERE ${entity === 'workspace' ? 'workspace_id' : 'id'} = $1 LIMIT ${limit}) RETURNING id`, [id]);
  if (projects.length === limit) return false;
  if (entity === 'workspace') await work.rows('DELETE FROM workspaces.workspaces WHERE id = $1', [id]);
  return true;
}

/** Each removed task settles this many dependants in the step; the rest follows in steps of their own. */
const dependantsEachMax = 10;

/** Re-encrypts a page of one table after `after`. Answers where it ended, or null at the end. */
export async function resealStep(work: Work, sealer: Sealer, table: 'workspaces' | 'projects', after: string): Promise<{ last: string | null; resealed: number }> {
  const column = table === 'workspaces' ? 'claude_key' : 'config';
  const limit = work.limits.workspaceStepRowsMax;
  const rows = await work.rows<Row>(`SELECT id, ${column} AS sealed FROM workspaces.${table} WHERE id > $1 ORDER BY id LIMIT ${limit} FOR UPDATE`, [after]);
  let resealed = 0;
  for (const row of rows) {
    const id = String(row['id']);
    const fresh = table === 'workspaces' ? resealedKey(row['sealed'], id, sealer) : resealedConfig(row['sealed'], id, sealer);
    if (fresh === undefined) continue;
    await work.rows(`UPDATE workspaces.${table} SET ${column} = $2 WHERE id = $1`, [id, fresh]);
    resealed += 1;
  }
  return { last: rows.length < limit ? null : String(rows.at(-1)?.['id']), resealed };
}

function resealedKey(sealed: unknown, id: string, sealer: Sealer): string | undefined {
  return typeof sealed === 'string' && sealer.isStale(sealed) ? sealer.reseal(sealed, id) : undefined;
}

function resealedConfig(stored: unknown, id: string, sealer: Sealer): string | undefined {
  // The column holds the config that a project was written with, as text.
  const config = JSON.parse(String(stored)) as JsonObject;
  const fresh = resealConfig(config, id, sealer);
  return fresh === config ? undefined : JSON.stringify(fresh);
}
