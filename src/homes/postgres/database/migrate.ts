/** Creates and changes tables in numbered migrations. Each runs once, in one process at a time. */
import type { TransactionSql } from 'postgres';
import { StoaError } from '../../../core/errors.js';
import { limitDefinitions } from '../../../core/settings/limits.js';
import { lockSql } from './advisory-locks.js';
import { type PostgresSql, query } from './connection.js';
import { transaction } from './transaction.js';

/** The statements of one transaction, or a change of more rows than one transaction should change. */
export type Migration = string | SteppedMigration;

/**
 * Changes a few rows in each transaction, which also stores the position that was reached. If the process is
 * killed, the next start continues from that position. Older programs cannot start once the first step is
 * done. Those that already run stop writing a moment later, so rows that they write until then must be valid
 * for `finish`.
 */
export interface SteppedMigration {
  /** Statements that prepare the table before any row is changed. */
  up: string;
  /** The position before the first row. */
  first: string;
  /**
   * Changes at most $2 rows after the position $1. Returns the position of the last changed row as
   * `position`: null, or no row, if no row was left.
   */
  rewrite: string;
  /** Runs in the transaction that finds no row left. */
  finish?: string;
}

export interface DomainTables {
  /** In `stoa_migrations`. */
  readonly domain: string;
  /** For people: what a start on an empty database creates. */
  readonly about: string;
  readonly migrations: readonly Migration[];
}

const table = 'stoa_migrations';

/** Brings the tables of a domain to the newest migration. Throws if they are newer than this program. */
export async function migrate(
  sql: PostgresSql,
  { domain, migrations }: Pick<DomainTables, 'domain' | 'migrations'>,
  rowsMax: number = limitDefinitions.migrationStepRowsMax.default,
): Promise<void> {
  const plan: Plan = {
    domain,
    migrations,
    rowsMax,
    isStepped: migrations.some((migration) => typeof migration !== 'string'),
  };
  // Nothing is written if there is nothing to do. A stepped migration may be unfinished.
  if (!plan.isStepped && (await migrationsDone(sql)).get(domain) === migrations.length) return;
  while (await transaction(sql, (tx) => runNext(tx, plan)));
}

/** The last migration of each domain. Changes nothing; the map of an empty database is empty. */
export async function migrationsDone(sql: PostgresSql): Promise<ReadonlyMap<string, number>> {
  const [found] = await query<{ exists: boolean }>(
    sql,
    `SELECT to_regclass('${table}') IS NOT NULL AS exists`,
  );
  if (found?.exists !== true) return new Map();
  const rows = await query<{ domain: string; step: number }>(
    sql,
    `SELECT domain, max(step) AS step FROM ${table} GROUP BY domain`,
  );
  return new Map(rows.map(({ domain, step }) => [domain, step]));
}

/** The error for a running program after a newer program has begun to change the tables. */
export async function newerTables(
  sql: PostgresSql,
  known: ReadonlyMap<string, number>,
): Promise<StoaError | undefined> {
  const rows = await query<{ domain: string; step: number }>(
    sql,
    `SELECT domain, max(step) AS step FROM ${table} GROUP BY domain`,
  );
  const newer = rows.find(({ domain, step }) => step > (known.get(domain) ?? step));
  return newer && newerData(newer.domain, newer.step, known.get(newer.domain) ?? 0);
}

export function newerData(domain: string, done: number, known: number): StoaError {
  return new StoaError(
    'newer_data',
    `The tables of ${domain} have version ${done}. This program knows versions up to ${known}.`,
    { fix: 'Use the version of Stoa that made the tables, or a newer version.' },
  );
}

interface Plan {
  domain: string;
  migrations: readonly Migration[];
  rowsMax: number;
  isStepped: boolean;
}

/** Runs one transaction of the plan. Returns true if there is more to do. */
async function runNext(tx: TransactionSql, plan: Plan): Promise<boolean> {
  const { domain, migrations, isStepped } = plan;
  // A change of a large table may take longer than the limit of other statements.
  await query(tx, 'SET LOCAL statement_timeout = 0');
  // The lock ends with the transaction. A second server then finds the work done, or does the next step.
  await query(tx, lockSql('migrations'));
  await query(
    tx,
    `CREATE TABLE IF NOT EXISTS ${table} (
      domain text NOT NULL,
      step integer NOT NULL,
      "appliedAt" timestamptz NOT NULL DEFAULT now(),
      PRIMARY KEY (domain, step))`,
  );
  if (isStepped) await query(tx, `ALTER TABLE ${table} ADD COLUMN IF NOT EXISTS position text`);
  const [row] = await query<{ step: number | null }>(
    tx,
    `SELECT max(step) AS step FROM ${table} WHERE domain = $1`,
    [domain],
  );
  const done = row?.step ?? 0;
  if (done > migrations.length) throw newerData(domain, done, migrations.length);
  if (isStepped && (await rewriteMore(tx, plan))) return true;
  for (const [index, migration] of migrations.entries()) {
    if (index < done) continue;
    const isWhole = typeof migration === 'string';
    await query(tx, isWhole ? migration : migration.up);
    await query(tx, `INSERT INTO ${table} (domain, step) VALUES ($1, $2)`, [domain, index + 1]);
    if (isWhole) continue;
    await query(tx, `UPDATE ${table} SET position = $3 WHERE domain = $1 AND step = $2`, [
      domain,
      index + 1,
      migration.first,
    ]);
    return true;
  }
  return false;
}

/** Changes the next rows of the running migration. Returns false if none is running. */
async function rewriteMore(tx: TransactionSql, { domain, migrations, rowsMax }: Plan): Promise<boolean> {
  const [running] = await query<{ step: number; position: string }>(
    tx,
    `SELECT step, position FROM ${table} WHERE domain = $1 AND position IS NOT NULL`,
    [domain],
  );
  const migration = running === undefined ? undefined : migrations[running.step - 1];
  if (running === undefined || migration === undefined || typeof migration === 'string') return false;
  const [changed] = await query<{ position: string | null }>(tx, migration.rewrite, [
    running.position,
    rowsMax,
  ]);
  const position = changed?.position ?? null;
  if (position === null && migration.finish !== undefined) await query(tx, migration.finish);
  await query(tx, `UPDATE ${table} SET position = $3 WHERE domain = $1 AND step = $2`, [
    domain,
    running.step,
    position,
  ]);
  return true;
}
