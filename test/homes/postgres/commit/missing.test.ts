/** What a commit found missing stays missing until it ends, also for writes that do not take its locks. */
import { randomBytes } from 'node:crypto';
import type { CommitInput } from '../../../../src/commit/schemas.js';
import type { WriteResult } from '../../../../src/datastore/port.js';
import { type PostgresSql, query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import type { Stoa } from '../../../../src/index.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sharedPostgres } from '../../../servers/shared.js';
import { until } from '../../../until.js';
import { ada, useServers } from './fixture.js';

const { open } = useServers();
/** `npm run test:races` has more of them. */
const rounds = Number(process.env['RACE_ROUNDS'] ?? 24);
const roundsAtOnce = 8;

let url: string;
beforeEach(async () => {
  url = (await sharedPostgres()).url;
});

type Checks = NonNullable<CommitInput['checks']>;

interface Race {
  /** Servers of one Stoa: the commits go to the first, the single writes to the last. */
  readonly servers: readonly Stoa[];
  checks(round: number): Checks;
  operations?(round: number): CommitInput['operations'];
  /** A single write that ends what the checks require. */
  create(stoa: Stoa, round: number): Promise<unknown>;
}

/**
 * In each round a commit checks that something is missing and takes a while, and a single write creates it meanwhile. If
 * both succeed, the commit came first, so who reads after the single write sees what the commit wrote. Returns the rounds
 * in which it was not so, and how many commits succeeded.
 */
async function race({
  servers,
  checks,
  operations,
  create,
}: Race): Promise<{ broken: number[]; succeeded: number }> {
  const [first, last] = [servers[0] as Stoa, servers.at(-1) as Stoa];
  const broken: number[] = [];
  let succeeded = 0;
  /** The single write starts so late that about half of the commits come first, however busy the machine is. */
  let delayMsMax = 10;
  const run = async (round: number): Promise<void> => {
    const steps = ['a', 'b', 'c'].map((name) => ({ op: 'data.increment' as const, key: `${name}-${round}` }));
    const commit = first.commit.commit(ada, {
      checks: checks(round),
      operations: [
        ...(operations?.(round) ?? []),
        ...steps,
        { op: 'data.set', key: `done-${round}`, value: 1 },
      ],
    });
    await new Promise((resolve) => setTimeout(resolve, Math.random() * delayMsMax));
    await create(last, round);
    const seen = await last.data.get(ada, 'default', `done-${round}`);
    const { ok } = await commit;
    if (ok) succeeded += 1;
    delayMsMax *= ok ? 0.8 : 1.25;
    if (ok && seen === undefined) broken.push(round);
  };
  for (let round = 0; round < rounds; round += roundsAtOnce)
    await Promise.all(Array.from({ length: roundsAtOnce }, (_, index) => run(round + index)));
  return { broken, succeeded };
}

describe.each([1, 2])('a commit on %i server(s) that found something missing', (count) => {
  let servers: Stoa[];
  beforeEach(async () => {
    servers = [];
    for (let made = 0; made < count; made += 1) servers.push(await open({ postgres: url }));
  });

  /** Some commits must win their race, and some must lose it: otherwise the rounds show nothing. */
  async function expectNoneBroken(one: Omit<Race, 'servers'>): Promise<void> {
    const { broken, succeeded } = await race({ servers, ...one });
    expect(broken).toEqual([]);
    expect(succeeded).toBeGreaterThan(0);
    expect(succeeded).toBeLessThan(rounds);
  }

  it('excludes plain sets of the document', async () => {
    await expectNoneBroken({
      checks: (round) => [{ check: 'data', key: `k-${round}`, version: null }],
      create: (stoa, round) => stoa.data.set(ada, 'default', `k-${round}`, 1),
    });
  });

  it('excludes sets of the document with a version', async () => {
    await expectNoneBroken({
      checks: (round) => [{ check: 'data', key: `k-${round}`, version: 0 }],
      create: (stoa, round) => stoa.data.set(ada, 'default', `k-${round}`, 1, { ifVersion: 0 }),
    });
  });

  it('excludes batches, and increments of the document', async () => {
    await expectNoneBroken({
      checks: (round) => [
        { check: 'data', key: `z-${round}`, version: 0 },
        { check: 'data', key: `y-${round}`, version: 0 },
      ],
      create: (stoa, round) =>
        round % 2 === 0
          ? stoa.data.setMany(ada, 'default', { [`y-${round}`]: 1, [`z-${round}`]: 1 })
          : stoa.data.increment(ada, 'default', `z-${round}`),
    });
  });

  it('excludes plain sets of a document that it deletes in vain', async () => {
    const { broken, succeeded } = await race({
      servers,
      checks: () => [],
      operations: (round) => [{ op: 'data.delete', key: `k-${round}`, if_version: 0 }],
      create: (stoa, round) => stoa.data.set(ada, 'default', `k-${round}`, 1),
    });
    expect(broken).toEqual([]);
    expect(succeeded).toBeGreaterThan(0);
  });

  it('excludes acquisitions of the lock', async () => {
    await expectNoneBroken({
      checks: (round) => [{ check: 'lock', name: `l-${round}`, fence: 0 }],
      create: (stoa, round) => stoa.locks.acquire(ada, `l-${round}`, { ttl: 60 }),
    });
  });

  it('excludes the first lease of an agent that does not exist yet', async () => {
    const ids = Array.from({ length: rounds }, () => randomBytes(32).toString('hex'));
    const idOf = (round: number): string => String(ids[round]);
    const { broken, succeeded } = await race({
      servers,
      checks: (round) => [{ check: 'lease', agent_id: idOf(round), fence: 0 }],
      create: async (stoa, round) => {
        await stoa.registry.putAgent(ada, { agent_id: idOf(round), name: `agent-${round}` });
        await stoa.registry.heartbeat(ada, idOf(round));
      },
    });
    expect(broken).toEqual([]);
    expect(succeeded).toBeGreaterThan(0);
  });
});

describe('a place that a commit keeps free', () => {
  let database: PostgresSql;
  beforeEach(async () => {
    database = await openPostgres(new URL(url), { connectionsMax: 2 });
  });
  afterEach(() => database.end());

  async function rowsOf(table: string): Promise<number> {
    const [counted] = await query<{ rows: string }>(database, `SELECT count(*) AS rows FROM ${table}`);
    return Number(counted?.rows);
  }

  it('leaves no row in any table, after a success and after a refusal', async () => {
    const stoa = await open({ postgres: url });
    await stoa.data.set(ada, 'default', 'other', 1);
    const before = await stoa.data.listNamespaces(ada);
    const tables = [
      'agent_data_store',
      'agent_data_store_counts',
      'find.marks',
      'locks.fences',
      'registry.owners',
      'feed.incoming',
    ];
    const rows = new Map<string, number>();
    for (const table of tables) rows.set(table, await rowsOf(table));
    const checks: Checks = [
      { check: 'data', key: 'missing', version: null },
      { check: 'data', key: 'missing', version: 0 },
      { check: 'lock', name: 'free', fence: 0 },
      { check: 'lease', agent_id: randomBytes(32).toString('hex'), fence: 0 },
    ];
    const held = { op: 'data.delete' as const, key: 'missing', if_version: 0 };
    expect(await stoa.commit.commit(ada, { checks, operations: [held] })).toMatchObject({
      ok: true,
      results: [{ deleted: false }],
    });
    expect(
      await stoa.commit.commit(ada, {
        checks,
        operations: [{ op: 'data.set', key: 'other', value: 2, if_version: 9 }],
      }),
    ).toMatchObject({ ok: false });
    for (const table of tables) expect([table, await rowsOf(table)]).toEqual([table, rows.get(table)]);
    expect(await stoa.data.get(ada, 'default', 'missing')).toBeUndefined();
    expect(await stoa.data.listNamespaces(ada)).toEqual(before);
  });

  /** The processes of the database that wait for a lock, oldest first. */
  async function waiting(count: number): Promise<number[]> {
    let rows: readonly { pid: number }[] = [];
    await until(async () => {
      rows = await query<{ pid: number }>(
        database,
        `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
          ORDER BY query_start`,
      );
      return rows.length === count;
    });
    return rows.map(({ pid }) => pid);
  }

  it.each(['ends', 'is cut off'])(
    'is seen by no one, and a plain set waits until the commit %s',
    async (end) => {
      const stoa = await open({ postgres: url });
      await stoa.data.set(ada, 'default', 'other', 1);
      await stoa.locks.acquire(ada, 'first', { ttl: 60 });
      const before = await stoa.data.listNamespaces(ada);
      let commit!: Promise<unknown>;
      let set!: Promise<WriteResult>;
      // The commit waits for the row of the fences, which it needs after its check.
      await transaction(database, async (tx) => {
        await query(tx, 'SELECT FROM locks.fences FOR UPDATE');
        commit = stoa.commit
          .commit(ada, {
            checks: [{ check: 'data', key: 'missing', version: null }],
            operations: [{ op: 'lock.acquire', name: 'second', ttl: 60 }],
          })
          .then(
            ({ ok }) => ok,
            (error: unknown) => error,
          );
        const [committing = 0] = await waiting(1);
        set = stoa.data.set(ada, 'default', 'missing', 1);
        const first = await Promise.race([waiting(2).then(() => 'it waits'), set]);
        expect(first).toBe('it waits');
        expect(await stoa.data.get(ada, 'default', 'missing')).toBeUndefined();
        expect((await stoa.data.listKeys(ada, 'default')).items).toMatchObject([{ key: 'other' }]);
        expect(await stoa.data.listNamespaces(ada)).toEqual(before);
        expect((await stoa.data.port.exportPage(null, 10)).documents).toMatchObject([{ key: 'other' }]);
        if (end === 'is cut off') await query(database, 'SELECT pg_terminate_backend($1)', [committing]);
      });
      expect(await set).toMatchObject({ version: 1 });
      if (end === 'ends') expect(await commit).toBe(true);
      else expect(await commit).toMatchObject({ code: 'backend_unavailable' });
      expect(await rowsOf('agent_data_store')).toBe(2);
      expect(await stoa.data.listNamespaces(ada)).toMatchObject({ items: [{ count: 2 }] });
    },
  );
});
