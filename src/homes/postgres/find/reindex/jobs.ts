/** The table of jobs that file everything again: how far each came, and which server works on it. */
import { randomUUID } from 'node:crypto';
import type { Scope } from '../../../../datastore/model.js';
import type { ReindexScope } from '../../../../find/port.js';
import { type PostgresSql, type Queryable, query } from '../../database/connection.js';
import type { Work } from '../../write/work.js';
import { type NamesPosition, type OwnedKind, countNames } from '../names.js';

/** If a server has not reported on its job for this long, another server continues the job. */
const abandonedMs = 15_000;
/** How often a server reports that it still works on its job. */
export const reportMs = abandonedMs / 5;

/** Where a job is. The documents of a store beside PostgreSQL come before all users, messages after them. */
export type Position =
  | { readonly owner: string; readonly kind: 'store'; readonly after: string | null }
  | { readonly owner: string; readonly kind: OwnedKind | 'messages'; readonly after: NamesPosition };

export interface Job {
  readonly total: number;
  readonly done: number;
  readonly removed: number;
  readonly position: Position;
}

/** Thrown to a server whose job began again, or which another server has taken. */
export class JobLost extends Error {}

export class ReindexJobs {
  readonly #sql: PostgresSql;
  readonly #worker = randomUUID();

  constructor(sql: PostgresSql) {
    this.#sql = sql;
  }

  /** Adds a job, unless there is one for the scope. */
  async offer(scope: ReindexScope): Promise<void> {
    await query(
      this.#sql,
      `INSERT INTO find.reindexing (owner, namespace, total, position, worker, seen_at)
        VALUES ($1, $2, $3, $4, '', '-infinity') ON CONFLICT DO NOTHING`,
      [...keyOf(scope), await countNames(this.#sql, scope), firstPosition(scope)],
    );
  }

  /** Undefined if another server works on the job, or if it is done. */
  async take(scope: ReindexScope): Promise<Job | undefined> {
    const [row] = await query<JobRow>(
      this.#sql,
      `UPDATE find.reindexing SET worker = $3, seen_at = clock_timestamp() WHERE owner = $1 AND namespace = $2
          AND (worker = $3 OR seen_at < clock_timestamp() - $4::double precision * interval '1 millisecond')
        RETURNING total, done, removed, position`,
      [...keyOf(scope), this.#worker, abandonedMs],
    );
    return row && jobOf(row);
  }

  async read(scope: ReindexScope): Promise<Job | undefined> {
    const [row] = await query<JobRow>(
      this.#sql,
      'SELECT total, done, removed, position FROM find.reindexing WHERE owner = $1 AND namespace = $2',
      keyOf(scope),
    );
    return row && jobOf(row);
  }

  /** Stores how far this server came with its job. */
  async note(scope: ReindexScope, { done, removed, position }: Job): Promise<void> {
    const rows = await query(
      this.#sql,
      `UPDATE find.reindexing SET done = $3, removed = $4, position = $5, seen_at = clock_timestamp()
        WHERE owner = $1 AND namespace = $2 AND worker = $6 RETURNING 1`,
      [...keyOf(scope), done, removed, JSON.stringify(position), this.#worker],
    );
    if (rows.length === 0) throw new JobLost();
  }

  /** This server still works on its job: one step may take longer than `abandonedMs`. */
  async report(scope: ReindexScope): Promise<void> {
    await query(
      this.#sql,
      `UPDATE find.reindexing SET seen_at = clock_timestamp()
        WHERE owner = $1 AND namespace = $2 AND worker = $3`,
      [...keyOf(scope), this.#worker],
    );
  }

  /** The job of this server is done. */
  async remove(scope: ReindexScope): Promise<void> {
    const rows = await query(
      this.#sql,
      'DELETE FROM find.reindexing WHERE owner = $1 AND namespace = $2 AND worker = $3 RETURNING 1',
      [...keyOf(scope), this.#worker],
    );
    if (rows.length === 0) throw new JobLost();
  }

  /** Jobs that no server has begun, and jobs of servers that died. */
  abandoned(): Promise<readonly ReindexScope[]> {
    return query(
      this.#sql,
      `SELECT nullif(owner, '') AS user, nullif(namespace, '') AS namespace FROM find.reindexing
        WHERE seen_at < clock_timestamp() - $1::double precision * interval '1 millisecond'`,
      [abandonedMs],
    );
  }
}

/** The documents of the namespace have to be filed again from the first one. A server begins within its next round. */
export async function reindexAgain(work: Work, scope: Scope): Promise<void> {
  await work.rows(
    `INSERT INTO find.reindexing (owner, namespace, total, position, worker, seen_at)
      VALUES ($1, $2, 0, $3, '', '-infinity')
      ON CONFLICT (owner, namespace) DO UPDATE SET done = 0, removed = 0, position = excluded.position,
        worker = '', seen_at = excluded.seen_at`,
    [...keyOf(scope), firstPosition(scope)],
  );
}

/** The namespaces of an owner whose documents are being filed again, or will be. */
export async function reindexedNamespaces(sql: Queryable, owner: string): Promise<ReadonlySet<string>> {
  const rows = await query<{ namespace: string }>(
    sql,
    `SELECT namespace FROM find.reindexing WHERE owner = $1 AND namespace <> ''`,
    [owner],
  );
  return new Set(rows.map(({ namespace }) => namespace));
}

interface JobRow {
  readonly total: string;
  readonly done: string;
  readonly removed: string;
  readonly position: string;
}

function jobOf({ total, done, removed, position }: JobRow): Job {
  return {
    total: Number(total),
    done: Number(done),
    removed: Number(removed),
    // Only this file writes the column.
    position: JSON.parse(position) as Position,
  };
}

function firstPosition({ user }: ReindexScope): string {
  const first: Position = { owner: user ?? '', kind: 'store', after: null };
  return JSON.stringify(first);
}

/** Names are never empty, so an empty text stands for all. */
export function keyOf({ user, namespace }: ReindexScope): [string, string] {
  return [user ?? '', namespace ?? ''];
}
