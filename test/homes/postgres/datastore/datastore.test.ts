import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dataStoreConformance } from '../../../../src/datastore/conformance/index.js';
import type { DataService } from '../../../../src/datastore/service.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import { type Gate, startGate } from '../../../servers/gate.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { dataOver } from '../../../datastore/data-over.js';
import { openData, openPort } from '../open-domains.js';
import { eventually } from '../../../until.js';

let gate: Gate;
let sql: postgres.Sql;
const services: DataService[] = [];

beforeAll(async () => {
  const { url } = await sharedPostgres();
  gate = await startGate(url);
  sql = postgres(url, { max: 2, onnotice: () => undefined });
});
afterAll(async () => {
  for (const service of services) await service.close();
  await sql.end();
  await gate.close();
});

describe('the data store in PostgreSQL', () => {
  dataStoreConformance(test, {
    open: (options) => openData(gate.url, options),
    putForeign: async ({ _id, userId, namespace, key, value, createdAt, updatedAt }) => {
      await sql.unsafe(
        `INSERT INTO agent_data_store (_id, "userId", namespace, key, value, "createdAt", "updatedAt")
          VALUES ($1, $2, $3, $4, $5::text::json, ($6 || 'Z')::timestamptz, ($7 || 'Z')::timestamptz)`,
        [
          String(_id),
          String(userId),
          String(namespace),
          String(key),
          JSON.stringify(value),
          String(createdAt),
          String(updatedAt),
        ],
      );
    },
    outage: { stop: () => gate.close(), start: () => gate.open() },
  });
});

const caller = operatorCaller('user', 'agent');

async function open(limits: Partial<Limits> = {}): Promise<DataService> {
  const options = { limits: limitsWith(limits), nowMs: Date.now };
  const service = dataOver({
    ...options,
    port: await openPort(gate.url, options),
  });
  services.push(service);
  return service;
}

test('SQL reads a row with the fields of the document and the exact text of its JSON', async () => {
  const data = await open();
  await data.set(caller, 'sql', 'k', { z: 'nul \u0000', a: [1] });
  const [row] =
    await sql`SELECT _id, "userId", namespace, key, value::text, "createdByAgent", "sizeBytes", version
      FROM agent_data_store WHERE namespace = 'sql'`;
  expect(row).toEqual({
    _id: 'user:sql:aw==',
    userId: 'user',
    namespace: 'sql',
    key: 'k',
    value: '{"z":"nul \\u0000","a":[1]}',
    createdByAgent: 'agent',
    sizeBytes: 26,
    version: '1',
  });
});

test('when many processes open it at the same time, the tables are created once', async () => {
  const { url } = await sharedPostgres();
  const options = { limits: limitsWith(), nowMs: Date.now };
  const ports = await Promise.all(Array.from({ length: 6 }, () => openPort(url, options)));
  await Promise.all(ports.map((port) => port.close()));
});

test('tables of a newer version are refused', async () => {
  const { url } = await sharedPostgres();
  const options = { limits: limitsWith(), nowMs: Date.now };
  await (await openPort(url, options)).close();
  const other = postgres(url, { max: 1 });
  await other`INSERT INTO stoa_migrations (domain, step) VALUES ('datastore', 99)`;
  await other.end();
  await expect(openPort(url, options)).rejects.toMatchObject({ code: 'newer_data' });
});

test('parallel writers cannot exceed a quota', async () => {
  const [one, two] = [await open({ dataDocumentsPerUserMax: 5 }), await open({ dataDocumentsPerUserMax: 5 })];
  const user = operatorCaller('quota');
  const attempts = Array.from({ length: 12 }, (_, index) =>
    (index % 2 === 0 ? one : two).set(user, 'n', `k${index}`, index),
  );
  const outcomes = await Promise.allSettled(attempts);
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
  expect((await one.listKeys(user, 'n')).items).toHaveLength(5);
});

