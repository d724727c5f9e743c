/** Tables are made and changed in numbered migrations, each once, by one process at a time. */
import type { TransactionSql } from 'postgres';
import { StoaError } from '../../core/errors.js';
import { limitDefinitions } from '../../core/settings/limits.js';
import { type PostgresSql, query, transaction } from './connection.js';

/** Statements of one transaction, or more rows than one transaction should change. */
export type Migration = string | SteppedMigration;

/**
 * Rows are changed a few at a time, each step in a transaction that notes how far it came: a process that is
 * killed on the way, or another one, goes on from there. Programs of before are refused from the first step on; those
 * that are running notice it a moment later, so that what they write until then must be as `finish` wants it.
 */
export interface SteppedMigration {
  /** What the rows need before they are changed. */
  up: string;
  /** The position before the first row. */
  first: string;
  /** Changes at most $2 rows after the position $1 and answers the last one's as `position`: null, or no row, when none was left. */
  rewrite: string;
  /** In the transaction that finds no row left. */
  finish?: string;
}

const table = 'stoa_migrations';

/** Brings a domain's tables to the newest migration. A database that is ahead of this program is refused. */
export async function migrate(
  sql: PostgresSql,
  domain: string,
  migrations: readonly Migration[],
  rowsMax: number = limitDefinitions.migrationStepRowsMax.default,
): Promise<void> {
  const plan: Plan = {
    domain,
    migrations,
    rowsMax,
    isStepped: migrations.some((migration) => typeof migration !== 'string'),
  };
  // Nothing is written where nothing is to be done. A stepped migration may be under way.
  if (!plan.isStepped && (await migrationsDone(sql)).get(domain) === migrations.length) return;
  while (await transaction(sql, (tx) => goOn(tx, plan)));
}

/** How far each domain's tables are. Nothing is changed; a database without any has none. */
export async function migrationsDone(sql: PostgresSql): Promise<ReadonlyMap<string, number>> {
  const [found] = await query<{ is_there: boolean }>(
    sql,
    `SELECT to_regclass('${table}') IS NOT NULL AS is_there`,
  );
  if (found?.is_there !== true) return new Map();
  const rows = await query<{ domain: string; step: number }>(
    sql,
    `SELECT domain, max(step) AS step FROM ${table} GROUP BY domain`,
  );
  return new Map(rows.map(({ domain, step }) => [domain, step]));
}

/** The refusal of a running program once a newer one has begun to change the tables. */
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
    `The tables of ${domain} are at step ${done}; this program knows ${known}.`,
    { fix: 'Use the version of Stoa that made them, or a newer one.' },
  );
}

interface Plan {
  domain: string;
  migrations: readonly Migration[];
  rowsMax: number;
  isStepped: boolean;
}

/** One transaction's worth of it; true when there is more. */
async function goOn(tx: TransactionSql, plan: Plan): Promise<boolean> {
  const { domain, migrations, isStepped } = plan;
  // A large table takes its time.
  await query(tx, 'SET LOCAL statement_timeout = 0');
  // The lock ends with the transaction; whoever comes second finds the work done, or helps with it.
  await query(tx, "SELECT pg_advisory_xact_lock(hashtext('stoa_migrations'))");
  await query(
    tx,
    `CREATE TABLE IF NOT EXISTS ${table} (domain text NOT NULL, step integer NOT NULL, "appliedAt" timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (domain, step))`,
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

/** The next rows of the migration that is under way; false when none is. */
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
