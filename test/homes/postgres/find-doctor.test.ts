/** What `stoa doctor` finds in the search index in PostgreSQL, and what `stoa reindex` makes of it. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type PostgresSql, query } from '../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../src/homes/postgres/database/transaction.js';
import type { PostgresFind } from '../../../src/homes/postgres/find/find.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { ada, expectMended, fillIndex, findings, seen } from '../../find/index-at-work.js';
import { sharedHome } from '../../servers/shared.js';
import { until } from '../../until.js';

const everything = { user: null, namespace: null };
let stoa: Stoa;
let second: Stoa;
let sql: PostgresSql;
let before: unknown[];
const indexOf = (of: Stoa) => of.find.port as PostgresFind; // The home of these is PostgreSQL.
const settle = () => indexOf(stoa).fileAll();

beforeAll(async () => {
  const { options } = await sharedHome();
  // Filing happens only where the test asks for it, and scores depend on the age of things.
  const nowMs = Date.now();
  const open = () =>
    openStoa({ ...options, clock: () => nowMs, sweepIntervalMs: 3_600_000, onError: () => undefined });
  stoa = await open();
  second = await open();
  sql = await openPostgres(new URL(options.postgres));
  await fillIndex(stoa, settle);
  before = await seen(stoa);
});
afterEach(async () => {
  expect(await findings(stoa, true)).toEqual([]);
});
afterAll(async () => {
  await closePostgres(sql, 5);
  await second.close();
  await stoa.close();
});

it('is right after writes, deletions and filing', async () => {
  expect(await findings(stoa)).toEqual([]);
});

it.each([
  ['a mark that got lost', 'DELETE FROM find.marks', /does not have the document "late"/],
  [
    'a segment that got lost, and its blocks without it',
    'DELETE FROM find.segments WHERE segment = (SELECT min(segment) FROM find.segments)',
    /blocks belong to a segment .* that does not exist[^]*does not have/,
  ],
  [
    'words that got lost',
    `DELETE FROM find.blocks WHERE ctid = (SELECT ctid FROM find.blocks WHERE owner = 'ada' LIMIT 1)`,
    /has other words of/,
  ],
  ['counts that are wrong', 'UPDATE find.segments SET entries = entries + 1', /counts \d+ entries/],
  [
    'a segment that cannot be read',
    `UPDATE find.segments SET catalog = '\\xff01' WHERE owner = 'ada'`,
    /cannot be read/,
  ],
  [
    'an entry whose document another program deleted without the trigger',
    `SET LOCAL session_replication_role = replica; DELETE FROM agent_data_store WHERE key = 'key-4'`,
    /has the document "key-4" of notes, which does not exist/,
  ],
])('finds and repairs %s', async (name, damage, problem) => {
  await transaction(sql, async (tx) => {
    for (const statement of damage.split('; ')) await query(tx, statement);
  });
  if (name.includes('another program')) {
    expect((await findings(stoa)).map((finding) => finding.problem).join('\n')).toMatch(problem);
    await findings(stoa, true);
    before = await seen(stoa);
    expect(JSON.stringify(before)).not.toContain('key-4');
  } else await expectMended(stoa, problem, before);
  await settle();
});

it('finds an entry that came back to life', async () => {
  await stoa.data.set(ada, 'plans', 'key-1', { text: 'walrus number one', title: 'ice' });
  await settle();
  await query(sql, `UPDATE find.segments SET dead = '' WHERE dead_entries > 0`);
  const problems = (await findings(stoa)).map(({ problem }) => problem).join('\n');
  expect(problems).toMatch(/of them dead, and has \d+ and 0[^]*"key-1" of plans 2 times/);
  await findings(stoa, true);
  before = await seen(stoa);
  await settle();
});

it('is made again by reindex, which callers on two servers share', async () => {
  for (const table of ['segments', 'blocks', 'marks']) await query(sql, `TRUNCATE find.${table}`);
  const [one, two, three] = await Promise.all([
    indexOf(stoa).reindex(everything, () => undefined),
    indexOf(stoa).reindex(everything, () => undefined),
    indexOf(second).reindex(everything, () => undefined),
  ]);
  expect(two).toBe(one);
  expect(Math.max(one.filed, three.filed)).toBeGreaterThan(30);
  expect(await query(sql, 'SELECT * FROM find.reindexing')).toEqual([]);
  expect(await findings(stoa)).toEqual([]);
  expect(await seen(second)).toEqual(before);
});

it('leaves a reindex to its server for as long as one step takes', async () => {
  const job = async () =>
    (
      await query<{ worker: string; seen: string }>(
        sql,
        'SELECT worker, seen_at AS seen FROM find.reindexing',
      )
    )[0];
  const reindexing = await transaction(sql, async (tx) => {
    await query(tx, 'LOCK TABLE find.segments IN ACCESS EXCLUSIVE MODE');
    const started = [indexOf(stoa).reindex(everything, () => undefined)];
    await until(async () => {
      const waiting = await query(
        sql,
        `SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'find.segments'::regclass`,
      );
      return waiting.length > 0;
    });
    const begun = await job();
    started.push(indexOf(second).reindex(everything, () => undefined));
    // Nothing but a report of the waiting server changes the time.
    await until(async () => (await job())?.seen !== begun?.seen);
    expect((await job())?.worker).toBe(begun?.worker);
    return started;
  });
  const reports = await Promise.all(reindexing);
  expect(Math.max(...reports.map(({ filed }) => filed))).toBeGreaterThan(30);
  expect(await query(sql, 'SELECT * FROM find.reindexing')).toEqual([]);
});

it('continues a reindex of a server that died', async () => {
  await query(
    sql,
    `INSERT INTO find.reindexing (owner, namespace, total, position, worker, seen_at)
      VALUES ('', '', 34, '{"owner":"","kind":"data","after":null}', 'dead', now() - interval '1 minute')`,
  );
  await query(sql, 'DELETE FROM find.blocks');
  await indexOf(second).reindex(everything, () => undefined);
  expect(await query(sql, 'SELECT * FROM find.reindexing')).toEqual([]);
  expect(await seen(stoa)).toEqual(before);
});
