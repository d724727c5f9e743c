/** Records of workspaces as rows: which column holds what, and statements made from that. */
import type { Project, Task, TaskLease, WorkSession, Workspace } from '../../../workspaces/model.js';
import type { Parameter } from '../connection.js';

/** How a column is read and written. Times are ISO 8601 outside, JSON is a value. */
type Kind = 'text' | 'number' | 'time' | 'json';
type Columns<Item> = { readonly [Name in keyof Item & string]: Kind };
export type Row = Record<string, unknown>;

export interface Table<Item> {
  name: string;
  columns: Columns<Item>;
}

const times = { created_at: 'time', updated_at: 'time', version: 'number' } as const;

export const workspaceTable: Table<Workspace> = {
  name: 'workspaces.workspaces',
  columns: {
    id: 'text',
    name: 'text',
    project_path: 'text',
    status: 'text',
    owner_id: 'text',
    claude_key: 'text',
    active_tasks: 'number',
    deleted_at: 'time',
    ...times,
  },
};

export const projectTable: Table<Project> = {
  name: 'workspaces.projects',
  columns: {
    id: 'text',
    workspace_id: 'text',
    name: 'text',
    path: 'text',
    description: 'text',
    git_url: 'text',
    git_branch: 'text',
    language: 'text',
    status: 'text',
    config: 'json',
    git_info: 'json',
    deleted_at: 'time',
    ...times,
  },
};

export const sessionTable: Table<WorkSession> = {
  name: 'workspaces.sessions',
  columns: {
    id: 'text',
    project_id: 'text',
    agent_id: 'text',
    process_id: 'number',
    status: 'text',
    started_at: 'time',
    ended_at: 'time',
    last_active: 'time',
    metadata: 'json',
    command_count: 'number',
    bytes_in: 'number',
    bytes_out: 'number',
    error_count: 'number',
    max_idle_time: 'number',
    max_lifetime: 'number',
    ...times,
  },
};

export const taskTable: Table<Task> = {
  name: 'workspaces.tasks',
  columns: {
    id: 'text',
    session_id: 'text',
    command: 'text',
    status: 'text',
    output: 'text',
    error: 'text',
    started_at: 'time',
    completed_at: 'time',
    bytes_in: 'number',
    bytes_out: 'number',
    duration: 'number',
    depends_on: 'json',
    priority: 'number',
    claimed_by: 'text',
    attempts: 'number',
    max_attempts: 'number',
    reason: 'text',
    ...times,
  },
};

/** `alias.column AS alias_column` for each, so that joined tables do not hide each other's. */
export function selected<Item>(alias: string, table: Table<Item>): string {
  return Object.keys(table.columns)
    .map((name) => `${alias}.${name} AS ${alias}_${name}`)
    .join(', ');
}

/** The record in the columns that `selected` gave. */
export function recordOf<Item>(alias: string, table: Table<Item>, row: Row): Item {
  const entries = Object.entries<Kind>(table.columns).map(([name, kind]) => [
    name,
    readColumn(kind, row[`${alias}_${name}`]),
  ]);
  // Every column of the table was read by its kind.
  return Object.fromEntries(entries) as Item;
}

/** Which row an id names: the owner's own, or for the operator whoever has it. */
export function rowAt(
  alias: string,
  owner: string | null,
  id: string,
): [where: string, parameters: Parameter[]] {
  return owner === null
    ? [`${alias}.id = $1`, [id]]
    : [`${alias}.owner_id = $2 AND ${alias}.id = $1`, [id, owner]];
}

/** What takes statements whose answer nobody needs. */
interface Sending {
  send(text: string, parameters: readonly Parameter[]): void;
}

/** Writes a new row of an owner; a workspace names its owner itself. */
export function insertRecord<Item extends object>(
  work: Sending,
  table: Table<Item>,
  owner: string,
  record: Item,
  more: Record<string, Parameter> = {},
): void {
  const columns = { ...columnValues(table, record), ...more, owner_id: owner };
  const names = Object.keys(columns);
  work.send(
    `INSERT INTO ${table.name} (${names.join(', ')}) VALUES (${names.map((_, index) => `$${index + 1}`).join(', ')})`,
    Object.values(columns),
  );
}

/** Writes all columns but the derived ones, which only counting statements touch. */
export function updateRecord<Item extends { id: string }>(
  work: Sending,
  table: Table<Item>,
  owner: string,
  record: Item,
  more: Record<string, Parameter> = {},
): void {
  const {
    id: _id,
    owner_id: _owner,
    active_tasks: _derived,
    ...columns
  } = {
    ...columnValues(table, record),
    ...more,
  };
  const names = Object.keys(columns);
  work.send(
    `UPDATE ${table.name} SET ${names.map((name, index) => `${name} = $${index + 3}`).join(', ')} WHERE owner_id = $1 AND id = $2`,
    [owner, record.id, ...Object.values(columns)],
  );
}

/** Writes a row over the one that is there, or a new one. */
export function putRecord<Item extends { id: string }>(
  work: Sending,
  exists: boolean,
  ...row: [table: Table<Item>, owner: string, record: Item, more?: Record<string, Parameter>]
): void {
  if (exists) updateRecord(work, ...row);
  else insertRecord(work, ...row);
}

export const leaseColumns =
  'l.holder AS l_holder, l.fence AS l_fence, l.lease_seconds AS l_lease_seconds, l.renewed_at AS l_renewed_at, l.expires_at AS l_expires_at, l.result_digest AS l_result_digest';

export function leaseOf(row: Row): TaskLease | undefined {
  if (row['l_fence'] === null || row['l_fence'] === undefined) return undefined;
  return {
    // A column without a value is null, and text otherwise.
    holder: row['l_holder'] as string | null,
    fence: Number(row['l_fence']),
    leaseSeconds: Number(row['l_lease_seconds']),
    renewedAtMs: Date.parse(isoOf(row['l_renewed_at'])),
    expiresAtMs: Date.parse(isoOf(row['l_expires_at'])),
    resultDigest: row['l_result_digest'] as string | null,
  };
}

/**
 * Writes a lease over the one that was read. A statement that waited for a task's lock sees that task as it is
 * by then, but what it joined as it was before: where the lease is another since, the transaction begins again.
 */
export function putLease(
  work: Sending,
  owner: string,
  taskId: string,
  lease: TaskLease,
  before: TaskLease | undefined,
): void {
  work.send('SELECT workspaces.put_lease($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)', [
    owner,
    taskId,
    lease.holder,
    lease.fence,
    lease.leaseSeconds,
    timeText(lease.renewedAtMs),
    timeText(lease.expiresAtMs),
    lease.resultDigest,
    before?.fence ?? null,
    before === undefined ? null : timeText(before.renewedAtMs),
  ]);
}

export function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

function columnValues<Item extends object>(table: Table<Item>, record: Item): Record<string, Parameter> {
  const values = record as Record<string, unknown>; // A record is read by the names of its own columns.
  return Object.fromEntries(
    Object.entries<Kind>(table.columns).map(([name, kind]) => [
      name,
      kind === 'json' ? JSON.stringify(values[name]) : (values[name] as Parameter),
    ]),
  );
}

function readColumn(kind: Kind, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (kind === 'number') return Number(value);
  if (kind === 'time') return isoOf(value);
  return kind === 'json' && typeof value === 'string' ? JSON.parse(value) : value;
}

/** `2026-01-31 12:00:00.5+00` as PostgreSQL writes it in UTC. */
function isoOf(value: unknown): string {
  return new Date(String(value).replace(' ', 'T').replace(/\+00$/, 'Z')).toISOString();
}
