/** Lists of workspaces, projects, sessions and tasks in PostgreSQL, in pages. */
import { invalidCursor } from '../../../core/paging.js';
import type {
  Project,
  SessionStatus,
  Task,
  TaskStatus,
  WorkSession,
  Workspace,
} from '../../../workspaces/model.js';
import { firstPage } from '../../../workspaces/lists/page-room.js';
import type { ListRequest, Listed, NamedListRequest, Owner, PageSize } from '../../../workspaces/port.js';
import { type Parameter, type Queryable, query } from '../database/connection.js';
import {
  type Row,
  type Table,
  projectTable,
  recordOf,
  selected,
  sessionTable,
  taskTable,
  workspaceTable,
  joinOne,
} from './rows.js';
import { ready } from './tasks/rows.js';

type Condition = readonly [sql: string, value: Parameter | undefined];

export function listWorkspaces(
  sql: Queryable,
  owner: Owner,
  request: NamedListRequest,
): Promise<Listed<Workspace>> {
  return list(
    sql,
    workspaceTable,
    request,
    [['owner_id =', owner ?? undefined], ...namedConditions('project_path', request)],
    deletedCondition(request),
  );
}

export function listProjects(
  sql: Queryable,
  owner: string,
  workspaceId: string,
  request: NamedListRequest,
): Promise<Listed<Project>> {
  return list(
    sql,
    projectTable,
    request,
    [['owner_id =', owner], ['workspace_id =', workspaceId], ...namedConditions('path', request)],
    deletedCondition(request),
  );
}

export function listSessions(
  sql: Queryable,
  owner: string,
  projectId: string,
  request: ListRequest<SessionStatus>,
): Promise<Listed<WorkSession>> {
  return list(
    sql,
    sessionTable,
    request,
    [
      ['owner_id =', owner],
      ['project_id =', projectId],
      ['status =', request.status],
    ],
    'NOT r.removed',
  );
}

export function listSessionTasks(
  sql: Queryable,
  owner: string,
  sessionId: string,
  request: ListRequest<TaskStatus>,
): Promise<Listed<Task>> {
  return list(
    sql,
    taskTable,
    request,
    [
      ['owner_id =', owner],
      ['session_id =', sessionId],
      ['status =', request.status],
    ],
    'true',
  );
}

/**
 * Ready tasks in the order in which they would be claimed. The cursor is an offset: claims change this order
 * between pages, so a position in it would not be more exact.
 */
export async function listReady(
  sql: Queryable,
  owner: string,
  projectId: string,
  after: string | null,
  limit: number,
): Promise<Listed<Task>> {
  const skipped = Number(after ?? 0);
  if (!Number.isSafeInteger(skipped) || skipped < 0) throw invalidCursor();
  const rows = await query<Row>(
    sql,
    `SELECT ${selected('t', taskTable)} FROM workspaces.tasks t
      ${joinOne('s', 'sessions', 'owner_id = t.owner_id AND id = t.session_id')}
      WHERE t.owner_id = $3 AND t.project_id = $1 AND ${ready} AND NOT s.removed
      ORDER BY t.priority DESC, t.created_at, t.id LIMIT ${limit + 1} OFFSET $2`,
    [projectId, skipped, owner],
  );
  const items = rows.slice(0, limit).map((row) => recordOf('t', taskTable, row));
  return { items, next: rows.length > limit ? String(skipped + limit) : null };
}

/** Ordered by id, which is the order of creation. */
async function list<Item extends { id: string }>(
  sql: Queryable,
  table: Table<Item>,
  request: PageSize & { after: string | null },
  conditions: readonly Condition[],
  fixed: string,
): Promise<Listed<Item>> {
  const { after, limit } = request;
  const given = [...conditions, ['id >', after ?? undefined] as const].filter(
    (condition): condition is readonly [string, Parameter] => condition[1] !== undefined,
  );
  const where = [fixed, ...given.map(([text], index) => `r.${text} $${index + 1}`)].join(' AND ');
  const rows = await query<Row>(
    sql,
    `SELECT ${selected('r', table)} FROM ${table.name} r WHERE ${where} ORDER BY r.id LIMIT ${limit + 1}`,
    given.map(([, value]) => value),
  );
  const { items, isMore } = firstPage(
    rows.map((row) => recordOf('r', table, row)),
    request,
  );
  return { items, next: isMore ? (items.at(-1)?.id ?? null) : null };
}

function namedConditions(pathColumn: string, { name, path, status }: NamedListRequest): Condition[] {
  return [
    ['name =', name],
    [`${pathColumn} =`, path],
    ['status =', status],
  ];
}

function deletedCondition({ deleted }: NamedListRequest): string {
  return `NOT r.removed AND r.deleted_at IS ${deleted ? 'NOT NULL' : 'NULL'}`;
}
