/**
 * Documents in a real PostgreSQL and their changes in the feed: each exactly once, also when servers are
 * killed.
 */
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { openPostgres } from '../../../../src/homes/postgres/connection.js';
import { dataMigrations } from '../../../../src/homes/postgres/datastore/sql.js';
import { openPostgresDataStore } from '../../../../src/homes/postgres/datastore/datastore.js';
import { migrate } from '../../../../src/homes/postgres/migrate.js';
import { type DocumentChange, Stoa as Client } from '../../../../src/client/index.js';
import {
  documentDeleted,
  documentImported,
  documentSet,
  namespaceCleared,
} from '../../../../src/datastore/changes.js';
import { dataStoreConformance } from '../../../../src/datastore/conformance/index.js';
import type { OutboxChanges, OutboxGate } from '../../../../src/datastore/port.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { type RunningServer, useProgram } from '../../../cli/program.js';
import { Running } from '../../../server/running.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { dataOver } from '../../../datastore/data-over.js';

const program = useProgram();
const ada = operatorCaller('ada', 'writer');
let sql: postgres.Sql;
let url: string;

beforeAll(async () => {
  ({ url } = await sharedPostgres());
  sql = postgres(url, { max: 2, onnotice: () => undefined });
});
afterAll(() => sql.end());

async function ownSchema(name: string): Promise<string> {
  await sql.unsafe(`CREATE SCHEMA feed_${name}`);
  const own = new URL(url);
  own.searchParams.set('schema', `feed_${name}`);
  return own.href;
}

/** A feed in memory, which can be out of order. */
class MemoryGate implements OutboxGate {
  readonly feed = `memory ${process.pid}`;
  readonly told: OutboxChanges[] = [];
  isBroken = false;

  async carry(entries: readonly OutboxChanges[]): Promise<void> {
    if (this.isBroken) throw new Error('The disk of the feed is full.');
    this.told.push(...entries);
  }
  forget(): void {}
  carried(): string[] {
    return [];
  }
  async close(): Promise<void> {}
}

describe('the data store in PostgreSQL with an outbox', () => {
  dataStoreConformance(test, {
    open: async (options) => {
      const port = await openPostgresDataStore(new URL(url), { ...options, gate: new MemoryGate() });
      return { port, writer: port.writer };
    },
  });
});

function toldIn(stoa: Stoa, namespace: string): unknown[] {
  const { commits } = stoa.kernel.feed.read({
    accept: ({ domain, facts }) => domain === 'data' && facts?.['namespace'] === namespace,
  });
  return commits.map(({ changes }) =>
    changes.map(({ kind, version, facts }) => [
      kind,
      facts?.['key'] ?? facts?.['deleted'],
      version,
      ...['expired', 'imported'].filter((fact) => facts?.[fact] === true),
    ]),
  );
}

test('every kind of change is announced once, commit by commit, and the outbox is empty afterwards', async () => {
  const datastore = await ownSchema('kinds');
  let nowMs = Date.now();
  const stoa = await openStoa({ data: 'unused', engine: 'memory', datastore, clock: () => nowMs });
  const notes = stoa.data.open(ada, 'notes');
  await notes.set('a', 1);
  await notes.set('a', 2, { metadata: { by: 'test' } });
  await notes.set('a', 3, { ifVersion: 2 });
  await expect(notes.set('a', 4, { ifVersion: 2 })).rejects.toMatchObject({ code: 'version_conflict' });
  await notes.setMany({ b: 1, c: 1 });
  await notes.increment('n');
  await notes.update('n', () => 5);
  await stoa.data.batch(ada, 'notes', { set: { d: 1 }, delete: ['b', 'missing'] });
  expect(await notes.delete('c')).toBe(true);
  expect(await notes.delete('c')).toBe(false);
  await stoa.data.transfer.import(ada, [
    { userId: 'ada', namespace: 'notes', key: 'i', value: 1, version: 7, createdAt: '2026-02-05T10:00:00Z' },
  ]);
  await stoa.commit.commit(ada, {
    operations: [
      { op: 'data.set', namespace: 'notes', key: 'x', value: 1 },
      { op: 'data.delete', namespace: 'notes', key: 'd' },
    ],
  });
  await notes.set('brief', 1, { ttl: 1 });
  nowMs += 2_000;
  await stoa.data.port.sweepExpired?.(100);
  await notes.clear();
  expect(toldIn(stoa, 'notes')).toEqual([
    [['document.set', 'a', 1]],
    [['document.set', 'a', 2]],
    [['document.set', 'a', 3]],
    [
      ['document.set', 'b', 1],
      ['document.set', 'c', 1],
    ],
    [['document.set', 'n', 1]],
    [['document.set', 'n', 2]],
    [
      ['document.set', 'd', 1],
      ['document.deleted', 'b', null],
    ],
    [['document.deleted', 'c', null]],
    [['document.set', 'i', 7, 'imported']],
    [
      ['document.set', 'x', 1],
      ['document.deleted', 'd', null],
    ],
    [['document.set', 'brief', 1]],
    [['document.deleted', 'brief', null, 'expired']],
    [['namespace.cleared', 4, null]],
  ]);
  await vi.waitFor(
    async () => expect(await sql`SELECT * FROM feed_kinds.agent_data_store_outbox`).toHaveLength(0),
    { timeout: 10_000 },
  );
  await stoa.close();
});