test('namespace counts are exact under concurrent writes, including rows of other programs', async () => {
  const [one, two] = [await open(), await open()];
  const user = operatorCaller('counted', 'agent');
  await Promise.all(
    Array.from({ length: 8 }, async (_, writer) => {
      const data = writer % 2 === 0 ? one : two;
      for (let round = 0; round < 25; round += 1) {
        const key = `k${(writer * 7 + round * 3) % 20}`;
        await data.set(
          user,
          `n${round % 3}`,
          key,
          'x'.repeat(round),
          round % 5 === 0 ? { metadata: { round } } : {},
        );
        if (round % 4 === 3) await data.delete(user, `n${(round + 1) % 3}`, key);
        if (round % 6 === 5) await Promise.all([data.listNamespaces(user), data.port.sweepExpired?.(10)]);
        await data.get(user, `n${round % 3}`, key);
      }
    }),
  );
  await Promise.all([one.tracker.flush(), two.tracker.flush()]);
  await sql`UPDATE agent_data_store SET value = '[1, 2, 3]' WHERE "userId" = 'counted' AND namespace = 'n1'`;
  await sql`DELETE FROM agent_data_store WHERE "userId" = 'counted' AND key < 'k13'`;
  await sql`UPDATE agent_data_store SET namespace = 'moved' WHERE "userId" = 'counted' AND namespace = 'n2'`;
  const truth = await sql`SELECT namespace, count(*)::int AS count, sum("sizeBytes")::int AS "sizeBytes"
      FROM agent_data_store WHERE "userId" = 'counted' GROUP BY namespace ORDER BY namespace`;
  const shown = async () =>
    (await one.listNamespaces(user)).items.map(({ namespace, count, sizeBytes }) => ({
      namespace,
      count,
      sizeBytes,
    }));
  expect(truth.length).toBe(3);
  expect(await shown()).toEqual([...truth]);
  await one.port.sweepExpired?.(1);
  expect(await shown()).toEqual([...truth]);
  expect(await sql`SELECT namespace FROM agent_data_store_counts WHERE "userId" = 'counted'`).toHaveLength(3);
  await sql`DELETE FROM agent_data_store WHERE "userId" = 'counted'`;
  expect(await shown()).toEqual([]);
  await one.port.sweepExpired?.(1);
  expect(await sql`SELECT namespace FROM agent_data_store_counts WHERE "userId" = 'counted'`).toHaveLength(0);
});

test('expired documents that are not swept yet are not counted', async () => {
  let nowMs = Date.now();
  const options = { limits: limitsWith(), nowMs: () => nowMs };
  const data = dataOver({ ...options, port: await openPort(gate.url, options) });
  services.push(data);
  const user = operatorCaller('expiring');
  await data.set(user, 'gone', 'k', 1, { ttl: 60 });
  await data.setMany(user, 'half', { a: 'xx' });
  await data.set(user, 'half', 'b', 'yyyy', { ttl: 60 });
  nowMs += 61_000;
  const before = (await data.listNamespaces(user)).items;
  expect(before).toMatchObject([{ namespace: 'half', count: 1, sizeBytes: 4 }]);
  await data.port.sweepExpired?.(100);
  expect((await data.listNamespaces(user)).items).toEqual(before);
});

test('every verb fails in time when the database hangs, and works again afterwards', async () => {
  const quiet = await startGate((await sharedPostgres()).url);
  const options = {
    limits: limitsWith({ statementSecondsMax: 0.4, backendRequestSecondsMax: 0.4 }),
    nowMs: Date.now,
  };
  const data = dataOver({
    ...options,
    port: await openPort(quiet.url, options),
    onError: () => undefined,
  });
  await data.set(caller, 'n', 'k', 1);
  quiet.silence();
  const calls = [
    data.get(caller, 'n', 'k'),
    data.set(caller, 'n', 'k', 2),
    data.set(caller, 'n', 'k', 2, { metadata: { a: 1 } }),
    data.increment(caller, 'n', 'k'),
    data.listKeys(caller, 'n'),
    data.listNamespaces(caller),
    data.clear(caller, 'n'),
  ];
  for (const outcome of await Promise.allSettled(calls))
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'backend_unavailable' } });
  quiet.speak();
  await eventually(async () => expect(await data.get(caller, 'n', 'other')).toBeUndefined());
  await data.set(caller, 'n', 'k', 3);
  expect(await data.get(caller, 'n', 'k')).toBe(3);
  quiet.silence();
  await data.close();
  await quiet.close();
});

test('a batch with one refused item writes nothing', async () => {
  const data = await open();
  await data.setMany(caller, 'atomic', { a: 1 }, { metadata: { note: 'x'.repeat(60_000) } });
  await expect(
    data.setMany(caller, 'atomic', { new: 1, a: 2 }, { metadata: { more: 'x'.repeat(10_000) } }),
  ).rejects.toMatchObject({ code: 'too_large' });
  expect(await data.getMany(caller, 'atomic', ['a', 'new'])).toEqual({ a: 1 });
});

