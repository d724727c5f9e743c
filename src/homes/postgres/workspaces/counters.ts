/** Counters of tasks in their session and project. A workspace adds up its projects when it is read. */
import type { Task } from '../../../workspaces/model.js';
import type { WorkspacesWork } from './work.js';

interface CounterChange {
  /** Added to the number of open tasks. */
  open: number;
  /** The task, if it was completed or has failed. */
  finished?: Task;
  isActivity?: boolean;
}

/**
 * Updates both counters in one statement. Call it last in a transaction: many transactions need these row
 * locks. If the session was deleted in between, its open tasks are already subtracted from the project.
 */
export function updateCounters(
  work: WorkspacesWork,
  owner: string,
  sessionId: string,
  { open, finished, isActivity }: CounterChange,
): void {
  work.send(
    `WITH session AS (
        UPDATE workspaces.sessions SET open_tasks = open_tasks + $2,
          command_count = ${cappedSum('command_count', '$3')},
          error_count = ${cappedSum('error_count', '$4')},
          bytes_in = ${cappedSum('bytes_in', '$5')}, bytes_out = ${cappedSum('bytes_out', '$6')},
          last_active = CASE WHEN $7 THEN GREATEST(last_active, $8) ELSE last_active END
        WHERE owner_id = $9 AND id = $1 RETURNING project_id, removed)
      UPDATE workspaces.projects p SET open_tasks = p.open_tasks + $2 FROM session
        WHERE p.owner_id = $9 AND p.id = session.project_id AND NOT session.removed`,
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

/** Callers can report any number of bytes. The cap makes sure that the task can end anyway. */
function cappedSum(column: string, added: string): string {
  return `LEAST(${column} + ${added}, ${Number.MAX_SAFE_INTEGER})`;
}
