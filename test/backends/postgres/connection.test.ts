import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type PostgresSql, type Queryable, openPostgres, query, transaction } from '../../../src/backends/postgres/connection.js';
import { sharedPostgres } from '../../servers/shared.js';

async function processId(on: Queryable): Promise<number> {
  return Number((await query<{ id: number }>(on, 'SELECT pg_backend_pid() AS id'))[0]?.id);
}

/** The loss of a connection is known as soon as whoever waits for the transaction hears of it. */
async function known(outcome: Promise<unknown>): Promise<void> {
  await Promise.allSettled([outcome]);
}

describe('a transaction whose connection is cut', () => {
  let sql: PostgresSql;
  let other: PostgresSql;

  beforeEach(async () => {
    const url = new URL((await sharedPostgres()).url);
    sql = await openPostgres(url, { connectionsMax: 1 });
    other = await openPostgres(url, { connectionsMax: 1 });
    await query(sql, 'CREATE TABLE things (name text)');
  });
  afterEach(async () => {
    await sql.end();
    await other.end();
  });

  const cut = (id: number): Promise<unknown> => query(other, 'SELECT pg_terminate_backend($1)', [id]);

  const isAsleep = async (id: number): Promise<boolean> => (await query(other, "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'", [id])).length > 0;

  /** After a cut everything is as before: nothing was written, the next transaction works, the process lives. */
  async function expectWhole(): Promise<void> {
    expect(await query(other, 'SELECT * FROM things')).toEqual([]);
    // The driver may tell the news of the lost connection once more, to the first who asks for a new one.
    await Promise.allSettled([transaction(sql, (tx) => query(tx, 'SELECT 1'))]);
    expect(await transaction(sql, (tx) => query(tx, "INSERT INTO things VALUES ('next') RETURNING name"))).toEqual([{ name: 'next' }]);
    // Had anything of the lost transaction been sent after all, it would have arrived before these answers.
    await Promise.all([query(sql, 'SELECT 1'), query(other, 'SELECT 1')]);
    expect(await query(other, 'SELECT * FROM things')).toEqual([{ name: 'next' }]);
  }

  it('between two statements is an error, and takes nobody along', async () => {
    const outcome: Promise<unknown> = transaction(sql, async (tx) => {
      await query(tx, "INSERT INTO things VALUES ('lost')");
      await cut(await processId(tx));
      await known(outcome);
      return query(tx, 'SELECT 1');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    await expectWhole();
  });

  it('inside a statement is one too', async () => {
    let cutting: Promise<unknown> | undefined;
    const outcome = transaction(sql, async (tx) => {
      await query(tx, "INSERT INTO things VALUES ('lost')");
      const id = await processId(tx);
      cutting = vi.waitUntil(() => isAsleep(id), { timeout: 20_000 }).then(() => cut(id));
      return query(tx, 'SELECT pg_sleep(60)');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    await cutting;
    await expectWhole();
  });

  it('before its body has failed for reasons of its own, too', async () => {
    const outcome: Promise<unknown> = transaction(sql, async (tx) => {
      await query(tx, "INSERT INTO things VALUES ('lost')");
      await cut(await processId(tx));
      await known(outcome);
      throw new Error('a reason of its own');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    await expectWhole();
  });
});
