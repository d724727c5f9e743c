/** Reads and writes workspaces, projects, sessions and tasks in PostgreSQL as lines of an export. */
import type { Sealer } from '../../../secrets/sealer.js';
import {
  leaving,
  ofAnotherUser,
  orphan,
  recordNameTaken,
  slotTaken,
} from '../../../transfer/import/conflicts.js';
import type {
  ProjectLine,
  TaskLine,
  WorkSessionLine,
  WorkspaceLine,
} from '../../../transfer/records/record-schemas.js';
import type { Conflict } from '../../../transfer/model.js';
import type { ExportScope, RecordPage, RecordStore } from '../../../transfer/port.js';
import {
  projectEssence,
  projectLine,
  projectOf,
  sessionLine,
  taskLine,
  workspaceLine,
  workspaceOf,
} from '../../../transfer/records/workspace-lines.js';
import { type Task, holdsSlot, isOpen } from '../../../workspaces/model.js';
import { satisfies } from '../../../workspaces/tasks/tasks.js';
import { type Parameter, type PostgresSql, type Queryable, query } from '../database/connection.js';
import { addTasks } from './new-tasks.js';
import { type TableAccess, TableRecords } from './records.js';
import { updateCounters } from '../workspaces/counters.js';
import { deleteDependencies, insertDependencies } from '../workspaces/tasks/dependants.js';
import { idOfName } from '../workspaces/names.js';
import { workspaceOfProject } from '../workspaces/project-verbs.js';
import {
  type Row,
  type Table,
  leaseColumns,
  leaseOf,
  projectTable,
  putLease,
  putRecord,
  recordOf,
  selected,
  sessionTable,
  taskTable,
  workspaceTable,
} from '../workspaces/rows.js';
import { activeSession } from '../workspaces/sessions.js';
import type { WorkspacesWork } from '../workspaces/work.js';
import { recordImported } from '../../../workspaces/changes.js';

/** Reads run on the pool or in a transaction of workspaces. */
interface Reads {
  readonly sql: Queryable;
  rows<Found extends object = Row>(
    text: string,
    parameters?: readonly Parameter[],
  ): Promise<readonly Found[]>;
}

export interface WorkspacesRecordsOptions {
  sql: PostgresSql;
  sealer: Sealer;
  transact: <T>(body: (work: WorkspacesWork) => Promise<T>) => Promise<T>;
  /** Creates the user of a first workspace. */
  ensureUser: (work: WorkspacesWork, user: string) => Promise<void>;
}

const sessionsAbove = `JOIN workspaces.projects p
    ON p.owner_id = s.owner_id AND p.id = s.project_id AND NOT p.removed
  ${workspaceOfProject} AND NOT w.removed`;

/** Records that are being removed are left out. */
const tables = {
  w: 'workspaces.workspaces w',
  p: `workspaces.projects p ${workspaceOfProject} AND NOT w.removed`,
  s: `workspaces.sessions s ${sessionsAbove}`,
  t: `workspaces.tasks t
    JOIN workspaces.sessions s ON s.owner_id = t.owner_id AND s.id = t.session_id AND NOT s.removed
    ${sessionsAbove}
    LEFT JOIN workspaces.leases l ON l.owner_id = t.owner_id AND l.task_id = t.id`,
};
const live = { w: 'NOT w.removed', p: 'NOT p.removed', s: 'NOT s.removed', t: 'TRUE' };

type Access = TableAccess<Reads, WorkspacesWork>;

export function workspacesRecords(options: WorkspacesRecordsOptions): [type: string, store: RecordStore][] {
  const { sql, transact } = options;
  const access: Access = {
    reader: { sql, rows: (text, parameters) => query(sql, text, parameters) },
    transact,
  };
  return [
    ['workspaces.workspace', workspaceLines(access, options)],
    ['workspaces.project', projectLines(access, options)],
    ['workspaces.session', sessionLines(access)],
    ['workspaces.task', taskLines(access)],
  ];
}

