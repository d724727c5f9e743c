/**
 * Examines the tables of a Stoa in SQL: counters against contents, ranks and totals against rooms, leases
 * against what they hold, rows whose record is gone.
 */
import { StoaError } from '../../../core/errors.js';
import type { ExaminedFinding, OnProgress } from '../../../operations/model.js';
import { type PostgresSql, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';
import type { Check } from './check.js';
import { counterChecks } from './counters.js';
import { feedAndMessagingChecks } from './feed-and-messaging.js';
import { recordChecks } from './records.js';

const checks: readonly Check[] = [...feedAndMessagingChecks, ...counterChecks, ...recordChecks];

/** With `repair` each kind of damage is repaired in one transaction that looks again first. */
export async function* examine(
  sql: PostgresSql,
  repair: boolean,
  onProgress?: OnProgress,
): AsyncGenerator<ExaminedFinding> {
  for (const [done, check] of checks.entries()) {
    onProgress?.({ phase: 'records', done, total: checks.length });
    const found = await look(sql, check, repair);
    for (const { key, problem } of found.rows)
      yield {
        family: check.family,
        key,
        kind: check.kind,
        problem,
        repair: check.repair?.about ?? null,
        shard: 0,
        repaired: found.repaired,
      };
  }
}

interface Found {
  readonly rows: readonly { key: string; problem: string }[];
  readonly repaired: boolean;
}

async function look(sql: PostgresSql, check: Check, repair: boolean): Promise<Found> {
  const { repair: correction } = check;
  return transaction(sql, async (tx) => {
    // A large table takes its time.
    await query(tx, 'SET LOCAL statement_timeout = 0');
    const find = () => query<{ key: string; problem: string }>(tx, check.find);
    const found = await find();
    if (!repair || correction === undefined || found.length === 0) return { rows: found, repaired: false };
    // Only now: the lock keeps writers waiting while all rows are counted.
    await query(tx, correction.lock);
    const rows = await find();
    if (rows.length === 0) return { rows, repaired: false };
    await query(tx, correction.statement);
    const left = await find();
    if (left.length > 0)
      throw new StoaError('internal', `The repair of ${check.family} left ${left.length} rows damaged.`);
    return { rows, repaired: true };
  });
}
