/**
 * Changes of documents in the feed of the PostgreSQL home: each once, in the order of the writes of each key.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Change, byAgent } from '../../../../src/core/change.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import {
  documentDeleted,
  documentImported,
  documentSet,
  namespaceCleared,
} from '../../../../src/datastore/changes.js';
import { DataService } from '../../../../src/datastore/service.js';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { type OpenedData, openData } from '../open-domains.js';

const limits = limitsWith();
const ada = operatorCaller('ada', 'writer');
let nowMs = Date.now();
/** Two servers on one database. */
let servers: { opened: OpenedData; data: DataService }[];

beforeAll(async () => {
  const { url } = await sharedPostgres();
  const open = async () => {
    const opened = await openData(url, { limits, nowMs: () => Math.max(nowMs, Date.now()) });
    const { feed } = opened.base;
    return { opened, data: new DataService({ ...opened, limits, feed, onError: () => undefined }) };
  };
  servers = [await open(), await open()];
});
afterAll(async () => {
  for (const { data } of servers) await data.close();
});

/** Commits with changes in the namespace, read from the second server. */
async function commitsIn(namespace: string): Promise<Change[][]> {
  const { feed } = servers[1]!.opened.base;
  await feed.newest();
  const commits: Change[][] = [];
  for (let since: string | undefined; ;) {
    const page = await feed.read({ since, accept: ({ facts }) => facts?.['namespace'] === namespace });
    commits.push(...page.commits.map(({ changes }) => [...changes]));
    since = page.position;
    if (!page.more) return commits;
  }
}

/** The versions of each key in the order of the feed. */
async function versionsIn(namespace: string): Promise<Map<unknown, unknown[]>> {
  const versions = new Map<unknown, unknown[]>();
  for (const { version, facts } of (await commitsIn(namespace)).flat()) {
    const key = String(facts?.['key']);
    versions.set(key, [...(versions.get(key) ?? []), version ?? 0]);
  }
  return versions;
}

function upTo(version: number): number[] {
  return Array.from({ length: version }, (_, index) => index + 1);
}

const by = (change: Change): Change => byAgent(change, 'writer');

test('every kind of change is announced once, in the transaction of its write', async () => {
  const { data, opened } = servers[0]!;
  // A namespace and keys that must be percent-encoded in a path.
  const namespace = 'a/b ü';
  const scope = { user: 'ada', namespace };
  const notes = data.open(ada, namespace);
  await notes.set('a', 1);
  await notes.set('a', 2, { metadata: { by: 'test' } });
  await notes.set('a', 3, { ifVersion: 2 });
  await expect(notes.set('a', 4, { ifVersion: 2 })).rejects.toMatchObject({ code: 'version_conflict' });
  await notes.setMany({ b: 1, '..': 1 });
  await notes.increment('n');
  await data.batch(ada, namespace, { set: { d: 1 }, delete: ['b', 'missing'] });
  expect(await notes.delete('..')).toBe(true);
  expect(await notes.delete('..')).toBe(false);
  await data.transfer.import(ada, [
    { userId: 'ada', namespace, key: 'i', value: 1, version: 7, createdAt: '2026-02-05T10:00:00Z' },
  ]);
  await opened.writer.write({ caller: ada }, [
    data.steps.set(ada, namespace, 'x', 1),
    data.steps.delete(ada, namespace, 'd'),
  ]);
  await notes.set('brief', 1, { ttl: 1 });
  nowMs = Date.now() + 2_000;
  await data.port.sweepExpired?.(100);
  await notes.clear();
  expect(await commitsIn(namespace)).toEqual([
    [by(documentSet(scope, 'a', 1))],
    [by(documentSet(scope, 'a', 2))],
    [by(documentSet(scope, 'a', 3))],
    expect.arrayContaining([by(documentSet(scope, 'b', 1)), by(documentSet(scope, '..', 1))]),
    [by(documentSet(scope, 'n', 1))],
    [by(documentSet(scope, 'd', 1)), by(documentDeleted(scope, 'b'))],
    [by(documentDeleted(scope, '..'))],
    [by(documentImported(scope, 'i', 7))],
    [by(documentSet(scope, 'x', 1)), by(documentDeleted(scope, 'd'))],
    [by(documentSet(scope, 'brief', 1))],
    [documentDeleted(scope, 'brief', true)],
    [by(namespaceCleared(scope, 4, null, null))],
  ]);
});

