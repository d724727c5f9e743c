/** Converts agents, sessions and users to database rows and back. */
import { clockSql } from '../database/database-clock.js';
import type { Parameter } from '../database/connection.js';
import type { Lease, SessionRecord, StoredAgent, StoredUser } from '../../../registry/model.js';

/** The driver returns times and 64-bit numbers as text. */
export type Row = Readonly<Record<string, string | number | boolean | null>>;

/**
 * The database's clock. Select it outside the CTE that locks the row, so that it is read after the lock is
 * held.
 */
export const nowColumn = `${clockSql} AS now_ms`;

const agentTimes = [
  'created_at',
  'updated_at',
  'last_heartbeat_at',
  'status_since',
  'active_at',
  'activity_timer_at',
  'lease_renewed_at',
  'lease_expires_at',
  'lease_timer_at',
] as const;
const agentValues = [
  'name',
  'status',
  'cpu_millicores',
  'memory_mb',
  'runtime_version',
  'labels',
  'error_message',
  'version',
  'active_sessions',
  'lease_fence',
  'lease_holder',
  'lease_lost',
  'lease_implicit',
] as const;

const written = [...agentValues, ...agentTimes];

/** `from` has the columns of `registry.agents`, and the readable id of the user as `user_name`. */
export function selectAgents(from: string, extraColumns: readonly string[] = []): string {
  const columns = [
    'user_id',
    'agent_id',
    'user_name',
    ...agentValues,
    ...agentTimes.map(inMs),
    ...extraColumns,
  ];
  return `SELECT ${columns.join(', ')} FROM ${from}`;
}

/** Agents with the readable ids of their users. */
export const agentsOfUsers = `(SELECT a.*, u.name AS user_name FROM registry.agents a
  JOIN registry.users u ON u.user_id = a.user_id) AS agents`;

export const insertAgent = `INSERT INTO registry.agents (user_id, agent_id, ${written.join(', ')})
  VALUES (${['user_id', 'agent_id', ...written].map((_, index) => `$${index + 1}`).join(', ')})`;

export const updateAgent = `UPDATE registry.agents
  SET ${written.map((name, index) => `${name} = $${index + 3}`).join(', ')}
  WHERE user_id = $1 AND agent_id = $2`;

export function agentParameters({ record, meta, lease, activeSessions }: StoredAgent): Parameter[] {
  const columns: Record<(typeof written)[number], Parameter> = {
    name: record.name,
    status: record.status,
    cpu_millicores: record.spec.cpu_millicores,
    memory_mb: record.spec.memory_mb,
    runtime_version: record.spec.runtime_version,
    labels: JSON.stringify(meta.labels),
    error_message: meta.errorMessage,
    version: meta.version,
    active_sessions: activeSessions,
    lease_fence: lease?.fence ?? null,
    lease_holder: lease?.holder ?? null,
    lease_lost: lease?.lost ?? null,
    lease_implicit: lease?.implicit ?? null,
    created_at: time(record.created_at),
    updated_at: time(record.updated_at),
    last_heartbeat_at: time(record.last_heartbeat_at),
    status_since: time(meta.statusSinceMs),
    active_at: time(meta.activeAtMs),
    activity_timer_at: time(meta.activityTimerAtMs),
    lease_renewed_at: time(lease?.renewedAtMs ?? null),
    lease_expires_at: time(lease?.expiresAtMs ?? null),
    lease_timer_at: time(lease?.timerAtMs ?? null),
  };
  return [record.user_id, record.agent_id, ...written.map((name) => columns[name])];
}

export function agentOf(row: Row): StoredAgent {
  return {
    record: {
      agent_id: text(row, 'agent_id'),
      user_id: text(row, 'user_id'),
      name: text(row, 'name'),
      status: number(row, 'status'),
      spec: {
        cpu_millicores: number(row, 'cpu_millicores'),
        memory_mb: number(row, 'memory_mb'),
        runtime_version: text(row, 'runtime_version'),
      },
      created_at: number(row, 'created_at'),
      updated_at: number(row, 'updated_at'),
      last_heartbeat_at: numberOrNull(row, 'last_heartbeat_at'),
    },
    meta: {
      version: number(row, 'version'),
      user: text(row, 'user_name'),
      // Only `agentParameters` writes this column.
      labels: JSON.parse(text(row, 'labels')) as Record<string, string>,
      errorMessage: row['error_message'] === null ? null : text(row, 'error_message'),
      statusSinceMs: number(row, 'status_since'),
      activeAtMs: number(row, 'active_at'),
      activityTimerAtMs: numberOrNull(row, 'activity_timer_at'),
    },
    lease: leaseOf(row),
    activeSessions: number(row, 'active_sessions'),
  };
}

function leaseOf(row: Row): Lease | null {
  if (row['lease_fence'] === null) return null;
  return {
    holder: row['lease_holder'] === null ? null : text(row, 'lease_holder'),
    fence: number(row, 'lease_fence'),
    renewedAtMs: number(row, 'lease_renewed_at'),
    expiresAtMs: number(row, 'lease_expires_at'),
    timerAtMs: numberOrNull(row, 'lease_timer_at'),
    lost: row['lease_lost'] === true,
    implicit: row['lease_implicit'] === true,
  };
}

export const sessionColumns = `session_id, agent_id, user_id, status,
  ${inMs('created_at')}, ${inMs('closed_at')}`;

export function sessionOf(row: Row): SessionRecord {
  return {
    session_id: text(row, 'session_id'),
    agent_id: text(row, 'agent_id'),
    user_id: text(row, 'user_id'),
    status: number(row, 'status'),
    created_at: number(row, 'created_at'),
    closed_at: numberOrNull(row, 'closed_at'),
  };
}

export const userColumns = `user_id, name, email, agents, agents_max, deleted_fence,
  ${inMs('created_at')}, ${inMs('last_seen_at')}`;

export function userOf(row: Row): StoredUser {
  return {
    record: {
      user_id: text(row, 'user_id'),
      email: text(row, 'email'),
      created_at: number(row, 'created_at'),
      last_seen_at: number(row, 'last_seen_at'),
    },
    user: text(row, 'name'),
    agents: number(row, 'agents'),
    agentsMax: numberOrNull(row, 'agents_max'),
  };
}

/** A time as a statement parameter. */
export function time(atMs: number): string;
export function time(atMs: number | null): string | null;
export function time(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}

/** Selects a timestamp column as Unix milliseconds, under the same name. */
export function inMs(column: string): string {
  return `floor(extract(epoch FROM ${column}) * 1000)::bigint AS ${column}`;
}

export function text(row: Row, column: string): string {
  return String(row[column]);
}

export function number(row: Row, column: string): number {
  return Number(row[column]);
}

export function numberOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : number(row, column);
}
