import { readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { blake3 } from '../../../../src/core/ids/blake3.js';
import { dataFormat } from '../../../../src/homes/directory/kernel/directory/manifest.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { type KernelOptions } from '../../../../src/homes/directory/kernel/kernel.js';
import { extendedByOutages } from '../../../../src/core/outages.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import { FaultyEngine } from './faulty-engine.js';
import {
  bytes,
  change,
  families,
  items,
  removeDirectories,
  temporaryDirectory,
  text,
  until,
} from './open-store.js';

afterAll(removeDirectories);

function open(dataDir: string, options: Partial<KernelOptions> = {}) {
  return openKernel({ dataDir, families, limits: limitsWith(), ...options });
}

async function manifestIn(directory: string): Promise<Record<string, unknown>> {
  return JSON.parse(await readFile(join(directory, 'stoa.json'), 'utf8')) as Record<string, unknown>;
}

describe('a new directory', () => {
  it('is created with its parent directories, on lmdb with one shard, as its manifest says', async () => {
    const directory = join(await temporaryDirectory(), 'deep', 'data');
    const kernel = await open(directory);
    expect(kernel.stores).toHaveLength(1);
    await kernel.close();
    expect(await manifestIn(directory)).toMatchObject({
      format: dataFormat,
      engine: 'lmdb',
      shards: 1,
      id: expect.any(String),
    });
    expect(await readdir(join(directory, 'shard-00', 'db'))).toContain('data.mdb');
  });

  it('has the requested number of shards, which cannot change', async () => {
    const directory = await temporaryDirectory();
    const kernel = await open(directory, { shards: 3 });
    await Promise.all(
      kernel.stores.map((store, shard) =>
        store.transact((tx) => tx.put(items, bytes('shard'), bytes(String(shard)))),
      ),
    );
    await kernel.close();
    expect((await readdir(directory)).filter((name) => name.startsWith('shard-')).toSorted()).toEqual([
      'shard-00',
      'shard-01',
      'shard-02',
    ]);
    const again = await open(directory);
    expect(again.stores.map((store) => text(store, 'shard'))).toEqual(['0', '1', '2']);
    await again.close();
    await expect(open(directory, { shards: 2 })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('3 shard(s), not 2'),
    });
  });

  it.each([0, -1, 1.5, 257, Number.NaN])('does not have %d shards', async (shards) => {
    await expect(open(await temporaryDirectory(), { shards })).rejects.toMatchObject({
      code: 'invalid_config',
    });
    await expect(open('', { shards, engine: 'memory' })).rejects.toMatchObject({ code: 'invalid_config' });
  });

  it('cannot be a file', async () => {
    const file = join(await temporaryDirectory(), 'file');
    await writeFile(file, '');
    await expect(open(join(file, 'data'))).rejects.toMatchObject({
      code: 'invalid_config',
      fix: expect.any(String),
    });
  });
});

describe('an existing directory', () => {
  it('keeps its engine', async () => {
    const directory = await temporaryDirectory();
    await (await open(directory, { engine: 'rocksdb' })).close();
    const kernel = await open(directory);
    expect(kernel.root.engine.name).toBe('rocksdb');
    await kernel.close();
    await expect(open(directory, { engine: 'lmdb' })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('engine rocksdb, not lmdb'),
    });
  });

  it('written by a newer program is refused and not changed', async () => {
    const directory = await temporaryDirectory();
    await (await open(directory)).close();
    const newer = JSON.stringify({ ...(await manifestIn(directory)), format: 3 });
    await writeFile(join(directory, 'stoa.json'), newer);
    await expect(open(directory)).rejects.toMatchObject({ code: 'newer_data', fix: expect.any(String) });
    expect(await readFile(join(directory, 'stoa.json'), 'utf8')).toBe(newer);
  });

  it('with a log record of a newer program is refused, and is not left open', async () => {
    const directory = await temporaryDirectory();
    const kernel = await open(directory, { engine: 'rocksdb' });
    await kernel.root.engine.commit([
      { family: kernelFamilies.changes, key: Buffer.alloc(8, 1), value: bytes('[2,0,[]]') },
    ]);
    await kernel.close();
    for (let attempt = 0; attempt < 2; attempt += 1)
      await expect(open(directory)).rejects.toMatchObject({ code: 'newer_data' });
  });

  it.each([
    '',
    '{',
    'null',
    '[]',
    '{}',
    `{"format":${dataFormat}}`,
    `{"format":${dataFormat},"id":"x","engine":"lmdb","shards":0,"created_at":"x"}`,
    `{"format":${dataFormat},"id":"x","engine":"bolt","shards":1,"created_at":"x"}`,
  ])('with the manifest %j is damaged', async (manifest) => {
    const directory = await temporaryDirectory();
    await (await open(directory)).close();
    await writeFile(join(directory, 'stoa.json'), manifest);
    await expect(open(directory)).rejects.toMatchObject({
      code: 'damaged_data',
      fix: expect.stringContaining('restore'),
    });
  });

  it('that lost a shard is refused, not treated as empty', async () => {
    const directory = await temporaryDirectory();
    await (await open(directory, { shards: 2 })).close();
    await rm(join(directory, 'shard-01'), { recursive: true });
    await expect(open(directory)).rejects.toMatchObject({ code: 'damaged_data' });
  });

  it('that lost its manifest is refused with every engine, not treated as new', async () => {
    const directory = await temporaryDirectory();
    const kernel = await open(directory, { engine: 'rocksdb' });
    await kernel.root.transact((tx) => tx.change(change('a')));
    await kernel.close();
    await rm(join(directory, 'stoa.json'));
    for (const engine of [undefined, 'rocksdb'] as const) {
      await expect(open(directory, { engine })).rejects.toMatchObject({
        code: 'damaged_data',
        message: expect.stringContaining('stoa.json is missing'),
      });
    }
  });

  it('whose manifest names fewer shards than exist is refused, except for the rest of an unfinished creation', async () => {
    const directory = await temporaryDirectory();
    await (await open(directory, { shards: 3 })).close();
    const manifest = await manifestIn(directory);
    for (const shards of [1, 2]) {
      await writeFile(join(directory, 'stoa.json'), JSON.stringify({ ...manifest, shards }));
      await expect(open(directory)).rejects.toMatchObject({
        code: 'damaged_data',
        message: expect.stringContaining(`names ${shards} shard(s)`),
      });
    }
    await rm(join(directory, 'stoa.json'));
    await (await open(directory, { shards: 1 })).close();
    await (await open(directory)).close();
  });

  it('can be opened only once', async () => {
    const directory = await temporaryDirectory();
    const kernel = await open(directory);
    await expect(open(directory)).rejects.toMatchObject({
      code: 'locked',
      message: expect.stringContaining(String(process.pid)),
    });
    await kernel.close();
    await (await open(directory)).close();
  });
});

