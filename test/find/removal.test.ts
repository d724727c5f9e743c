/** Deleted, overwritten and expired text leaves the rows of the index, in a time that is bounded. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { kernelOf } from '../kernel-of.js';
import { sharedHome } from '../servers/shared.js';
import { eventually } from '../until.js';

const ada = operatorCaller('ada');
/** Blocks store a word without the beginning that it shares with the word before, so tests look for its end. */
const word = 'qzwalrusvex';
const stored = Buffer.from('alrusvex');

/** All bytes of all rows of the index. */
type IndexRows = () => Promise<Buffer[]>;

function directoryRows(stoa: Stoa): IndexRows {
  const { stores } = kernelOf(stoa);
  const families = stores.flatMap(({ engine }) => Object.keys(engine.stats().families));
  const own = [...new Set(families)].filter((name) => name.startsWith('find/'));
  expect(own.length).toBeGreaterThan(5);
  return async () =>
    stores.flatMap((store) =>
      own.flatMap((family) =>
        Array.from(store.range(family, {}), ({ key, value }) => Buffer.concat([key, value])),
      ),
    );
}

function postgresRows(sql: postgres.Sql): IndexRows {
  return async () => {
    const tables = await sql<
      { name: string }[]
    >`SELECT tablename AS name FROM pg_tables WHERE schemaname = 'find'`;
    expect(tables.length).toBeGreaterThan(5);
    const rows = await Promise.all(
      tables.map(({ name }) => sql<Record<string, unknown>[]>`SELECT * FROM find.${sql(name)}`),
    );
    return rows.flat().flatMap((row) => Object.values(row).map(bytesOf));
  };
}

function bytesOf(value: unknown): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(String(value));
}

describe.each(['lmdb', 'rocksdb', 'PostgreSQL'] as const)('text that is gone, on %s', (home) => {
  let directory: string;
  let stoa: Stoa;
  let sql: postgres.Sql | undefined;
  let rows: IndexRows;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-removal-'));
    const shared = home === 'PostgreSQL' ? await sharedHome() : undefined;
    stoa = await openStoa({
      ...(shared?.options ?? { data: join(directory, home), engine: home as 'lmdb' | 'rocksdb' }),
      sweepIntervalMs: 50,
      limits: { findDeadSecondsMax: 4 },
    });
    if (shared === undefined) rows = directoryRows(stoa);
    else {
      sql = postgres(shared.options.postgres, { max: 1 });
      rows = postgresRows(sql);
    }
  });
  afterAll(async () => {
    await sql?.end();
    await stoa.close();
    await rm(directory, { recursive: true, force: true });
  });

  const hasText = async (): Promise<boolean> => (await rows()).some((row) => row.includes(stored));

  test('leaves the rows of the index', async () => {
    const { data, workspaces, find } = stoa;
    for (let at = 0; at < 20; at += 1) await data.set(ada, 'notes', `kept-${at}`, `heron ${at}`);
    await data.set(ada, 'notes', 'deleted', word);
    await data.set(ada, 'notes', `${word}-key`, 'heron');
    await data.set(ada, 'notes', 'overwritten', word);
    await data.set(ada, 'notes', 'expired', word, { ttl: 2 });
    await data.set(ada, 'cleared', 'one', word);
    const { id: workspaceId } = await workspaces.createWorkspace(ada, { name: 'w' });
    const { id: projectId } = await workspaces.createProject(ada, workspaceId, { name: 'p' });
    const { id: sessionId } = await workspaces.createSession(ada, projectId, { status: 'active' });
    const { id: taskId } = await workspaces.createTask(ada, sessionId, { command: word });
    await find.port.reindex({ user: 'ada', namespace: null }, () => undefined);
    expect(await hasText()).toBe(true);

    await data.delete(ada, 'notes', 'deleted');
    await data.delete(ada, 'notes', `${word}-key`);
    await data.set(ada, 'notes', 'overwritten', 'heron');
    await data.clear(ada, 'cleared');
    await workspaces.deleteTask(ada, taskId);
    // Nothing is written or searched from here on.
    await vi.waitFor(async () => expect(await hasText()).toBe(false), { timeout: 30_000, interval: 200 });
    expect((await stoa.operations.examine(false)).findings).toEqual([]);
    expect((await find.find(ada, { q: 'heron', limit: 100 })).items).toHaveLength(21);
  });

  test('of rooms that are deleted or keep their messages for a shorter time leaves the rows of the index', async () => {
    const { rooms } = stoa.messaging;
    const roomWith = async (name: string, body: string): Promise<string> => {
      const { id } = await rooms.create(ada, { name, is_private: false, key: '', owner: 'ada' }, null);
      await rooms.post(ada, { room: id }, () => ({ body, pid: '' }), null);
      return id;
    };
    const deleted = await roomWith('deleted', word);
    const shorter = await roomWith('shorter', word);
    const kept = await roomWith('kept', 'heron');
    await stoa.find.port.reindex({ user: null, namespace: null }, () => undefined);
    await eventually(async () => expect(await hasText()).toBe(true), 200);
    await rooms.delete(ada, deleted);
    await rooms.update(ada, shorter, { retentionSeconds: 1 });
    await rooms.update(ada, kept, { retentionSeconds: 3_600 });
    await eventually(async () => expect(await hasText()).toBe(false), 200);
    await eventually(async () => expect((await stoa.operations.examine(false)).findings).toEqual([]), 200);
    const found = await stoa.find.find(ada, { q: 'heron', limit: 100 });
    expect(found.items.filter(({ kind }) => kind === 'messages')).toHaveLength(1);
  });
});
