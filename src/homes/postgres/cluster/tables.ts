/**
 * The tables of all domains before they are made or changed: what is newer than this program, and what a
 * start adds.
 */
import { type PostgresSql, query } from '../database/connection.js';
import { commitMigrations } from '../commit/schema.js';
import { dataMigrations } from '../datastore/sql.js';
import { findMigrations } from '../find/schema.js';
import { feedMigrations } from '../feed/schema.js';
import { answerMigrations } from '../write/kept-answers.js';
import { lockMigrations } from '../locks/schema.js';
import { messagingMigrations, messagingPlan } from '../messaging/schema.js';
import { migrationsDone, newerData } from '../database/migrate.js';
import { registryMigrations } from '../registry/schema.js';
import { turnMigrations } from '../database/turns.js';
import { workspacesMigrations } from '../workspaces/schema.js';
import { clusterMigrations } from './schema.js';

interface Domain {
  /** In `stoa_migrations`. */
  readonly name: string;
  readonly steps: number;
  /** For people. */
  readonly tables: string;
}

const domains: readonly Domain[] = [
  { name: 'feed', steps: feedMigrations.length, tables: 'the schema feed, for the change feed' },
  {
    name: 'datastore',
    steps: dataMigrations.length,
    tables: 'the tables agent_data_store…, for documents',
  },
  { name: 'answers', steps: answerMigrations.length, tables: 'the table kept_answers' },
  { name: 'turns', steps: turnMigrations.length, tables: 'the table sweep_turns' },
  {
    name: 'cluster',
    steps: clusterMigrations.length,
    tables: 'the schema cluster, for the servers, their keys and the operator token',
  },
  {
    name: 'registry',
    steps: registryMigrations.length,
    tables: 'the schema registry, for users, agents, sessions and tokens',
  },
  { name: 'workspaces', steps: workspacesMigrations.length, tables: 'the schema workspaces' },
  { name: 'locks', steps: lockMigrations.length, tables: 'the schema locks' },
  { name: 'messaging', steps: messagingMigrations.length, tables: 'the schema messaging' },
  { name: 'commits', steps: commitMigrations.length, tables: 'the tables commit_outbox and commit_bytes' },
  { name: 'find', steps: findMigrations.length, tables: 'the schema find, for the search' },
];

/** The migration steps that this program knows, by domain. */
export const knownSteps: ReadonlyMap<string, number> = new Map(
  domains.map(({ name, steps }) => [name, steps]),
);

/**
 * What a start adds, in sentences. Nothing is changed. Refuses tables of a newer program, and tables of
 * another program under the names of AICQ's.
 */
export async function tablesPlan(sql: PostgresSql): Promise<string[]> {
  const done = await migrationsDone(sql);
  const plan: string[] = [];
  for (const { name, steps, tables } of domains) {
    const at = done.get(name) ?? 0;
    if (at > steps) throw newerData(name, at, steps);
    if (at > 0 && at < steps) plan.push(`Change ${tables}, from step ${at} to step ${steps}.`);
    if (at === 0 && name !== 'messaging') plan.push(`Create ${tables}.`);
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

export async function tableExists(sql: PostgresSql, table: string): Promise<boolean> {
  const [row] = await query<{ found: boolean }>(sql, 'SELECT to_regclass($1) IS NOT NULL AS found', [table]);
  return row?.found === true;
}