describe('the store of a user', () => {
  it('follows the first byte of BLAKE3 of the key', async () => {
    const key = Buffer.alloc(32, 1);
    expect(blake3(key)[0]).toBe(0x95);
    for (const shards of [1, 2, 3, 7]) {
      const kernel = await open('', { engine: 'memory', shards });
      expect(kernel.storeOf(key)).toBe(kernel.stores[0x95 % shards]);
      await kernel.close();
    }
  });

  it('can be found by an id alone', async () => {
    const key = Buffer.alloc(32, 1);
    const many = await open('', { engine: 'memory', shards: 4 });
    expect(many.locate('agent_1')).toBeUndefined();
    await many.root.transact((tx) => many.enterIn(tx, 'agent_1', key));
    expect(many.locate('agent_1')).toBe(many.storeOf(key));
    await many.close();
    const one = await open('', { engine: 'memory' });
    expect(one.locate('agent_1')).toBe(one.root);
    await one.close();
  });
});

describe('outages', () => {
  it('between closing and opening are recorded; a new directory has none', async () => {
    const directory = await temporaryDirectory();
    let nowMs = Date.now() + 1_000_000;
    const clock = () => nowMs;
    const first = await open(directory, { clock });
    expect(first.outages).toEqual([]);
    const closedAtMs = (nowMs += 5_000);
    await first.close();
    nowMs += 60_000;
    const second = await open(directory, { clock });
    expect(second.outages).toEqual([{ fromMs: closedAtMs, toMs: nowMs }]);
    await second.close();
    nowMs += 50;
    const third = await open(directory, { clock });
    expect(third.outages).toHaveLength(1);
    await third.close();
  });

  it("that end at a wrong clock's time count only while the clock shows that time", async () => {
    const directory = await temporaryDirectory();
    let nowMs = Date.now() + 1_000_000;
    const clock = () => nowMs;
    await (await open(directory, { clock })).close();
    nowMs += 1_000_000_000;
    const ahead = await open(directory, { clock });
    expect(ahead.outages).toHaveLength(1);
    nowMs -= 999_000_000;
    expect(ahead.outages).toEqual([]);
    await ahead.close();
  });

  it('lengthen only leases that were alive when they began', () => {
    const outages = [
      { fromMs: 1_000, toMs: 1_500 },
      { fromMs: 2_000, toMs: 2_100 },
    ];
    expect(extendedByOutages(900, 1_100, outages)).toBe(1_600);
    expect(extendedByOutages(900, 1_900, outages)).toBe(2_500);
    expect(extendedByOutages(1_600, 1_900, outages)).toBe(1_900);
    expect(extendedByOutages(100, 900, outages)).toBe(900);
  });
});

describe('a kernel', () => {
  it('sweeps every shard after its start', async () => {
    const kernel = await open('', { engine: 'memory', shards: 2, sweepIntervalMs: 1 });
    const fired: string[] = [];
    kernel.handleTimer('note', (_tx, reference) => fired.push(reference.toString()));
    kernel.start();
    await Promise.all(
      kernel.stores.map((store, shard) =>
        store.transact((tx) => tx.schedule({ atMs: 0, kind: 'note', reference: bytes(String(shard)) })),
      ),
    );
    await until(() => fired.length === 2 && kernel.expiryBacklogMs() === 0);
    expect(fired.toSorted()).toEqual(['0', '1']);
    await kernel.close();
  });

  it('closes although the disk is full, and can be opened again', async () => {
    const directory = await temporaryDirectory();
    const faulty: FaultyEngine[] = [];
    const errors: string[] = [];
    const kernel = await open(directory, {
      wrapEngine: (engine) => (faulty[faulty.length] = new FaultyEngine(engine)),
      onError: (_error, about) => errors.push(about),
    });
    faulty[0]?.failNext('disk_full');
    await kernel.close();
    await kernel.close();
    expect(errors).toEqual(['noting the time of closing']);
    await (await open(directory)).close();
  });

  it('shows all shards in one feed', async () => {
    const kernel = await open('', { engine: 'memory', shards: 2 });
    for (const [shard, store] of kernel.stores.entries())
      await store.transact((tx) => tx.change(change(String(shard))));
    expect(
      kernel.feed
        .read()
        .commits.map(({ changes }) => changes[0]?.id)
        .toSorted(),
    ).toEqual(['0', '1']);
    await kernel.close();
  });
});
