/**
 * The tables of all domains before they are made or changed: what is newer than this program, and what a
 * start adds.
 */
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { commitTables } from '../commit/schema.js';
import { dataTables } from '../datastore/sql.js';
import { findTables } from '../find/schema.js';
import { feedTables } from '../feed/schema.js';
import { answerTables } from '../write/kept-answers.js';
import { locksTables } from '../locks/schema.js';
import { messagingTables, messagingPlan } from '../messaging/schema.js';
import { type DomainTables, migrationsDone, newerData } from '../database/migrate.js';
import { registryTables } from '../registry/schema.js';
import { turnTables } from '../database/turns.js';
import { workspacesTables } from '../workspaces/schema.js';
import { clusterTables } from './schema.js';

const domains: readonly DomainTables[] = [
  feedTables,
  dataTables,
  answerTables,
  turnTables,
  clusterTables,
  registryTables,
  workspacesTables,
  locksTables,
  messagingTables,
  commitTables,
  findTables,
];

/** The migration steps that this program knows, by domain. */
export const knownSteps: ReadonlyMap<string, number> = new Map(
  domains.map(({ domain, migrations }) => [domain, migrations.length]),
);

/**
 * What a start adds, in sentences. Nothing is changed. Refuses tables of a newer program, and tables of
 * another program under the names of AICQ's.
 */
export async function tablesPlan(sql: PostgresSql): Promise<string[]> {
  const done = await migrationsDone(sql);
  const plan: string[] = [];
  for (const { domain, about, migrations } of domains) {
    const [at, steps] = [done.get(domain) ?? 0, migrations.length];
    if (at > steps) throw newerData(domain, at, steps);
    if (at > 0 && at < steps) plan.push(`Change ${about}, from step ${at} to step ${steps}.`);
    if (at === 0 && domain !== messagingTables.domain) plan.push(`Create ${about}.`);
  }
  return [...(await messagingPlan(sql)), ...plan];
}

/** The name of the Stoa in this database, or undefined if none was made yet. */
export async function knownStore(sql: PostgresSql): Promise<string | undefined> {
  if (!(await tableExists(sql, 'cluster.facts'))) return undefined;
  const [row] = await query<{ value: string }>(
    sql,
    "SELECT value FROM cluster.facts WHERE name = 'store_id'",
  );
  return row?.value;
}

export async function tableExists(sql: Queryable, table: string): Promise<boolean> {
  const [row] = await query<{ found: boolean }>(sql, 'SELECT to_regclass($1) IS NOT NULL AS found', [table]);
  return row?.found === true;
}