test('a document that is made during a clear comes after it in the feed, and keeps its agent', async () => {
  const data = await open();
  const user = 'cleared meanwhile';
  const late = operatorCaller(user, 'late');
  await data.set(late, 'notes', 'old', 1);
  // The clear will have deleted the documents, and wait for this row.
  const holder = await sql.reserve();
  await holder`BEGIN`;
  await holder`SELECT 1 FROM agent_data_store_agents WHERE "userId" = ${user} FOR UPDATE`;
  const clearing = data.clear(operatorCaller(user), 'notes');
  await eventually(async () => {
    const waiting = await sql`SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM agent_data_store_agents%'`;
    expect(waiting).toHaveLength(1);
  });
  let made = 0;
  const writes = [
    data.set(late, 'notes', 'plain', 1),
    data.set(late, 'notes', 'merged', 1, { metadata: { a: 1 } }),
    data.transfer.import(late, [
      { userId: user, namespace: 'notes', key: 'imported', value: 1, createdAt: '2026-02-05T10:00:00Z' },
    ]),
  ].map((write) => write.finally(() => (made += 1)));
  await eventually(async () => {
    const waiting = await sql`SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%pg_advisory_xact_lock_shared%'`;
    expect(made + waiting.length).toBe(writes.length);
  });
  await holder`COMMIT`;
  holder.release();
  expect(await clearing).toBe(1);
  await Promise.all(writes);
  expect((await data.listNamespaces(late)).items).toMatchObject([{ count: 3, agents: ['late'] }]);
  const listed = await sql`SELECT change->>'kind' AS kind FROM (
      SELECT seq, changes FROM feed.commits UNION ALL
      SELECT write_order + (SELECT max(last_seq) FROM feed.extent), changes FROM feed.incoming) AS feed (seq, changes),
      json_array_elements(changes) AS change WHERE change->>'user' = ${user} ORDER BY seq`;
  expect(listed.map(({ kind }) => kind)).toEqual([
    'document.set',
    'namespace.cleared',
    ...writes.map(() => expect.stringMatching(/^document\.(set|imported)$/)),
  ]);
});

test('a clear waits for a document of an open transaction, and deletes it with its agent', async () => {
  const data = await open();
  const user = 'cleared around a transaction';
  const late = operatorCaller(user, 'late');
  await data.set(late, 'notes', 'old', 1);
  await data.delete(late, 'notes', 'old');
  const holder = await sql.reserve();
  await holder`BEGIN`;
  await holder`LOCK TABLE feed.incoming IN SHARE MODE`;
  const isWaiting = async (text: string): Promise<boolean> =>
    (
      await sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
        AND query LIKE ${`%${text}%`} AND pid <> pg_backend_pid()`
    ).length > 0;
  // Only the row of the feed is missing: the document and its agent are written.
  const creating = data.set(late, 'notes', 'new', 1, { metadata: { a: 1 } });
  await eventually(async () => expect(await isWaiting('INSERT INTO feed.incoming')).toBe(true));
  let isCleared = false;
  const clearing = data.clear(operatorCaller(user), 'notes').finally(() => (isCleared = true));
  await eventually(async () => expect(isCleared || (await isWaiting('pg_advisory_xact_lock'))).toBe(true));
  await holder`COMMIT`;
  holder.release();
  await creating;
  expect(await clearing).toBe(1);
  expect((await data.listNamespaces(late)).items).toEqual([]);
  await data.set(operatorCaller(user), 'notes', 'new', 1);
  expect((await data.listNamespaces(late)).items).toMatchObject([{ count: 1, agents: [] }]);
});

test('sets of documents that others keep locked delay no other set, and hold one connection for each document', async () => {
  const data = await open();
  const locked = ['a', 'b', 'c', 'd'];
  for (const key of [...locked, 'free']) await data.set(caller, 'locked', key, 'before');
  const waiting = (): Promise<unknown[]> =>
    sql.unsafe(
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
  const { sets } = await sql.begin(async (tx) => {
    await tx`SELECT FROM agent_data_store WHERE namespace = 'locked' AND key = ANY(${locked}) FOR UPDATE`;
    const started = Array.from({ length: 10 }, (_, round) =>
      locked.map((key) => data.set(caller, 'locked', key, round)),
    ).flat();
    for (let round = 0; round < 3; round += 1) {
      await data.set(caller, 'locked', 'free', round);
      await data.set(caller, 'locked', `new ${round}`, round);
    }
    await eventually(async () => expect(await waiting()).toHaveLength(locked.length));
    started.push(data.set(caller, 'locked', 'a', 'last'));
    await data.set(caller, 'locked', 'free', 'meanwhile');
    expect(await waiting()).toHaveLength(locked.length);
    return { sets: Promise.all(started) };
  });
  expect(await sets).toHaveLength(41);
  expect(await data.get(caller, 'locked', 'a')).toBe('last');
  expect((await data.getEntry(caller, 'locked', 'b'))?.version).toBe(11);
});
