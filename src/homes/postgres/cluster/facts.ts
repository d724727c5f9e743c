/** Single facts that all servers of one Stoa share, each under a name. */
import { type PostgresSql, type Queryable, query } from '../database/connection.js';

type FactName = 'store_id' | 'operator_token_hash' | 'rekeying' | 'move';

export async function readFact(sql: Queryable, name: FactName): Promise<string | undefined> {
  const [row] = await query<{ value: string }>(sql, 'SELECT value FROM cluster.facts WHERE name = $1', [
    name,
  ]);
  return row?.value;
}

export async function writeFact(sql: PostgresSql, name: FactName, value: string): Promise<void> {
  await query(
    sql,
    'INSERT INTO cluster.facts VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [name, value],
  );
}

/** The value that is there: this one, unless another server was first. */
export async function writeFactOnce(sql: PostgresSql, name: FactName, value: string): Promise<string> {
  await query(sql, 'INSERT INTO cluster.facts VALUES ($1, $2) ON CONFLICT DO NOTHING', [name, value]);
  return (await readFact(sql, name)) ?? value;
}

/** Whatever its value is, or only where it still has this one. */
export async function clearFact(sql: PostgresSql, name: FactName, value?: string): Promise<void> {
  await query(sql, 'DELETE FROM cluster.facts WHERE name = $1 AND value = coalesce($2, value)', [
    name,
    value ?? null,
  ]);
}
