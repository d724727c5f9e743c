/** Tables are made and changed in numbered steps, each once, by one process at a time. */
import { StoaError } from '../../errors.js';
import { type PostgresSql, query, transaction } from './connection.js';

const table = 'stoa_migrations';

/** Brings a domain's tables to the newest step. A database that is ahead of this program is refused. */
export async function migrate(sql: PostgresSql, domain: string, steps: readonly string[]): Promise<void> {
  await transaction(sql, async (tx) => {
    // A large table takes its time.
    await query(tx, 'SET LOCAL statement_timeout = 0');
    // The lock ends with the transaction; whoever comes second finds the work done.
    await query(tx, "SELECT pg_advisory_xact_lock(hashtext('stoa_migrations'))");
    await query(tx, `CREATE TABLE IF NOT EXISTS ${table} (domain text NOT NULL, step integer NOT NULL, "appliedAt" timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (domain, step))`);
    const [row] = await query<{ step: number | null }>(tx, `SELECT max(step) AS step FROM ${table} WHERE domain = $1`, [domain]);
    const done = row?.step ?? 0;
    if (done > steps.length) {
      throw new StoaError('newer_data', `The tables of ${domain} are at step ${done}; this program knows ${steps.length}.`, { fix: 'Use the version of Stoa that made them, or a newer one.' });
    }
    for (const [index, statements] of steps.entries()) {
      if (index < done) continue;
      await query(tx, statements);
      await query(tx, `INSERT INTO ${table} (domain, step) VALUES ($1, $2)`, [domain, index + 1]);
    }
  });
}
