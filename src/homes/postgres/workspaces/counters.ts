/** Counters of tasks in their session and project. A workspace adds up its projects when it is read. */
import type { Task } from '../../../workspaces/model.js';
import type { SharedPart, Work } from '../write/work.js';
import type { WorkspacesWork } from './work.js';

interface CounterChange {
  /** Added to the number of open tasks. */
  open: number;
  /** The task, if it was completed or has failed. */
  finished?: Task;
  isActivity?: boolean;
}

interface Sums {
  readonly owner: string;
  readonly sessionId: string;
  open: number;
  finished: number;
  failed: number;
  bytesIn: number;
  bytesOut: number;
  activeAt: string | null;
}

/** Adds to the counters of a session and of its project. */
export function updateCounters(
  work: WorkspacesWork,
  owner: string,
  sessionId: string,
  change: CounterChange,
): void {
  work.share(makeSums, (sums) => sums.add(owner, sessionId, change, work.now));
}

const makeSums = (): CounterSums => new CounterSums();

/** The sums of one write, or of a group: one statement and one lock for each session and project. */
class CounterSums implements SharedPart {
  #sums = new Map<string, Sums>();

  add(owner: string, sessionId: string, { open, finished, isActivity }: CounterChange, now: string): void {
    const name = `${owner}\n${sessionId}`;
    const none = {
      owner,
      sessionId,
      open: 0,
      finished: 0,
      failed: 0,
      bytesIn: 0,
      bytesOut: 0,
      activeAt: null,
    };
    const sums = this.#sums.get(name) ?? none;
    this.#sums.set(name, sums);
    sums.open += open;
    if (finished !== undefined) sums.finished += 1;
    if (finished?.status === 'failed') sums.failed += 1;
    sums.bytesIn = capped(sums.bytesIn + (finished?.bytes_in ?? 0));
    sums.bytesOut = capped(sums.bytesOut + (finished?.bytes_out ?? 0));
    if ((finished !== undefined || isActivity === true) && now > (sums.activeAt ?? '')) sums.activeAt = now;
  }

  store(send: Work['send']): void {
    const sums = [...this.#sums.values()];
    this.#sums = new Map();
    if (sums.length === 0) return;
    const column = (of: (each: Sums) => string | number | null): string[] =>
      sums.map((each) => String(of(each) ?? '-infinity'));
    send(addSums, [
      column(({ owner }) => owner),
      column(({ sessionId }) => sessionId),
      column(({ open }) => open),
      column(({ finished }) => finished),
      column(({ failed }) => failed),
      column(({ bytesIn }) => bytesIn),
      column(({ bytesOut }) => bytesOut),
      column(({ activeAt }) => activeAt),
    ]);
  }
}

/**
 * Call it last in a transaction: many transactions need these row locks. They are taken in one order,
 * sessions before projects, so that two groups cannot deadlock. If a session was deleted in between, its open
 * tasks are already subtracted from the project.
 */
const addSums = `WITH given AS (
      SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
        $7::bigint[], $8::timestamptz[])
        AS sums (owner_id, id, open, finished, failed, bytes_in, bytes_out, active_at)),
    locked AS MATERIALIZED (
      SELECT given.* FROM given
        JOIN workspaces.sessions s ON s.owner_id = given.owner_id AND s.id = given.id
        ORDER BY s.owner_id, s.id FOR NO KEY UPDATE OF s),
    counted AS (
      UPDATE workspaces.sessions s SET open_tasks = s.open_tasks + locked.open,
          command_count = ${cappedSum('command_count', 'finished')},
          error_count = ${cappedSum('error_count', 'failed')},
          bytes_in = ${cappedSum('bytes_in', 'bytes_in')}, bytes_out = ${cappedSum('bytes_out', 'bytes_out')},
          last_active = GREATEST(s.last_active, locked.active_at)
        FROM locked WHERE s.owner_id = locked.owner_id AND s.id = locked.id
        RETURNING s.owner_id, s.project_id, s.removed, locked.open),
    moved AS (
      SELECT owner_id, project_id, sum(open) AS open FROM counted WHERE NOT removed
        GROUP BY owner_id, project_id HAVING sum(open) <> 0),
    locked_projects AS MATERIALIZED (
      SELECT moved.* FROM moved
        JOIN workspaces.projects p ON p.owner_id = moved.owner_id AND p.id = moved.project_id
        ORDER BY p.owner_id, p.id FOR NO KEY UPDATE OF p)
    UPDATE workspaces.projects p SET open_tasks = p.open_tasks + locked_projects.open FROM locked_projects
      WHERE p.owner_id = locked_projects.owner_id AND p.id = locked_projects.project_id`;

/** Callers can report any number of bytes. The cap makes sure that the task can end anyway. */
function cappedSum(column: string, added: string): string {
  return `LEAST(s.${column} + locked.${added}, ${Number.MAX_SAFE_INTEGER})`;
}

function capped(sum: number): number {
  return Math.min(sum, Number.MAX_SAFE_INTEGER);
}