test('a write that is refused announces nothing', async () => {
  const { data, opened } = servers[0]!;
  await expect(
    opened.writer.write({ caller: ada }, [
      data.steps.set(ada, 'refused', 'a', 1),
      data.steps.set(ada, 'refused', 'b', 1, { ifVersion: 4 }),
    ]),
  ).rejects.toMatchObject({ code: 'version_conflict' });
  expect(await commitsIn('refused')).toEqual([]);
});

test('the row has the agents of the first and the last write', async () => {
  const { data, opened } = servers[0]!;
  const other = operatorCaller('ada', 'other');
  await data.set(ada, 'agents', 'plain', 1);
  await data.set(other, 'agents', 'plain', 2);
  await data.set(ada, 'agents', 'merged', 1, { metadata: { a: 1 } });
  await data.increment(other, 'agents', 'merged');
  await data.set(operatorCaller('ada'), 'agents', 'nobody', 1);
  const rows = await query(
    opened.base.sql,
    `SELECT key, "createdByAgent" AS first, "updatedByAgent" AS last FROM agent_data_store
      WHERE namespace = 'agents' ORDER BY key`,
  );
  expect(rows).toEqual([
    { key: 'merged', first: 'writer', last: 'other' },
    { key: 'nobody', first: null, last: null },
    { key: 'plain', first: 'writer', last: 'other' },
  ]);
  const changes = (await commitsIn('agents')).flat();
  expect(changes.map(({ facts, agent }) => [facts?.['key'], agent])).toEqual([
    ['plain', 'writer'],
    ['plain', 'other'],
    ['merged', 'writer'],
    ['merged', 'other'],
    ['nobody', undefined],
  ]);
});

test('a set takes two statements, or one without an agent', async () => {
  const { data, opened } = servers[0]!;
  const { sql } = opened.base;
  const original = sql.unsafe.bind(sql);
  const statements: string[] = [];
  sql.unsafe = ((...given: Parameters<typeof original>) => {
    statements.push(given[0]);
    return original(...given);
  }) as typeof sql.unsafe;
  const ofDocuments = (): string[] => statements.filter((text) => text.includes('agent_data_store'));
  try {
    await data.set(ada, 'trips', 'k', 1);
    expect(ofDocuments()).toHaveLength(2);
    statements.length = 0;
    await data.set(operatorCaller('ada'), 'trips', 'k', 1);
    expect(ofDocuments()).toHaveLength(1);
  } finally {
    sql.unsafe = original;
  }
});

test('changes of one key stay in order, on any server and for any kind of write', async () => {
  await Promise.all(
    Array.from({ length: 40 }, async (_, writer) => {
      const notes = servers[writer % 2]!.data.open(ada, 'busy');
      for (let round = 0; round < 10; round += 1) {
        if (writer % 4 === 0) await notes.set('k', round, { metadata: { writer } });
        else if (writer % 4 === 1) await notes.increment(`n${writer % 3}`);
        else if (writer % 4 === 2) await notes.setMany({ k: round, [`n${writer % 3}`]: 1 });
        else await notes.set('k', round);
      }
    }),
  );
  const versions = await versionsIn('busy');
  for (const key of ['k', 'n0', 'n1', 'n2']) {
    const version = (await servers[0]!.data.getEntry(ada, 'busy', key))?.version ?? 0;
    expect([key, versions.get(key)]).toEqual([key, upTo(version)]);
  }
}, 60_000);

test('after cut connections, every write has its change and every change has its write', async () => {
  const { sql } = servers[0]!.opened.base;
  const stop = new AbortController();
  const writing = Promise.all(
    Array.from({ length: 12 }, async (_, writer) => {
      const { data } = servers[writer % 2]!;
      for (let round = 0; !stop.signal.aborted; round += 1) {
        const options = round % 3 === 0 ? { metadata: { round } } : {};
        await data.set(ada, 'cut', `k${writer % 5}`, round, options).catch(() => undefined);
      }
    }),
  );
  for (let cut = 0; cut < 15; cut += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    await query(
      sql,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.5`,
    ).catch(() => undefined);
  }
  stop.abort();
  await writing;
  const versions = await versionsIn('cut');
  expect(versions.size).toBe(5);
  for (const [key, announced] of versions) {
    const version = (await servers[1]!.data.getEntry(ada, 'cut', String(key)))?.version ?? 0;
    expect([key, announced]).toEqual([key, upTo(version)]);
  }
}, 60_000);
