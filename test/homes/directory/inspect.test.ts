/** Inspecting the store shows every row of every family, on each engine. */
import { kernelOf } from '../../kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findFamilies } from '../../../src/homes/directory/find/rows.js';
import { dataFamilies } from '../../../src/homes/directory/datastore/rows.js';
import { vectorFamilies } from '../../../src/homes/directory/find/vectors/rows.js';
import { directoryFamilies } from '../../../src/homes/directory/families.js';
import { decodeEntry } from '../../../src/homes/directory/inspect.js';
import { userKey } from '../../../src/identity/user-key.js';
import { kernelFamilies } from '../../../src/homes/directory/kernel/families.js';
import { Running } from '../../server/running.js';
import { nowMs, populate } from './populated.js';

const everyFamily = [...Object.values(kernelFamilies), ...directoryFamilies];

describe.each(['lmdb', 'rocksdb'] as const)('on %s', (engine) => {
  let directory: string;
  let running: Running;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-inspect-'));
    running = await Running.start({
      data: directory,
      engine,
      clock: () => nowMs,
      sweepIntervalMs: 3_600_000,
    });
    await populate(running.stoa);
    await kernelOf(running.stoa).root.transact((tx) =>
      tx.put(kernelFamilies.directory, Buffer.from('task_01'), userKey('ada')),
    );
  });
  afterAll(async () => {
    await running.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const page = async (path: string) => {
    const { status, json } = await running.ask('GET', path, { as: running.operator });
    expect(status, path).toBe(200);
    return json as {
      items: {
        family: string;
        entries: number;
        size_bytes: number;
        estimated: boolean;
        key: string;
        value: string;
        decoded: unknown;
      }[];
    };
  };

  it('lists every family with its count and its size', async () => {
    const { items } = await page('/v1/inspect');
    expect(items.map(({ family }) => family)).toEqual(everyFamily.toSorted());
    for (const { family, entries, size_bytes, estimated } of items) {
      expect([family, entries, estimated]).toEqual([
        family,
        Array.from(kernelOf(running.stoa).root.range(family, {})).length,
        false,
      ]);
      expect([family, size_bytes > 0]).toEqual([family, entries > 0]);
    }
  });

  it("counts all entries of a family that is larger than the engine's sample", async () => {
    await kernelOf(running.stoa).root.transact((tx) => {
      for (let index = 0; index < 10_500; index += 1)
        tx.put(
          'data/access',
          Buffer.concat([userKey('many'), Buffer.from(`n\0${index}`)]),
          Buffer.from('{}'),
        );
    });
    const { items } = await page('/v1/inspect');
    expect(items.find(({ family }) => family === 'data/access')).toMatchObject({
      entries: 10_501,
      estimated: false,
    });
  });

  // The log is closed, and intents hold rows only while a write over two shards is unfinished.
  const closedOrEmpty: readonly string[] = [
    kernelFamilies.redo,
    kernelFamilies.intents,
    // Written in the background, when enough entries wait.
    findFamilies.segments,
    findFamilies.catalogs,
    findFamilies.facts,
    findFamilies.dead,
    findFamilies.blocks,
    // Only of documents in a store beside the directory.
    findFamilies.entries,
    findFamilies.storeWrites,
    // Only while the index is made again.
    findFamilies.reindex,
    // Only of namespaces that ask for vectors.
    dataFamilies.settings,
    ...Object.values(vectorFamilies),
  ];
  it.each(everyFamily.filter((family) => !closedOrEmpty.includes(family)))(
    'says what stands in %s',
    async (family) => {
      const { items } = await page(`/v1/inspect/${encodeURIComponent(family)}?limit=20`);
      expect(items.length).toBeGreaterThan(0);
      for (const { key, value, decoded } of items) {
        // By the domain that wrote it, not by a guess at its bytes.
        expect(decodeEntry(family, Buffer.from(key, 'hex'), Buffer.from(value, 'hex'))).toBeDefined();
        expect(decoded).toBeTypeOf('object');
        expect(decoded).not.toBeNull();
      }
    },
  );

  it('does not show the redo log, which still contains deleted values', async () => {
    expect((await running.ask('GET', '/v1/inspect/redo', { as: running.operator })).status).toBe(404);
  });

  it('shows that a room has a key, and nothing of the key', async () => {
    const [entry] = (await page('/v1/inspect/room_keys')).items;
    expect(entry).toMatchObject({ value: '', decoded: { key_hash: '4 bytes, not shown' } });
    expect(JSON.stringify(entry)).not.toContain(Buffer.from('hash').toString('hex'));
  });

  it('shows an unreadable row as bytes', async () => {
    await kernelOf(running.stoa).root.transact((tx) =>
      tx.put('messaging/inbox_clocks', Buffer.from('odd'), Buffer.of(1)),
    );
    const { items } = await page('/v1/inspect/inbox_clocks');
    expect(items).toContainEqual({ key: Buffer.from('odd').toString('hex'), value: '01', decoded: null });
  });
});
