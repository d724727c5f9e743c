/** Converts records of workspaces to rows and back. Statements are made from the table definitions below. */
import { isDeepStrictEqual } from 'node:util';
import type { Project, Task, TaskLease, WorkSession, Workspace } from '../../../workspaces/model.js';
import { type Parameter, query } from '../database/connection.js';
import { clockColumn } from '../database/database-clock.js';
import type { LoadAll } from '../write/look-ups.js';
import { type RowSender, sendRow } from '../write/merged-rows.js';

/** The type of a column. In a record, a time is ISO 8601 text and JSON is a parsed value. */
type Kind = 'text' | 'texts' | 'number' | 'time' | 'json';
type Columns<Item> = { readonly [Name in keyof Item & string]: Kind };
export type Row = Record<string, unknown>;

export interface Table<Item> {
  name: string;
  columns: Columns<Item>;
  /** Columns that no row stores, as SQL over the alias of the table. */
  computed?: { readonly [Name in keyof Item & string]?: (alias: string) => string };
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
  // Not a counter in the row: all tasks of a workspace would wait for its lock until their commits are on
  // disk.
  computed: {
    active_tasks: (alias) =>
      `(SELECT coalesce(sum(counted.open_tasks), 0) FROM workspaces.projects counted
        WHERE counted.owner_id = ${alias}.owner_id AND counted.workspace_id = ${alias}.id
          AND counted.deleted_at IS NULL)`,
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
    labels: 'texts',
    run_at: 'time',
    retry: 'json',
    question: 'text',
    asked_at: 'time',
    question_expires_at: 'time',
    answer: 'text',
    answered_at: 'time',
    answered_by: 'text',
    ...times,
  },
};

/** `alias.column AS alias_column` for each column, so that columns of joined tables have different names. */
export function selected<Item>(alias: string, table: Table<Item>): string {
  const computed: Partial<Record<string, (alias: string) => string>> = table.computed ?? {};
  return Object.keys(table.columns)
    .map((name) => `${computed[name]?.(alias) ?? `${alias}.${name}`} AS ${alias}_${name}`)
    .join(', ');
}

/** The record from columns that were selected with `selected`. */
export function recordOf<Item>(alias: string, table: Table<Item>, row: Row): Item {
  const kinds: Readonly<Record<string, Kind>> = table.columns;
  const record: Record<string, unknown> = {};
  for (const name in kinds) record[name] = readColumn(kinds[name] as Kind, row[`${alias}_${name}`]);
  // Every column of the table was converted by its kind.
  return record as Item;
}

/**
 * Joins the one row that a condition on its key finds. LIMIT makes PostgreSQL look it up in the index for
 * each row before it. A plain join of tables without statistics read all rows of the owner.
 */
export function joinOne(alias: string, table: string, condition: string, join = 'JOIN'): string {
  return `${join} LATERAL (SELECT * FROM workspaces.${table} WHERE ${condition} LIMIT 1) ${alias} ON true`;
}

/** A condition for a row with this id: of the owner, or of any owner if `owner` is null (the operator). */
export function rowAt(
  alias: string,
  owner: string | null,
  id: string,
): [where: string, parameters: Parameter[]] {
  return owner === null
    ? [`${alias}.id = $1`, [id]]
    : [`${alias}.owner_id = $2 AND ${alias}.id = $1`, [id, owner]];
}

/** The name of a row that belongs to an owner. */
export interface OwnedRow {
  readonly owner: string;
  readonly id: string;
}

/** Rows that are found by their names, with what is joined to them. */
export interface FoundRows {
  readonly table: string;
  /** The name of the row in `columns`, `joins` and `where`. */
  readonly alias: string;
  readonly columns: string;
  readonly joins: string;
  readonly where: string;
  /** Locks each row before its clock is read, in the order of the keys: a group asks in the order of its names. */
  readonly isLocked: boolean;
}

/** Finds each row in the index, for the reason that `joinOne` has. */
export function loadRows({
  table,
  alias,
  columns,
  joins,
  where,
  isLocked,
}: FoundRows): LoadAll<OwnedRow, Row | undefined> {
  const text = `SELECT ${columns}, ${clockColumn}, given.place
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (owner_id, id, place)
      JOIN LATERAL (SELECT * FROM workspaces.${table} WHERE owner_id = given.owner_id AND id = given.id
        LIMIT 1${isLocked ? ' FOR UPDATE' : ''}) ${alias} ON true ${joins} WHERE ${where}`;
  return async (sql, keys) => {
    const rows = await query<Row>(sql, text, [keys.map(({ owner }) => owner), keys.map(({ id }) => id)]);
    const byPlace = new Map(rows.map((row) => [Number(row['place']), row]));
    return keys.map((_, index) => byPlace.get(index + 1));
  };
}

/** Inserts a row. `owner_id` is added, because only the records of workspaces have it. */
export function insertRecord<Item extends object>(
  work: RowSender,
  table: Table<Item>,
  owner: string,
  record: Item,
  more: Record<string, Parameter> = {},
): void {
  const columns = { ...columnValues(table, record), ...more, owner_id: owner };
  const names = Object.keys(columns);
  sendRow(
    work,
    (given) => `INSERT INTO ${table.name} (${names.join(', ')})
      SELECT ${names.map((name) => castOf(table, name, more)).join(', ')} FROM ${given}`,
    columns,
  );
}

interface UpdateOptions<Item> {
  /** Columns that are not in the record. */
  more?: Record<string, Parameter>;
  /** The record as it is stored. Only columns that differ from it are written. */
  before?: Item;
}

