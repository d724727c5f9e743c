import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type PostgresSql,
  type Queryable,
  limitStatements,
  closePostgres,
  listen,
  openPostgres,
  query,
  transaction,
} from '../../../../src/homes/postgres/database/connection.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { type Gate, startGate } from '../../../servers/gate.js';
import { sharedPostgres } from '../../../servers/shared.js';

async function processId(on: Queryable): Promise<number> {
  return Number((await query<{ id: number }>(on, 'SELECT pg_backend_pid() AS id'))[0]?.id);
}

/** The pool knows of a lost connection when the transaction's caller gets the error. */
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

  const isAsleep = async (id: number): Promise<boolean> =>
    (await query(other, "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'", [id]))
      .length > 0;

  /** After a disconnect nothing was written, the next transaction works, and the process is alive. */
  async function expectWhole(): Promise<void> {
    expect(await query(other, 'SELECT * FROM things')).toEqual([]);
    // The driver may report the lost connection once more, to the next caller that needs one.
    await Promise.allSettled([transaction(sql, (tx) => query(tx, 'SELECT 1'))]);
    expect(
      await transaction(sql, (tx) => query(tx, "INSERT INTO things VALUES ('next') RETURNING name")),
    ).toEqual([{ name: 'next' }]);
    // Had anything of the lost transaction been sent after all, it would have arrived before these answers.
    await Promise.all([query(sql, 'SELECT 1'), query(other, 'SELECT 1')]);
    expect(await query(other, 'SELECT * FROM things')).toEqual([{ name: 'next' }]);
  }

  it('between two statements is an error, and other transactions are not affected', async () => {
    const outcome: Promise<unknown> = transaction(sql, async (tx) => {
      await query(tx, "INSERT INTO things VALUES ('lost')");
      await cut(await processId(tx));
      await known(outcome);
      return query(tx, 'SELECT 1');
    });
    await expect(outcome).rejects.toMatchObject({ code: 'backend_unavailable' });
    await expectWhole();
  });

  it('inside a statement is an error', async () => {
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

  it('before its body fails for another reason is an error', async () => {
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

describe('a server that stops answering', () => {
  const limits = limitsWith({ statementSecondsMax: 0.4, backendRequestSecondsMax: 0.4 });
  const unavailable = expect.objectContaining({ code: 'backend_unavailable' });
  let gate: Gate;
  let sql: PostgresSql;
  let direct: PostgresSql;

  beforeEach(async () => {
    const { url } = await sharedPostgres();
    gate = await startGate(url);
    sql = await openPostgres(new URL(gate.url), { connectionsMax: 2, limits });
    direct = await openPostgres(new URL(url), { connectionsMax: 1 });
    await query(sql, 'CREATE TABLE things (name text)');
    limitStatements(sql, limits);
  });
  afterEach(async () => {
    await closePostgres(sql, 1);
    await direct.end();
    await gate.close();
  });

  /** The pool works as before, on new connections. */
  async function expectRecovered(): Promise<void> {
    gate.speak();
    await vi.waitFor(
      async () => expect(await transaction(sql, (tx) => query(tx, 'SELECT 1 AS one'))).toEqual([{ one: 1 }]),
      20_000,
    );
    expect(await Promise.all(Array.from({ length: 4 }, () => query(sql, 'SELECT 1 AS one')))).toHaveLength(4);
  }

  it('is a refusal for a statement, for those that wait for a connection, and for a transaction that would begin', async () => {
    gate.silence();
    const statements = Array.from({ length: 5 }, (_, index) =>
      query(sql, 'INSERT INTO things VALUES ($1)', [`lost ${index}`]),
    );
    const outcomes = await Promise.allSettled([
      ...statements,
      transaction(sql, (tx) => query(tx, "INSERT INTO things VALUES ('lost')")),
    ]);
    expect(outcomes).toEqual(outcomes.map(() => ({ status: 'rejected', reason: unavailable })));
    await expectRecovered();
    expect(await query(direct, 'SELECT name FROM things')).toEqual([]);
  });

  it.each(['between its statements', 'before it is committed'])(
    'is a refusal for a transaction %s',
    async (when) => {
      const outcome = transaction(sql, async (tx) => {
        await query(tx, "INSERT INTO things VALUES ('lost')");
        gate.silence();
        if (when === 'between its statements') await query(tx, 'SELECT 1');
      });
      await expect(outcome).rejects.toEqual(unavailable);
      await expectRecovered();
    },
  );

  it('refuses new listeners, and existing listeners get notifications again after it recovers', async () => {
    const heard: string[] = [];
    let listens = 0;
    await listen(
      sql,
      'news',
      (payload) => heard.push(payload),
      () => (listens += 1),
    );
    gate.silence();
    await expect(query(sql, 'SELECT 1')).rejects.toEqual(unavailable);
    await expectRecovered();
    await vi.waitFor(() => expect(listens).toBe(2), 20_000);
    await query(direct, "NOTIFY news, 'again'");
    await vi.waitFor(() => expect(heard).toEqual(['again']), 20_000);
  });

  it('is replaced by the next server of the list, and so is an unreachable one', async () => {
    const second = await startGate((await sharedPostgres()).url);
    const hosts = ['127.0.0.1:1', ...[gate, second].map(({ url }) => new URL(url).host)];
    const list = gate.url.replace(new URL(gate.url).host, hosts.join(',').replaceAll(':', '%3A'));
    const listed = await openPostgres(new URL(list), { connectionsMax: 1, limits });
    try {
      await vi.waitFor(
        async () => expect(await query(listed, 'SELECT 1 AS one')).toEqual([{ one: 1 }]),
        20_000,
      );
      limitStatements(listed, limits);
      gate.silence();
      await expect(query(listed, 'SELECT 1')).rejects.toEqual(unavailable);
      await vi.waitFor(
        async () => expect(await query(listed, 'SELECT 1 AS one')).toEqual([{ one: 1 }]),
        20_000,
      );
    } finally {
      await closePostgres(listed, 1);
      await second.close();
    }
  });

  it('is waited for without an end if the limit is 0', async () => {
    const sql = await openPostgres(new URL((await sharedPostgres()).url), { connectionsMax: 1, limits });
    try {
      limitStatements(sql, limitsWith({ statementSecondsMax: 0 }));
      expect(await transaction(sql, (tx) => query(tx, 'SELECT pg_sleep(0.05)::text AS slept'))).toEqual([
        { slept: '' },
      ]);
    } finally {
      await closePostgres(sql, 1);
    }
  });

  it('a slow statement is cancelled, and its connection stays usable', async () => {
    // The server itself is quick to end it; how long it is waited for does not matter here.
    limitStatements(sql, limitsWith());
    const id = await processId(sql);
    await expect(query(sql, 'SELECT pg_sleep(60)')).rejects.toMatchObject({
      code: 'backend_unavailable',
      message: expect.stringContaining('statement timeout'),
    });
    expect(await query(direct, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).toEqual([]);
    expect(await Promise.all([processId(sql), processId(sql)])).toContain(id);
  });
});