function workspaceLines(
  access: Access,
  { sealer, ensureUser }: WorkspacesRecordsOptions,
): TableRecords<WorkspaceLine, Reads, WorkspacesWork> {
  return new TableRecords<WorkspaceLine, Reads, WorkspacesWork>(access, {
    page: (scope, after, limit) =>
      page(access.reader, 'w', selected('w', workspaceTable), scope, after, limit, (row) =>
        workspaceLine(recordOf('w', workspaceTable, row), scope.withSecrets ? sealer : null),
      ),
    stored: async (on, { id }) => {
      const found = await find(on, 'w', workspaceTable, id);
      return found === undefined ? undefined : workspaceLine(found.record, null);
    },
    essence: ({ claude_key: _claude_key, ...rest }) => rest,
    obstacle: async (on, { user, id, name, deleted_at }) => {
      const [existing] = await on.rows<{ owner_id: string; removed: boolean }>(
        'SELECT owner_id, removed FROM workspaces.workspaces WHERE id = $1',
        [id],
      );
      if (existing?.removed === true) return leaving('workspace', id);
      if (existing !== undefined && existing.owner_id !== user) return ofAnotherUser(id);
      return nameObstacle(on, { owner: user, workspaceId: null, name, id }, deleted_at);
    },
    put: async (work, line) => {
      const before = await find(work, 'w', workspaceTable, line.id);
      const after = workspaceOf(line, before?.record, sealer);
      await ensureUser(work, line.user);
      putRecord(work, before !== undefined, workspaceTable, line.user, after);
      work.announce(recordImported('workspace', line));
    },
  });
}

function projectLines(
  access: Access,
  { sealer }: WorkspacesRecordsOptions,
): TableRecords<ProjectLine, Reads, WorkspacesWork> {
  return new TableRecords<ProjectLine, Reads, WorkspacesWork>(access, {
    page: (scope, after, limit) =>
      page(access.reader, 'p', selected('p', projectTable), scope, after, limit, (row) =>
        projectLine(recordOf('p', projectTable, row), ownerIn(row), scope.withSecrets ? sealer : null),
      ),
    stored: async (on, { id }) => {
      const found = await find(on, 'p', projectTable, id);
      return found === undefined ? undefined : projectLine(found.record, found.user, null);
    },
    essence: (line) => projectEssence(line, sealer),
    obstacle: async (on, { user, id, workspace_id, name, deleted_at }, coming) => {
      if (coming?.references !== true && (await find(on, 'w', workspaceTable, workspace_id))?.user !== user)
        return orphan(`The workspace ${workspace_id}`);
      if (await isLeaving(on, 'projects', id)) return leaving('project', id);
      return nameObstacle(on, { owner: user, workspaceId: workspace_id, name, id }, deleted_at);
    },
    put: (work, line) => putProject(work, line, sealer),
  });
}

function sessionLines(access: Access): TableRecords<WorkSessionLine, Reads, WorkspacesWork> {
  return new TableRecords<WorkSessionLine, Reads, WorkspacesWork>(access, {
    page: (scope, after, limit) =>
      page(access.reader, 's', selected('s', sessionTable), scope, after, limit, (row) =>
        sessionLine(recordOf('s', sessionTable, row), ownerIn(row)),
      ),
    stored: async (on, { id }) => {
      const found = await find(on, 's', sessionTable, id);
      return found === undefined ? undefined : sessionLine(found.record, found.user);
    },
    obstacle: async (on, { user, id, project_id, status }, coming) => {
      if (coming?.references !== true && (await find(on, 'p', projectTable, project_id))?.user !== user)
        return orphan(`The project ${project_id}`);
      if (await isLeaving(on, 'sessions', id)) return leaving('session', id);
      const holder = holdsSlot(status) ? await activeSession(on.sql, user, project_id) : null;
      return holder === null || holder.id === id ? null : slotTaken(holder.id);
    },
    put: async (work, line) => {
      const { type: _type, user: _user, ...session } = line;
      const before = await find(work, 's', sessionTable, line.id);
      putRecord(work, before !== undefined, sessionTable, line.user, session);
      work.announce(recordImported('session', line, { project: line.project_id }));
    },
  });
}

function taskLines(access: Access): TableRecords<TaskLine, Reads, WorkspacesWork> {
  return new TableRecords<TaskLine, Reads, WorkspacesWork>(access, {
    page: (scope, after, limit) =>
      page(access.reader, 't', `${selected('t', taskTable)}, ${leaseColumns}`, scope, after, limit, (row) =>
        taskLine(recordOf('t', taskTable, row), ownerIn(row), leaseOf(row)),
      ),
    stored: async (on, { id }) => {
      const found = await find(on, 't', taskTable, id, `, ${leaseColumns}`);
      return found === undefined ? undefined : taskLine(found.record, found.user, leaseOf(found.row));
    },
    essence: ({ lease: _lease, ...rest }) => rest,
    obstacle: async (on, { user, session_id }, coming) =>
      coming?.references === true || (await find(on, 's', sessionTable, session_id))?.user === user
        ? null
        : orphan(`The session ${session_id}`),
    addAll: (work, lines) =>
      addTasks(work, lines, (line, project) =>
        work.announce(recordImported('task', line, { project, session: line.session_id })),
      ),
    put: putTask,
  });
}