/** Updates all columns except the counters, which only `updateCounters` changes. */
export function updateRecord<Item extends { id: string }>(
  work: RowSender,
  table: Table<Item>,
  owner: string,
  record: Item,
  { more = {}, before }: UpdateOptions<Item> = {},
): void {
  const { id: _id, owner_id: _owner, ...all } = columnValues(table, record);
  const stored = before === undefined ? {} : columnValues(table, before);
  const columns: Record<string, Parameter> = {};
  for (const name in all)
    // Not compared as text: an output "null" differs from no output.
    if (!(name in stored) || !isDeepStrictEqual(stored[name], all[name])) columns[name] = all[name] ?? null;
  Object.assign(columns, more);
  const names = Object.keys(columns);
  if (names.length === 0) return;
  sendRow(
    work,
    (given) => `UPDATE ${table.name} stored
      SET ${names.map((name) => `${name} = ${castOf(table, name, more)}`).join(', ')} FROM ${given}
      WHERE stored.owner_id = given.row_owner AND stored.id = given.row_id`,
    { ...columns, row_owner: owner, row_id: record.id },
  );
}

/** Updates the row if it exists, otherwise inserts it. */
export function putRecord<Item extends { id: string }>(
  work: RowSender,
  exists: boolean,
  ...row: [table: Table<Item>, owner: string, record: Item, more?: Record<string, Parameter>]
): void {
  const [table, owner, record, more = {}] = row;
  if (exists) updateRecord(work, table, owner, record, { more });
  else insertRecord(work, table, owner, record, more);
}

export const leaseColumns = `l.holder AS l_holder, l.fence AS l_fence, l.lease_seconds AS l_lease_seconds,
  l.renewed_at AS l_renewed_at, l.expires_at AS l_expires_at, l.result_digest AS l_result_digest`;

export function leaseOf(row: Row): TaskLease | undefined {
  if (row['l_fence'] === null || row['l_fence'] === undefined) return undefined;
  return {
    // Both columns are text or null.
    holder: row['l_holder'] as string | null,
    fence: Number(row['l_fence']),
    leaseSeconds: Number(row['l_lease_seconds']),
    renewedAtMs: Date.parse(isoOf(row['l_renewed_at'])),
    expiresAtMs: Date.parse(isoOf(row['l_expires_at'])),
    resultDigest: row['l_result_digest'] as string | null,
  };
}

/**
 * Replaces the lease that was read before. A statement that waits for the lock of a task returns the new
 * task, but the joined lease from before the wait. If the lease has changed since then, the transaction
 * starts again.
 */
export function putLease(
  work: RowSender,
  owner: string,
  taskId: string,
  lease: TaskLease,
  before: TaskLease | undefined,
): void {
  sendRow(
    work,
    (given) => `SELECT workspaces.put_lease(owner, task, holder, fence::integer, seconds::double precision,
      renewed::timestamptz, expires::timestamptz, digest, fence_read::integer, renewed_read::timestamptz)
      FROM ${given}`,
    {
      owner,
      task: taskId,
      holder: lease.holder,
      fence: lease.fence,
      seconds: lease.leaseSeconds,
      renewed: timeText(lease.renewedAtMs),
      expires: timeText(lease.expiresAtMs),
      digest: lease.resultDigest,
      fence_read: before?.fence ?? null,
      renewed_read: before === undefined ? null : timeText(before.renewedAtMs),
    },
  );
}

export function timeText(timeMs: number): string {
  return new Date(timeMs).toISOString();
}

const castOfKind: Record<Kind, string> = {
  text: '',
  texts: '::text[]',
  number: '::numeric',
  time: '::timestamptz',
  json: '::json',
};

/** A column of `given`, whose values are text, in the type of the table. */
function castOf<Item>({ columns }: Table<Item>, name: string, more: Record<string, Parameter>): string {
  const kinds: Record<string, Kind> = columns;
  const kind = kinds[name] ?? (typeof more[name] === 'number' ? 'number' : 'text');
  return `given.${name}${castOfKind[kind]}`;
}

function columnValues<Item extends object>(table: Table<Item>, record: Item): Record<string, Parameter> {
  const kinds: Readonly<Record<string, Kind>> = table.columns;
  // `Columns` makes sure that the columns are keys of the record.
  const fields = record as Record<string, unknown>;
  const computed = table.computed ?? {};
  const values: Record<string, Parameter> = {};
  for (const name in kinds) {
    if (name in computed) continue;
    const value = fields[name];
    values[name] = kinds[name] === 'json' && value !== null ? JSON.stringify(value) : (value as Parameter);
  }
  return values;
}

function readColumn(kind: Kind, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (kind === 'number') return Number(value);
  if (kind === 'time') return isoOf(value);
  if (kind === 'texts') return textsOf(String(value));
  return kind === 'json' && typeof value === 'string' ? JSON.parse(value) : value;
}

/** Converts `{a,"b=c"}`, the format of PostgreSQL for labels, which contain no comma, quote or backslash. */
export function textsOf(value: string): string[] {
  const inner = value.slice(1, -1);
  return inner === '' ? [] : inner.split(',').map((text) => text.replace(/^"(.*)"$/, '$1'));
}

/**
 * Converts `2026-01-31 12:00:00.5+00`, the format of PostgreSQL in UTC, to ISO 8601. Most times have three
 * digits of a second and need no calendar.
 */
function isoOf(value: unknown): string {
  const text = String(value);
  if (text.length === isoLength + 2 && text[dateLength] === ' ' && text.endsWith('+00'))
    return `${text.slice(0, dateLength)}T${text.slice(dateLength + 1, -3)}Z`;
  return new Date(text.replace(' ', 'T').replace(/\+00$/, 'Z')).toISOString();
}

/** The length of `2026-01-31`, and of `2026-01-31T12:00:00.500Z`. */
const [dateLength, isoLength] = [10, 24];
