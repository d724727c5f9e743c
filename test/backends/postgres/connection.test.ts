import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type PostgresSql, type Queryable, openPostgres, query, transaction } from '../../../src/backends/postgres/connection.js';
import { sharedPostgres } from '../../servers/shared.js';

async function processId(on: Queryable): Promise<number> {
  return Number((await query<{ id: number }>(on, 'SELECT pg_backend_pid() AS id'))[0]?.id);
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

  /** After a cut everything is as before: nothing was written, the next transaction works, the process lives. */
  async function expectWhole(): Promise<void> {
    expect(await query(other, 'SELECT * FROM things')).toEqual([]);
    // The driver may tell the news of the lost connection once more, to the first who asks for a new one.
    await Promise.allSettled([transaction(sql, (tx) => query(tx, 'SELECT 1'))]);
    expect(await transaction(sql, (tx) => query(tx, "INSERT INTO things VALUES ('next') RETURNING name"))).toEqual([{ name: 'next' }]);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await query(other, 'SELECT * FROM things')).toEqual([{ name: 'next' }]);
  }

  it('between two statements is an error, and takes nobody along', async () => {
    const outcome = transaction(sql, async (tx) => {
      await query(tx, "INSERT INTO things VALUES ('lost')");
      await cut(await processId(tx));
      await new Promise((resolve) => setTimeout(resolve, 200));
      return query(tx, 'SELECT 1');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    await expectWhole();
  });

  it('inside a statement is one too', async () => {
    const outcome = transaction(sql, async (tx) => {
      await query(tx, "INSERT INTO things VALUES ('lost')");
      const id = await processId(tx);
      setTimeout(() => void cut(id), 100);
      return query(tx, 'SELECT pg_sleep(5)');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    await expectWhole();
  });

  it('before its body has failed for reasons of its own, too', async () => {
    const outcome = transaction(sql, async (tx) => {
      await query(tx, "INSERT INTO things VALUES ('lost')");
      await cut(await processId(tx));
      await new Promise((resolve) => setTimeout(resolve, 200));
      throw new Error('a reason of its own');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    await expectWhole();
  });
});
