/**
 * Writes many new tasks of an import or a move in a few statements: one task at a time takes five round
 * trips.
 */
import type { TaskLine } from '../../../transfer/records/record-schemas.js';
import { isOpen } from '../../../workspaces/model.js';
import { updateCounters } from '../workspaces/counters.js';
import { insertDependencies } from '../workspaces/tasks/dependants.js';
import { insertRecord, putLease, taskTable } from '../workspaces/rows.js';
import type { WorkspacesWork } from '../workspaces/work.js';

interface Surroundings {
  /** The project of each existing session, by id and user. */
  readonly projects: ReadonlyMap<string, string>;
  /** The status of each task that a new one depends on, by id and user. */
  readonly unfinished: ReadonlySet<string>;
  readonly hasKnown: boolean;
}

/**
 * Returns false if a task exists already or its session is missing. `announce` reports each task to the feed.
 */
export async function addTasks(
  work: WorkspacesWork,
  lines: readonly TaskLine[],
  announce: (line: TaskLine, projectId: string) => void,
): Promise<boolean> {
  const { projects, unfinished, hasKnown } = await surroundingsOf(work, lines);
  if (hasKnown || lines.some((line) => !projects.has(keyOf(line.session_id, line.user)))) return false;
  const waitedFor = new Set(unfinished);
  const open = new Map<string, { line: TaskLine; tasks: number }>();
  for (const line of lines) {
    const { type: _type, user, lease, ...task } = line;
    const projectId = projects.get(keyOf(line.session_id, line.user)) ?? '';
    const waitsFor =
      task.status === 'pending' ? task.depends_on.filter((id) => waitedFor.has(keyOf(id, user))) : [];
    insertRecord(work, taskTable, user, task, { project_id: projectId, blockers: waitsFor.length });
    insertDependencies(work, user, task.id, waitsFor);
    if (lease !== null) putLease(work, user, task.id, lease, undefined);
    if (task.status !== 'completed') waitedFor.add(keyOf(task.id, user));
    if (isOpen(task.status))
      open.set(keyOf(line.session_id, line.user), {
        line,
        tasks: (open.get(keyOf(line.session_id, line.user))?.tasks ?? 0) + 1,
      });
    announce(line, projectId);
    if (task.status === 'pending' && task.run_at === null && waitsFor.length === 0)
      work.becameReady(projectId, task.labels);
  }
  for (const { line, tasks } of open.values())
    updateCounters(work, line.user, line.session_id, { open: tasks });
  return true;
}

async function surroundingsOf(work: WorkspacesWork, lines: readonly TaskLine[]): Promise<Surroundings> {
  const ids = new Set(lines.map(({ id }) => id));
  // Sorted, so that two imports lock the tasks in the same order and cannot deadlock. LATERAL with LIMIT
  // makes the planner use the index for each id, even if its statistics still describe an empty table.
  const others = [...new Set([...ids, ...lines.flatMap(({ depends_on }) => depends_on)])].toSorted();
  const [sessions, tasks] = await Promise.all([
    work.rows<{ owner_id: string; id: string; project_id: string }>(
      `SELECT s.owner_id, s.id, s.project_id FROM workspaces.sessions s
        JOIN workspaces.projects p ON p.owner_id = s.owner_id AND p.id = s.project_id AND NOT p.removed
        JOIN workspaces.workspaces w ON w.owner_id = p.owner_id AND w.id = p.workspace_id AND NOT w.removed
        WHERE s.owner_id = ANY($1::text[]) AND s.id = ANY($2::text[]) AND NOT s.removed`,
      [[...new Set(lines.map(({ user }) => user))], [...new Set(lines.map(({ session_id }) => session_id))]],
    ),
    work.rows<{ owner_id: string; id: string; status: string }>(
      `SELECT t.owner_id, t.id, t.status FROM unnest($1::text[]) AS given (id) CROSS JOIN LATERAL (
        SELECT owner_id, id, status FROM workspaces.tasks WHERE id = given.id LIMIT 1 FOR SHARE) t`,
      [others],
    ),
  ]);
  return {
    projects: new Map(sessions.map(({ owner_id, id, project_id }) => [keyOf(id, owner_id), project_id])),
    unfinished: new Set(
      tasks.filter(({ status }) => status !== 'completed').map(({ id, owner_id }) => keyOf(id, owner_id)),
    ),
    hasKnown: tasks.some(({ id }) => ids.has(id)),
  };
}

/** The key of an id and its user. Ids contain no line breaks. */
function keyOf(id: string, user: string): string {
  return `${id}\n${user}`;
}
