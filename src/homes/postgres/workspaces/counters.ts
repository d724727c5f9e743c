/** The counters that tasks move in their session, project and workspace. */
import type { Task } from '../../../workspaces/model.js';
import type { WorkspacesWork } from './work.js';

interface Count {
  open: number;
  /** A task that was completed or failed. */
  finished?: Task;
  isActivity?: boolean;
}

/**
 * The counters of session, project and workspace in one statement, last in the transaction: its locks are the busiest.
 * Who deleted the session meanwhile has taken all its open tasks off already.
 */
export function count(
  work: WorkspacesWork,
  owner: string,
  sessionId: string,
  { open, finished, isActivity }: Count,
): void {
  work.send(
    `WITH session AS (
        UPDATE workspaces.sessions SET open_tasks = open_tasks + $2, command_count = ${summed('command_count', '$3')}, error_count = ${summed('error_count', '$4')},
          bytes_in = ${summed('bytes_in', '$5')}, bytes_out = ${summed('bytes_out', '$6')}, last_active = CASE WHEN $7 THEN GREATEST(last_active, $8) ELSE last_active END
        WHERE owner_id = $9 AND id = $1 RETURNING project_id, removed),
      project AS (UPDATE workspaces.projects p SET open_tasks = p.open_tasks + $2 FROM session WHERE p.owner_id = $9 AND p.id = session.project_id AND NOT session.removed RETURNING p.workspace_id, p.deleted_at)
      UPDATE workspaces.workspaces w SET active_tasks = w.active_tasks + $2 FROM project WHERE w.owner_id = $9 AND w.id = project.workspace_id AND project.deleted_at IS NULL`,
    [
      sessionId,
      open,
      finished === undefined ? 0 : 1,
      finished?.status === 'failed' ? 1 : 0,
      finished?.bytes_in ?? 0,
      finished?.bytes_out ?? 0,
      finished !== undefined || isActivity === true,
      work.now,
      owner,
    ],
  );
}

/** Callers report what they like, and a task must end all the same. */
function summed(column: string, more: string): string {
  return `LEAST(${column} + ${more}, ${Number.MAX_SAFE_INTEGER})`;
}