test('a write succeeds while the feed is unavailable, and is announced later, in order', async () => {
  const datastore = new URL(await ownSchema('broken'));
  const [gate, faults] = [new MemoryGate(), [] as unknown[]];
  const options = {
    limits: limitsWith(),
    nowMs: Date.now,
    gate,
    onError: (error: unknown) => void faults.push(error),
  };
  const data = dataOver({
    port: await openPostgresDataStore(datastore, options),
    limits: options.limits,
  });
  gate.isBroken = true;
  for (let value = 1; value <= 5; value += 1) await data.set(ada, 'n', 'k', value);
  expect([await data.get(ada, 'n', 'k'), gate.told, faults.length > 0]).toEqual([5, [], true]);
  await data.close();
  // The server did not handle it again: another start finds the rest of the first one.
  gate.isBroken = false;
  const again = await openPostgresDataStore(datastore, options);
  expect(gate.told.flatMap(({ changes }) => changes.map(({ version }) => version))).toEqual([1, 2, 3, 4, 5]);
  await again.close();
  expect(await sql`SELECT * FROM feed_broken.agent_data_store_outbox`).toHaveLength(0);
});

test('users whose writes share a statement are announced separately, and a refused announcement does not affect the other user', async () => {
  const datastore = new URL(await ownSchema('shared'));
  const [gate, faults] = [new MemoryGate(), [] as unknown[]];
  const carry = gate.carry.bind(gate);
  gate.carry = async (entries) => {
    if (entries[0]?.changes[0]?.user === 'bob' && faults.length === 0) throw new Error('Not now.');
    return carry(entries);
  };
  const options = {
    limits: limitsWith(),
    nowMs: Date.now,
    gate,
    onError: (error: unknown) => void faults.push(error),
  };
  const port = await openPostgresDataStore(datastore, options);
  const data = dataOver({ port, limits: options.limits });
  await Promise.all([data.set(ada, 'n', 'k', 1), data.set(operatorCaller('bob'), 'n', 'k', 1)]);
  expect(await sql`SELECT * FROM feed_shared.agent_data_store_outbox`).toHaveLength(1);
  await port.settleFeed();
  // A gate without marks gets ada's change twice; the real one recognises its number.
  expect(
    gate.told
      .map(({ changes }) => changes.map(({ user }) => user))
      .flat()
      .toSorted(),
  ).toEqual(['ada', 'ada', 'bob']);
  expect(faults).toHaveLength(1);
  await data.close();
  expect(await sql`SELECT * FROM feed_shared.agent_data_store_outbox`).toHaveLength(0);
});

test('an outbox of the first layout is emptied by a program with the second layout', async () => {
  const datastore = new URL(await ownSchema('older'));
  const gate = new MemoryGate();
  const options = { limits: limitsWith(), nowMs: Date.now, gate };
  const own = await openPostgres(datastore);
  await migrate(own, 'datastore', dataMigrations.slice(0, 3));
  const row = (kind: string, rest: Record<string, unknown>): Record<string, unknown> => ({
    feed: gate.feed,
    kind,
    userId: 'ada',
    namespace: 'n',
    ...rest,
  });
  for (const one of [
    row('set', { key: 'a', version: 3 }),
    row('deleted', { key: 'b' }),
    row('expired', { key: 'c' }),
    row('imported', { key: 'd', version: 9 }),
    row('cleared', { deleted: 4, after: 'a', through: 'f' }),
  ]) {
    await own`INSERT INTO agent_data_store_outbox ${own(one)}`;
  }
  await own.end();
  const port = await openPostgresDataStore(datastore, options);
  const scope = { user: 'ada', namespace: 'n' };
  expect(gate.told.flatMap(({ changes }) => changes)).toEqual([
    documentSet(scope, 'a', 3),
    documentDeleted(scope, 'b'),
    documentDeleted(scope, 'c', true),
    documentImported(scope, 'd', 9),
    namespaceCleared(scope, 4, 'a', 'f'),
  ]);
  await port.close();
});

