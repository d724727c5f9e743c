/** One transaction of workspaces in PostgreSQL: its clock, what it announces, and whom it wakes. */
import type { TransactionSql } from 'postgres';
import { StoaError } from '../../errors.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Change } from '../../core/change.js';
import type { Limits } from '../../limits.js';
import { type Parameter, query } from './connection.js';
import { type Row, timeText } from './workspaces-rows.js';

/** The channel on which servers tell each other that tasks became ready. */
export const readyChannel = 'stoa_tasks_ready';

export class Work {
  readonly sql: TransactionSql;
  readonly nowMs: number;
  readonly limits: Limits;
  readonly #changes: Change[] = [];
  readonly #ready = new Map<string, number>();
  /** True when marks of bulk work were left behind. */
  leftWork = false;

  constructor(sql: TransactionSql, nowMs: number, limits: Limits) {
    this.sql = sql;
    this.nowMs = nowMs;
    this.limits = limits;
  }

  get now(): string {
    return timeText(this.nowMs);
  }

  rows<Found extends object = Row>(
    text: string,
    parameters: readonly Parameter[] = [],
  ): Promise<readonly Found[]> {
    return query<Found>(this.sql, text, parameters);
  }

  change(change: Omit<Change, 'domain'>): void {
    this.#changes.push({ domain: 'workspaces', ...change });
  }

  becameReady(projectId: string, tasks = 1): void {
    this.#ready.set(projectId, (this.#ready.get(projectId) ?? 0) + tasks);
  }

  async markBulk(kind: string, name: string, value: string): Promise<void> {
    await this.rows(
      'INSERT INTO workspaces.bulk_work (kind, name, value) VALUES ($1, $2, $3) ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value',
      [kind, name, value],
    );
    this.leftWork = true;
  }

  /** Last of all: the changes go out with the commit that they tell of, and so do the calls to those who wait. */
  async finish(): Promise<boolean> {
    for (const change of this.#changes)
      await this.rows('INSERT INTO workspaces.outbox (change) VALUES ($1)', [JSON.stringify(change)]);
    for (const [projectId, tasks] of this.#ready)
      await this.rows('SELECT pg_notify($1, $2)', [readyChannel, `${projectId} ${tasks}`]);
    return this.#changes.length > 0;
  }

  /** Runs `body`, or answers what it answered under the same key before. */
  async once<T>(idempotency: Idempotency | null, body: () => Promise<T>): Promise<T> {
    if (idempotency === null) return body();
    const key = JSON.stringify([idempotency.scope, idempotency.key]);
    // Two requests with one key wait for each other here.
    await this.rows('SELECT pg_advisory_xact_lock(hashtextextended($1, 1))', [key]);
    const [kept] = await this.rows<{ fingerprint: string; result: string }>(
      'SELECT fingerprint, result FROM workspaces.idempotency WHERE key = $1 AND expires_at > $2',
      [key, this.now],
    );
    if (kept !== undefined) {
      if (kept.fingerprint !== idempotency.fingerprint) {
        throw new StoaError(
          'idempotency_mismatch',
          'This Idempotency-Key was used before with another request.',
          { fix: 'Use a new key for a new request.' },
        );
      }
      // What was kept is what the same body returned before.
      return JSON.parse(kept.result) as T;
    }
    const result = await body();
    await this.rows(
      'INSERT INTO workspaces.idempotency (key, fingerprint, result, expires_at) VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, result = excluded.result, expires_at = excluded.expires_at',
      [
        key,
        idempotency.fingerprint,
        JSON.stringify(result),
        timeText(this.nowMs + idempotency.seconds * 1_000),
      ],
    );
    return result;
  }
}