async function page<Line>(
  reader: Reads,
  alias: keyof typeof tables,
  columns: string,
  { user }: ExportScope,
  after: string | null,
  limit: number,
  lineOf: (row: Row) => Line,
): Promise<RecordPage<Line & { type: string }>> {
  const rows = await reader.rows(
    `SELECT ${columns}, ${alias}.owner_id FROM ${tables[alias]} WHERE ${live[alias]}
      AND ${alias}.id > $1${user === null ? '' : ` AND ${alias}.owner_id = $2`}
      ORDER BY ${alias}.id LIMIT ${limit}`,
    [after ?? '', ...(user === null ? [] : [user])],
  );
  // Each line has the type of its kind of record.
  const records = rows.map(lineOf) as (Line & { type: string })[];
  return { records, after: rows.length < limit ? null : String(rows.at(-1)?.[`${alias}_id`]) };
}

interface Found<Item> {
  record: Item;
  user: string;
  row: Row;
}

async function find<Item>(
  on: Reads,
  alias: keyof typeof tables,
  table: Table<Item>,
  id: string,
  more = '',
): Promise<Found<Item> | undefined> {
  const [row] = await on.rows(
    `SELECT ${selected(alias, table)}, ${alias}.owner_id${more} FROM ${tables[alias]} WHERE ${live[alias]}
      AND ${alias}.id = $1`,
    [id],
  );
  return row === undefined ? undefined : { record: recordOf(alias, table, row), user: ownerIn(row), row };
}

function ownerIn(row: Row): string {
  return String(row['owner_id']);
}

async function isLeaving(on: Reads, table: 'projects' | 'sessions', id: string): Promise<boolean> {
  return (await on.rows(`SELECT 1 FROM workspaces.${table} WHERE id = $1 AND removed`, [id])).length > 0;
}

async function nameObstacle(
  on: Reads,
  named: Parameters<typeof idOfName>[1],
  deletedAt: string | null,
): Promise<Conflict | null> {
  if (deletedAt !== null) return null;
  const holder = await idOfName(on, named);
  const entity = named.workspaceId === null ? 'workspace' : 'project';
  return holder === undefined ? null : recordNameTaken(entity, named.name, holder);
}

async function putProject(work: WorkspacesWork, line: ProjectLine, sealer: Sealer): Promise<void> {
  const before = await find(work, 'p', projectTable, line.id);
  const after = projectOf(line, before?.record, sealer);
  putRecord(work, before !== undefined, projectTable, line.user, after);
  work.announce(recordImported('project', line, { workspace: line.workspace_id }));
}

async function putTask(work: WorkspacesWork, line: TaskLine): Promise<void> {
  const { type: _type, user, lease, ...task } = line;
  const session = await find(work, 's', sessionTable, task.session_id);
  if (session === undefined) return;
  const before = await find(work, 't', taskTable, task.id, `, ${leaseColumns}`);
  const waitsFor = task.status === 'pending' ? await unfinishedOf(work, user, task) : [];
  const more = { project_id: session.record.project_id, blockers: waitsFor.length };
  deleteDependencies(work, user, task.id);
  putRecord(work, before !== undefined, taskTable, user, task, more);
  insertDependencies(work, user, task.id, waitsFor);
  // A fencing number that this home gave out must never be given out again.
  const leaseBefore = before === undefined ? undefined : leaseOf(before.row);
  if (lease !== null)
    putLease(
      work,
      user,
      task.id,
      { ...lease, fence: Math.max(lease.fence, leaseBefore?.fence ?? 0) },
      leaseBefore,
    );
  if (before !== undefined && isOpen(before.record.status))
    updateCounters(work, user, before.record.session_id, { open: -1 });
  if (isOpen(task.status)) updateCounters(work, user, task.session_id, { open: 1 });
  work.announce(
    recordImported('task', line, { project: session.record.project_id, session: line.session_id }),
  );
  if (task.status === 'pending' && task.run_at === null && waitsFor.length === 0)
    work.becameReady(session.record.project_id, task.labels);
}

async function unfinishedOf(
  work: WorkspacesWork,
  owner: string,
  task: Pick<Task, 'depends_on'>,
): Promise<string[]> {
  const rows = await work.rows(
    `SELECT ${selected('t', taskTable)} FROM workspaces.tasks t WHERE t.owner_id = $1
      AND t.id = ANY($2::text[]) ORDER BY t.id FOR SHARE`,
    [owner, task.depends_on],
  );
  return rows
    .map((row) => recordOf('t', taskTable, row))
    .filter((dependency) => !satisfies(dependency))
    .map(({ id }) => id);
}