test('changes of one key are in the feed in the order of the writes', async () => {
  const stoa = await openStoa({ data: 'unused', engine: 'memory', datastore: await ownSchema('order') });
  const notes = stoa.data.open(ada, 'busy');
  await Promise.all(
    Array.from({ length: 40 }, async (_, writer) => {
      for (let round = 0; round < 10; round += 1) {
        if (writer % 4 === 0) await notes.set('k', round, { metadata: { writer } });
        else if (writer % 4 === 1) await notes.increment(`n${writer % 3}`);
        else if (writer % 4 === 2) await notes.setMany({ k: round, [`n${writer % 3}`]: 1 });
        else await notes.set('k', round);
      }
    }),
  );
  for (const key of ['k', 'n0', 'n1', 'n2']) {
    const versions = (toldIn(stoa, 'busy') as [string, string, number][][])
      .flat()
      .filter(([, name]) => name === key)
      .map(([, , version]) => version);
    expect(versions).toEqual(
      Array.from({ length: (await notes.getEntry(key))?.version ?? 0 }, (_, index) => index + 1),
    );
  }
  await stoa.close();
});

test('a watch that starts during writes misses nothing and repeats nothing', async () => {
  const running = await Running.start({ datastore: await ownSchema('watch') });
  const client = new Client({ url: running.url, token: running.alice, agent: 'tester' });
  const notes = client.data<number>('busy');
  const stop = new AbortController();
  const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
  await notes.setMany(Object.fromEntries(keys.map((key) => [key, 0])));
  const writing = Promise.all(
    Array.from({ length: 6 }, async (_, writer) => {
      for (let round = 0; !stop.signal.aborted; round += 1)
        await notes.set(keys[(round * 7 + writer) % keys.length] as string, round);
    }),
  );
  const faults: string[] = [];
  for (let watch = 0; watch < 25; watch += 1) {
    const [versions, end] = [new Map<string, number>(), new AbortController()];
    let changes = 0;
    for await (const event of client.watch<number>({ data: { namespace: 'busy' }, signal: end.signal })) {
      if (event.kind === 'snapshot') for (const { key, version } of event.items) versions.set(key, version);
      if (event.kind !== 'changes') continue;
      for (const { key, version } of event.items as DocumentChange[]) {
        if (version !== (versions.get(key ?? '') ?? 0) + 1)
          faults.push(`${key}: ${version} after ${versions.get(key ?? '')}`);
        versions.set(key ?? '', version ?? 0);
        changes += 1;
      }
      if (changes > 20) end.abort();
    }
  }
  stop.abort();
  await writing;
  await running.stop();
  expect(faults).toEqual([]);
}, 120_000);

test('servers that are killed at any moment announce every write exactly once', async () => {
  const datastore = await ownSchema('killed');
  const written = new Map<string, number>();
  const write = async ({ url: server, token }: RunningServer, writer: number): Promise<void> => {
    for (let round = 0; ; round += 1) {
      const key = `${writer}-${round % 3}`;
      try {
        const response = await fetch(`${server}/v1/data/results/${key}`, {
          method: 'PUT',
          headers: {
            authorization: `Bearer ${token}`,
            'content-type': 'application/json',
            'stoa-user': 'ada',
          },
          body: JSON.stringify({ value: round }),
        });
        const { version } = (await response.json()) as { version?: number };
        if (version !== undefined) written.set(key, Math.max(written.get(key) ?? 0, version));
      } catch {
        return;
      }
    }
  };
  const total = (): number => [...written.values()].reduce((sum, version) => sum + version, 0);
  for (let round = 0; round < 4; round += 1) {
    const server = await program.up(program.path('killed'), ['--datastore', datastore]);
    const goal = total() + 150;
    const writing = Promise.all(Array.from({ length: 8 }, (_, writer) => write(server, writer)));
    await vi.waitFor(() => expect(total()).toBeGreaterThan(goal), { timeout: 60_000, interval: 3 });
    await server.end('SIGKILL');
    await writing;
  }
  const stoa = await openStoa({ data: program.path('killed'), datastore });
  const told = new Map<string, number[]>();
  for (const [, key, version] of (toldIn(stoa, 'results') as [string, string, number][][]).flat())
    told.set(key, [...(told.get(key) ?? []), version]);
  for await (const { key, version } of stoa.data.getAll(ada, 'results')) {
    expect(version).toBeGreaterThanOrEqual(written.get(key) ?? 0);
    expect([key, told.get(key)]).toEqual([key, Array.from({ length: version }, (_, index) => index + 1)]);
  }
  expect(told.size).toBe(24);
  await stoa.close();
  expect(await sql`SELECT * FROM feed_killed.agent_data_store_outbox`).toHaveLength(0);
}, 180_000);
