/**
 * The one writer of the PostgreSQL home: kept answers, fences and turns, over what any number of servers
 * share.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Caller, operatorCaller } from '../../../../src/core/caller.js';
import { StoaError } from '../../../../src/core/errors.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { writeOne } from '../../../../src/core/write.js';
import { DataService } from '../../../../src/datastore/service.js';
import { type PostgresSql, query } from '../../../../src/homes/postgres/database/connection.js';
import { PostgresDataStore } from '../../../../src/homes/postgres/datastore/datastore.js';
import {
  beginAnswer,
  dropAnswer,
  endAnswer,
  findAnswer,
} from '../../../../src/homes/postgres/write/kept-answers.js';
import type { Work } from '../../../../src/homes/postgres/write/work.js';
import { KnownUsers } from '../../../../src/homes/postgres/known-users.js';
import { takeTurn } from '../../../../src/homes/postgres/database/turns.js';
import { refuseLargeStatements } from '../../../servers/bounded-statements.js';
import { emptyPostgres } from '../../../servers/shared.js';
import { type OpenedData, openBase, openData } from '../open-domains.js';
import { openPostgresBench } from '../workspaces/fixture.js';
import { eventually } from '../../../until.js';

const limits = limitsWith({ sweepStepMax: 3 });
const ada = operatorCaller('ada', 'writer');
const fenced: Caller = { ...ada, agentId: 'agent', fence: 1 };
let url: string;
let opened: OpenedData;
let data: DataService;
let sql: PostgresSql;

beforeAll(async () => {
  ({ url } = await emptyPostgres());
  opened = await openData(
    url,
    { limits, nowMs: Date.now },
    {
      checkFence: async (work, { fence }) => {
        const [lease] = await work.rows<{ fence: number }>('SELECT fence FROM test_leases FOR SHARE');
        if (lease?.fence !== fence) throw new StoaError('fenced', 'The lease has passed on.');
      },
    },
  );
  ({ sql } = opened.base);
  data = new DataService({ ...opened, limits });
  await query(sql, 'CREATE TABLE test_leases (fence integer NOT NULL)');
  await query(sql, 'INSERT INTO test_leases VALUES (1)');
});
afterAll(() => data.close());

function key(name: string): { scope: string; key: string; fingerprint: string; seconds: number } {
  return { scope: 'all', key: name, fingerprint: 'f', seconds: 60 };
}

it('two users may use one Idempotency-Key, and each gets its own answer again', async () => {
  const bob = operatorCaller('bob');
  for (const caller of [ada, bob, ada, bob])
    expect(await data.increment(caller, 'n', 'count', 1, { idempotency: key('shared') })).toMatchObject({
      value: 1,
    });
  expect(await opened.writer.answered(bob, key('shared'))).toMatchObject([{ value: 1 }]);
  expect(await opened.writer.answered(operatorCaller('eve'), key('shared'))).toBeUndefined();
  await expect(
    data.increment(ada, 'n', 'count', 1, { idempotency: { ...key('shared'), fingerprint: 'other' } }),
  ).rejects.toMatchObject({ code: 'idempotency_mismatch' });
});

it('a fence is checked in the transaction, against the lease as it is at the commit', async () => {
  const set = data.steps.set(fenced, 'n', 'fenced', 1);
  expect(await writeOne(opened.writer, { caller: fenced }, set)).toMatchObject({ version: 1 });
  const passed = sql.begin(async (tx) => {
    await tx`UPDATE test_leases SET fence = 2`;
    // The write waits for the row that this transaction has locked.
    const waiting = expect(writeOne(opened.writer, { caller: fenced }, set)).rejects.toMatchObject({
      code: 'fenced',
    });
    // Suites share the server, so the waiting sessions of other databases do not count.
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await eventually(async () => expect(await query(sql, waits)).toHaveLength(1));
    return { waiting };
  });
  await (
    await passed
  ).waiting;
  await expect(writeOne(opened.writer, { caller: fenced }, set)).rejects.toMatchObject({ code: 'fenced' });
  expect((await data.getEntry(ada, 'n', 'fenced'))?.version).toBe(1);
  await query(sql, 'UPDATE test_leases SET fence = 1');
});

it('a fault after the commit is reported, and does not fail a write that is stored', async () => {
  const faults: unknown[] = [];
  const base = await openBase(url, { limits, onError: (error) => faults.push(error) });
  try {
    const acts: string[] = [];
    const run = (name: string) => async (work: Work) => {
      await work.rows('INSERT INTO test_leases SELECT 1 WHERE false');
      work.afterCommit(() => {
        throw new Error(`the fault of ${name}`);
      });
      work.afterCommit(() => void acts.push(name));
      return name;
    };
    expect(await base.writer.transact(run('alone'), ada)).toBe('alone');
    const together = ['one', 'two'].map((name) => ({ caller: ada, run: run(name) }));
    expect(await base.writer.transactTogether(together)).toEqual(['one', 'two']);
    expect(acts).toEqual(['alone', 'one', 'two']);
    expect(faults.map(String)).toEqual(acts.map((name) => `Error: the fault of ${name}`));
  } finally {
    await base.close();
  }
});

function insertLease(fence: number, refusal?: StoaError): (work: Work) => Promise<void> {
  return async (work) => {
    await work.rows('INSERT INTO test_leases VALUES ($1)', [fence]);
    if (refusal !== undefined) throw refusal;
  };
}

it('a write that is refused after it has written undoes those that share its transaction', async () => {
  const refusal = new StoaError('conflict', 'Refused after a statement.');
  const together = [insertLease(7), insertLease(8, refusal)].map((run) => ({ caller: ada, run }));
  await expect(opened.base.writer.transactTogether(together)).rejects.toBe(refusal);
  expect(await query(sql, 'SELECT fence FROM test_leases')).toEqual([{ fence: 1 }]);
});

it('a repeat gets its answer although the lease has passed on since', async () => {
  const options = { idempotency: key('passed on') };
  const first = await data.set(fenced, 'n', 'repeated', 1, options);
  await query(sql, 'UPDATE test_leases SET fence = 2');
  expect(await data.set(fenced, 'n', 'repeated', 1, options)).toEqual(first);
  await query(sql, 'UPDATE test_leases SET fence = 1');
});

it('a user is made by the transaction of its first write, which one that is refused leaves to the next', async () => {
  await query(sql, 'CREATE TABLE test_users (name text PRIMARY KEY)');
  const asked: string[] = [];
  const users = new KnownUsers(async (work, user) => {
    asked.push(user);
    await work.rows('INSERT INTO test_users VALUES ($1)', [user]);
  });
  const { writer } = opened.base;
  const port = new PostgresDataStore(sql, writer, {
    limits,
    users,
    nowMs: Date.now,
    onError: () => undefined,
  });
  const service = new DataService({ port, writer, limits });
  const newcomer = operatorCaller('newcomer');
  const made = (): Promise<unknown> => query(sql, 'SELECT name FROM test_users');
  await expect(service.set(newcomer, 'n', 'k', 1, { ifVersion: 3 })).rejects.toMatchObject({
    code: 'version_conflict',
  });
  expect(await made()).toEqual([]);
  for (const value of [1, 2]) await service.set(newcomer, 'n', 'k', value);
  await service.increment(newcomer, 'n', 'k');
  expect([await made(), asked]).toEqual([[{ name: 'newcomer' }], ['newcomer', 'newcomer']]);
  await service.tracker.close();
});

it('a request whose effects are in a store beside the home is noted from its beginning to its end', async () => {
  const { writer } = opened.base;
  const beside = key('beside');
  const act = (body: Parameters<typeof writer.transact>[0]): Promise<unknown> => writer.transact(body);
  await act((work) => beginAnswer(work, ada, beside));
  await expect(findAnswer(sql, ada, beside)).rejects.toMatchObject({ code: 'idempotency_unrepeatable' });
  await dropAnswer(sql, ada, beside);
  expect(await findAnswer(sql, ada, beside)).toBeUndefined();
  await act(async (work) => endAnswer(work, ada, beside, [{ version: 1 }]));
  expect(await findAnswer(sql, ada, beside)).toEqual([{ version: 1 }]);
  await act(async (work) => endAnswer(work, ada, beside, ['x'.repeat(limits.idempotencyAnswerBytesMax)]));
  await expect(findAnswer(sql, ada, beside)).rejects.toThrow('too large to store');
});

it('answers of every domain count in the bytes of their user', async () => {
  const bench = await openPostgresBench({ dataBytesPerUserMax: 2_000 });
  try {
    const create = (name: string): Promise<unknown> =>
      bench.service.createWorkspace(ada, { name }, { idempotency: key(name) });
    const outcomes = [];
    for (let index = 0; index < 10; index += 1)
      outcomes.push(
        await Promise.resolve(create(`w${index}`)).then(
          () => 'made',
          (error) => error.code,
        ),
      );
    expect(outcomes[0]).toBe('made');
    expect(outcomes.at(-1)).toBe('quota_exceeded');
    const made = outcomes.filter((outcome) => outcome === 'made').length;
    expect((await bench.service.listWorkspaces(ada)).items).toHaveLength(made);
  } finally {
    await bench.close();
  }
});

it('an answer whose time is over is not given again before it is removed', async () => {
  const options = { idempotency: key('expired') };
  for (const value of [1, 1])
    expect(await data.increment(ada, 'n', 'again', 1, options)).toMatchObject({ value });
  await query(sql, 'UPDATE kept_answers SET expires_at = clock_timestamp() WHERE key = $1', [
    JSON.stringify(['all', 'expired']),
  ]);
  expect(await data.increment(ada, 'n', 'again', 1, options)).toMatchObject({ value: 2 });
});

it('answers whose time is over go in small steps', async () => {
  await query(sql, 'DELETE FROM kept_answers');
  for (let index = 0; index < 10; index += 1)
    await data.set(ada, 'n', 'k', index, { idempotency: key(`over ${index}`) });
  await refuseLargeStatements(sql, 'kept_answers', 3);
  const kept = (): Promise<unknown> => query(sql, 'SELECT count(*)::int AS kept FROM kept_answers');
  await opened.base.writer.sweep();
  expect(await kept()).toEqual([{ kept: 10 }]);
  for (let index = 0; index < 10; index += 1)
    await query(sql, 'UPDATE kept_answers SET expires_at = clock_timestamp() WHERE key = $1', [
      JSON.stringify(['all', `over ${index}`]),
    ]);
  await opened.base.writer.sweep();
  expect(await kept()).toEqual([{ kept: 0 }]);
});

it('a server whose work has failed takes only a turn that the others have left free', async () => {
  await takeTurn(sql, 'failing', 60_000);
  const pass = (seconds: number): Promise<unknown> =>
    query(
      sql,
      `UPDATE sweep_turns SET taken_at = taken_at - interval '${seconds} seconds' WHERE name = 'failing'`,
    );
  await pass(61);
  expect(await takeTurn(sql, 'failing', 60_000, true)).toBe(false);
  expect(await takeTurn(sql, 'failing', 60_000)).toBe(true);
  await pass(121);
  expect(await takeTurn(sql, 'failing', 60_000, true)).toBe(true);
});

it('of many servers one has the turn to sweep in each interval', async () => {
  const bases = await Promise.all(Array.from({ length: 4 }, () => openBase(url, { limits })));
  try {
    const turns = async (intervalMs: number): Promise<number> =>
      (
        await Promise.all(bases.flatMap((base) => [1, 2].map(() => takeTurn(base.sql, 'test', intervalMs))))
      ).filter(Boolean).length;
    expect(await turns(60_000)).toBe(1);
    expect(await turns(60_000)).toBe(0);
    await query(
      sql,
      "UPDATE sweep_turns SET taken_at = taken_at - interval '60 seconds' WHERE name = 'test'",
    );
    expect(await turns(60_000)).toBe(1);
    // The clock of the database was set back by an hour.
    await query(sql, "UPDATE sweep_turns SET taken_at = taken_at + interval '1 hour' WHERE name = 'test'");
    expect(await turns(60_000)).toBe(1);
    expect(await turns(60_000)).toBe(0);
  } finally {
    for (const base of bases) await base.close();
  }
});
