import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type PostgresSql,
  type Queryable,
  query,
} from '../../../../src/homes/postgres/database/connection.js';
import {
  limitStatements,
  closePostgres,
  listen,
  openPostgres,
} from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { type Gate, startGate } from '../../../servers/gate.js';
import { emptyPostgres } from '../../../servers/shared.js';
import { eventually, until } from '../../../until.js';

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
    const url = new URL((await emptyPostgres()).url);
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
      cutting = until(() => isAsleep(id)).then(() => cut(id));
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

const add = (on: Queryable): Promise<unknown> => query(on, 'INSERT INTO things DEFAULT VALUES');

function times<T>(count: number, act: () => Promise<T>): Promise<T>[] {
  return Array.from({ length: count }, act);
}

describe('a pool', () => {
  let sql: PostgresSql;
  let other: PostgresSql;
  const connections = 4;

  beforeEach(async () => {
    const url = new URL((await emptyPostgres()).url);
    sql = await openPostgres(url, { connectionsMax: connections });
    other = await openPostgres(url, { connectionsMax: 1 });
  });
  afterEach(async () => {
    await sql.end();
    await other.end();
  });

  it('whose connections were all cut fails what was running, and nothing that comes later', async () => {
    const asleep = "datname = current_database() AND wait_event = 'PgSleep'";
    const running = Promise.allSettled(
      Array.from({ length: connections }, () => query(sql, 'SELECT pg_sleep(60)')),
    );
    await until(
      async () =>
        (await query(other, `SELECT 1 FROM pg_stat_activity WHERE ${asleep}`)).length === connections,
    );
    await query(other, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${asleep}`);
    expect(await running).toEqual(
      Array.from({ length: connections }, () => ({
        status: 'rejected',
        reason: expect.objectContaining({ code: 'backend_unavailable' }),
      })),
    );
    const later = await Promise.allSettled(
      Array.from({ length: 2 * connections }, (_, index) =>
        index % 2 === 0
          ? query(sql, 'SELECT 1 AS one')
          : transaction(sql, (tx) => query(tx, 'SELECT 1 AS one')),
      ),
    );
    expect(later).toEqual(later.map(() => ({ status: 'fulfilled', value: [{ one: 1 }] })));
  });

  it('keeps statements out of the transactions of others, however many come at once', async () => {
    await query(sql, 'CREATE TABLE things (number serial)');
    await Promise.all(times(connections, () => query(sql, 'SELECT pg_sleep(0.05)')));
    // As many as the driver sends on its connections without waiting; the transactions come right behind them.
    const statements = times(100 * connections, () => add(sql));
    await new Promise((resolve) => process.nextTick(resolve));
    const outcomes = await Promise.allSettled([...statements, ...times(50, () => transaction(sql, add))]);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(await query(other, 'SELECT count(*)::integer AS things FROM things')).toEqual([
      { things: outcomes.length },
    ]);
  });

  it('refuses a transaction that loses against others at each attempt as overloaded', async () => {
    let attempts = 0;
    const outcome = transaction(sql, async (tx) => {
      attempts += 1;
      await query(tx, "DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '40P01'; END $$");
    });
    await expect(outcome).rejects.toMatchObject({ code: 'overloaded', status: 503 });
    expect(attempts).toBe(20);
  });
});

it('reads what was committed before each statement, also in a database with another default', async () => {
  const url = new URL((await emptyPostgres()).url);
  const direct = await openPostgres(url, { connectionsMax: 1 });
  const name = url.pathname.slice(1);
  await query(direct, `ALTER DATABASE "${name}" SET default_transaction_isolation = 'serializable'`);
  const sql = await openPostgres(url, { connectionsMax: 2 });
  try {
    await query(sql, 'CREATE TABLE things (name text)');
    const seen = await transaction(sql, async (tx) => {
      await query(tx, 'SELECT * FROM things');
      await query(sql, "INSERT INTO things VALUES ('meanwhile')");
      return query(tx, 'SELECT * FROM things');
    });
    expect(seen).toEqual([{ name: 'meanwhile' }]);
  } finally {
    await sql.end();
    await direct.end();
  }
});

describe('a server that stops answering', () => {
  const limits = limitsWith({ statementSecondsMax: 0.4, backendRequestSecondsMax: 0.4 });
  const unavailable = expect.objectContaining({ code: 'backend_unavailable' });
  let gate: Gate;
  let sql: PostgresSql;
  let direct: PostgresSql;

  beforeEach(async () => {
    const { url } = await emptyPostgres();
    gate = await startGate(url);
    sql = await openPostgres(new URL(gate.url), { connectionsMax: 2, limits });
    direct = await openPostgres(new URL(url), { connectionsMax: 1 });
    await query(direct, 'CREATE TABLE things (name text)');
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
    // A busy machine can be late for these short limits too.
    await eventually(async () => {
      expect(await transaction(sql, (tx) => query(tx, 'SELECT 1 AS one'))).toEqual([{ one: 1 }]);
      await Promise.all(Array.from({ length: 4 }, () => query(sql, 'SELECT 1 AS one')));
    });
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

  it('loses no connection that it opens for a caller that has given up', async () => {
    const pool = await openPostgres(new URL(gate.url), { connectionsMax: 1, limits: limitsWith() });
    const lost = "INSERT INTO things VALUES ('lost')";
    const isRefused = (statementSecondsMax: number, work: () => Promise<unknown>): Promise<unknown> => {
      limitStatements(pool, limitsWith({ statementSecondsMax }));
      return expect(work()).rejects.toEqual(unavailable);
    };
    const works: (() => Promise<unknown>)[] = [
      () => query(pool, lost),
      () => transaction(pool, (tx) => query(tx, lost)),
    ];
    try {
      for (const work of works) {
        await query(pool, 'SELECT 1');
        gate.silence();
        await Promise.all([
          isRefused(0.4, () => query(pool, 'SELECT 1')),
          // A new connection is opened for it when the first one has lost the only connection.
          isRefused(1, work),
          // Gets the place of the work while that still waits for its connection.
          isRefused(3, () => query(pool, lost)),
        ]);
        limitStatements(pool, limitsWith({ statementSecondsMax: 5 }));
        gate.speak();
        await query(pool, 'SELECT 1');
      }
    } finally {
      await closePostgres(pool, 1);
    }
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
    // A connection takes long on a busy machine, and a listener is not tried again.
    const patient = limitsWith({ statementSecondsMax: 2, backendRequestSecondsMax: 2 });
    const pool = await openPostgres(new URL(gate.url), { connectionsMax: 2, limits: patient });
    limitStatements(pool, patient);
    await listen(
      pool,
      'news',
      (payload) => heard.push(payload),
      () => (listens += 1),
    );
    // A statement on an open connection notices the silence.
    await query(pool, 'SELECT 1');
    gate.silence();
    await expect(query(pool, 'SELECT 1')).rejects.toEqual(unavailable);
    gate.speak();
    await eventually(() => expect(listens).toBe(2));
    await query(direct, "NOTIFY news, 'again'");
    await eventually(() => expect(heard).toEqual(['again']));
    await closePostgres(pool, 1);
  });

  it('is replaced by the next server of the list, and so is an unreachable one', async () => {
    const second = await startGate((await emptyPostgres()).url);
    const hosts = ['127.0.0.1:1', ...[gate, second].map(({ url }) => new URL(url).host)];
    const list = gate.url.replace(new URL(gate.url).host, hosts.join(',').replaceAll(':', '%3A'));
    const listed = await openPostgres(new URL(list), { connectionsMax: 1, limits });
    try {
      await eventually(async () => expect(await query(listed, 'SELECT 1 AS one')).toEqual([{ one: 1 }]));
      limitStatements(listed, limits);
      gate.silence();
      await expect(query(listed, 'SELECT 1')).rejects.toEqual(unavailable);
      await eventually(async () => expect(await query(listed, 'SELECT 1 AS one')).toEqual([{ one: 1 }]));
    } finally {
      await closePostgres(listed, 1);
      await second.close();
    }
  });

  it('is waited for without an end if the limit is 0', async () => {
    const sql = await openPostgres(new URL((await emptyPostgres()).url), { connectionsMax: 1, limits });
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
    expect(
      await query(
        direct,
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
      ),
    ).toEqual([]);
    expect(await Promise.all([processId(sql), processId(sql)])).toContain(id);
  });
});
