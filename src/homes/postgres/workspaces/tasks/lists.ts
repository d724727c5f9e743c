/** Lists of tasks over all projects, in pages and in the order of ids, which is the order of creation. */
import { type ListedTask, heldStatuses, taskStatuses } from '../../../../workspaces/model.js';
import { firstPage } from '../../../../workspaces/lists/page-room.js';
import type { Listed, TaskListRequest } from '../../../../workspaces/port.js';
import { type Parameter, type Queryable, query } from '../../database/connection.js';
import { leaseEnd } from '../../../../workspaces/tasks/tasks.js';
import { type Row, leaseColumns, leaseOf, recordOf, selected, taskTable } from '../rows.js';
import { visible } from '../sessions.js';
import { held, taskParents } from './rows.js';

const columns = `${selected('t', taskTable)}, ${leaseColumns}, t.project_id`;
/** Tasks of all users that a page of the operator reads for each of its items. */
const scannedPerItem = 50;

/**
 * Every index has the status before the id, so each status is read by itself. The cost of a page does not
 * depend on the length of the list.
 */
export async function listTasks(
  sql: Queryable,
  owner: string,
  request: TaskListRequest,
): Promise<Listed<ListedTask>> {
  const { status, holder, label, limit } = request;
  const parameters: Parameter[] = [owner, request.after ?? ''];
  const conditions = ['t.owner_id = $1 AND t.id > $2', ...conditionsOf(request, parameters)];
  const all = holder === undefined ? taskStatuses : heldStatuses;
  const wanted = parameters.push(status === undefined ? all : [status]);
  const byLabel = `workspaces.task_labels o JOIN workspaces.tasks t ON t.owner_id = o.owner_id AND t.id = o.task_id`;
  if (label !== undefined)
    conditions.push(
      `o.owner_id = $1 AND o.task_id > $2 AND o.status = wanted.status AND o.label = $${parameters.push(label)}`,
    );
  const rows = await query<Row>(
    sql,
    `SELECT found.* FROM unnest($${wanted}::text[]) AS wanted (status) CROSS JOIN LATERAL (
        SELECT ${columns} FROM ${label === undefined ? 'workspaces.tasks t' : byLabel} ${taskParents}
        WHERE t.status = wanted.status AND ${conditions.join(' AND ')} AND ${visible}
        ORDER BY ${label === undefined ? 't.id' : 'o.task_id'} LIMIT ${limit + 1}) found
      ORDER BY found.t_id LIMIT ${limit + 1}`,
    parameters,
  );
  const { items, isMore } = firstPage(rows.map(listedTask), request);
  return { items, next: isMore ? (items.at(-1)?.id ?? null) : null };
}

/**
 * Tasks of every owner, for the operator. No index fits these filters, so a page reads a bounded number of
 * tasks, and can have fewer items than its limit.
 */
export async function listAllTasks(sql: Queryable, request: TaskListRequest): Promise<Listed<ListedTask>> {
  const { status, label, limit } = request;
  const scannedMax = limit * scannedPerItem;
  const scanned = await query<{ id: string }>(
    sql,
    `SELECT id FROM workspaces.tasks WHERE id > $1 ORDER BY id LIMIT ${scannedMax}`,
    [request.after ?? ''],
  );
  const parameters: Parameter[] = [scanned.map(({ id }) => id)];
  const conditions = ['t.id = ANY($1::text[])', ...conditionsOf(request, parameters)];
  if (status !== undefined) conditions.push(`t.status = $${parameters.push(status)}`);
  if (label !== undefined) conditions.push(`t.labels @> $${parameters.push([label])}::text[]`);
  const rows = await query<Row>(
    sql,
    `SELECT ${columns} FROM workspaces.tasks t ${taskParents}
      WHERE ${conditions.join(' AND ')} AND ${visible} ORDER BY t.id LIMIT ${limit + 1}`,
    parameters,
  );
  const { items, isMore } = firstPage(rows.map(listedTask), request);
  const lastScanned = scanned.length === scannedMax ? (scanned.at(-1)?.id ?? null) : null;
  return { items, next: isMore ? (items.at(-1)?.id ?? null) : lastScanned };
}

function conditionsOf({ holder, project }: TaskListRequest, parameters: Parameter[]): string[] {
  return [
    ...(holder === undefined ? [] : [`t.claimed_by = $${parameters.push(holder)} AND ${held}`]),
    ...(project === undefined ? [] : [`t.project_id = $${parameters.push(project)}`]),
  ];
}

function listedTask(row: Row): ListedTask {
  return {
    ...recordOf('t', taskTable, row),
    project_id: String(row['project_id']),
    lease_expires_at: leaseEnd(leaseOf(row)),
  };
}
