import { kernelOf } from '../../../../kernel-of.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
/** A database that has lost durable transactions is refused. */
import { type FileHandle, cp, mkdtemp, open, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { operatorCaller } from '../../../../../src/core/caller.js';
import { type Stoa, type StoaOptions, openStoa } from '../../../../../src/index.js';
import { reshardDirectory } from '../../../../../src/homes/directory/reshard.js';
import { useProgram } from '../../../../cli/program.js';
import { until } from '../../../../until.js';

const program = useProgram();
let directory: string;
let data: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-durable-'));
  data = join(directory, 'data');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const ada = operatorCaller('ada');
const database = (shard = 0) => join(data, `shard-0${shard}`, 'db');

async function put(stoa: Stoa, from: number, to: number): Promise<void> {
  for (let index = from; index < to; index += 1)
    await stoa.data.open(ada, 'notes').set(`key-${index}`, { index, text: 'x'.repeat(500) });
}

const count = async (stoa: Stoa): Promise<number> =>
  (await stoa.data.open(ada, 'notes').listKeys({ limit: 1_000 })).items.length;

async function fill(options: Partial<StoaOptions>, from: number, to: number): Promise<void> {
  const stoa = await openStoa({ data, ...options });
  await put(stoa, from, to);
  await stoa.close();
}

/** Turns one bit of a file over, in its middle. */
async function damage(path: string): Promise<void> {
  const content = await readFile(path);
  const at = Math.floor(content.length / 10);
  content[at] = (content[at] as number) ^ 1;
  await writeFile(path, content);
}

const logs = async (): Promise<string[]> =>
  (await readdir(database())).filter((name) => name.endsWith('.log')).map((name) => join(database(), name));

it('continues to write stoa.durable after one write failed', async () => {
  const faults: unknown[] = [];
  const stoa = await openStoa({ data, engine: 'lmdb', onError: (error) => faults.push(error) });
  const noted = async (): Promise<number> =>
    Number((await readFile(join(data, 'stoa.durable'), 'latin1')).split('\n')[1]);
  // Every handle of node:fs/promises has the same prototype.
  const other = await open(join(data, 'stoa.json'), 'r');
  const handles = Object.getPrototypeOf(other) as FileHandle;
  await other.close();
  const failing = vi.spyOn(handles, 'write').mockRejectedValueOnce(new Error('EIO: i/o error, write'));
  try {
    await put(stoa, 0, 5);
    await until(() => faults.length > 0);
  } finally {
    failing.mockRestore();
  }
  await put(stoa, 5, 10);
  const { lsn } = kernelOf(stoa).root;
  await until(async () => (await noted()) >= lsn);
  expect(faults).toHaveLength(1);
  await stoa.close();
});

describe('rocksdb', () => {
  it('a clean stop leaves nothing in the log, so that damage of the log loses nothing', async () => {
    await fill({ engine: 'rocksdb' }, 0, 100);
    for (const log of await logs()) expect((await stat(log)).size).toBe(0);
    const stoa = await openStoa({ data });
    expect(await count(stoa)).toBe(100);
    await stoa.close();
  });

  it('after kill -9 a damaged log is refused with what to do, doctor ends with 1, and the loss can be accepted', async () => {
    const server = await program.up(data, ['--engine', 'rocksdb']);
    for (let index = 0; index < 200; index += 1) {
      const answer = await fetch(`${server.url}/v1/data/notes/key-${index}`, {
        method: 'PUT',
        headers: {
          authorization: `Bearer ${server.token}`,
          'stoa-user': 'ada',
          'content-type': 'application/json',
        },
        body: JSON.stringify({ value: 'x'.repeat(500) }),
      });
      expect(answer.ok).toBe(true);
    }
    const noted = async () => (await readFile(join(data, 'stoa.durable'), 'latin1')).split('\n')[1];
    await expect.poll(async () => Number(await noted())).toBeGreaterThanOrEqual(200);
    await server.end('SIGKILL');
    const [log] = (
      await Promise.all((await logs()).map(async (path) => ({ path, size: (await stat(path)).size })))
    ).toSorted((a, b) => b.size - a.size);
    await damage(log?.path ?? '');

    const refused = await program.stoa(['doctor', '--data', data, '--json']);
    expect(refused.status).toBe(1);
    expect(refused.error()).toMatchObject({
      code: 'damaged_data',
      detail: expect.stringMatching(
        /ends with transaction \d+, but transaction \d+ was on disk: \d+ acknowledged/,
      ),
      fix: expect.stringMatching(/stoa restore.*stoa doctor --accept-loss --data /),
    });
    expect((await program.stoa(['up', '--data', data, '--port', '0', '--json'])).error().code).toBe(
      'damaged_data',
    );

    const accepted = await program.stoa(['doctor', '--accept-loss', '--data', data]);
    expect([accepted.status, accepted.stderr]).toEqual([
      0,
      expect.stringContaining('transactions are missing'),
    ]);
    const stoa = await openStoa({ data });
    expect(await count(stoa)).toBeLessThan(200);
    await stoa.close();
  });
});

describe.each(['lmdb', 'rocksdb'] as const)('%s', (engine) => {
  it('an old database that was copied back is refused, in each of several shards', async () => {
    const options = { engine, shards: 2 };
    await fill(options, 0, 3);
    await cp(database(1), join(directory, 'old-1'), { recursive: true });
    await cp(database(0), join(directory, 'old-0'), { recursive: true });
    const stoa = await openStoa({ data, ...options });
    for (const user of ['ada', 'bob', 'cleo', 'dan', 'eve', 'fay'])
      await stoa.data.open(operatorCaller(user), 'notes').set('late', user);
    await stoa.close();
    for (const [shard, name] of [
      [1, 'old-1'],
      [0, 'old-0'],
    ] as const) {
      await rm(database(shard), { recursive: true });
      await cp(join(directory, name), database(shard), { recursive: true });
      const refusal = { code: 'damaged_data', message: expect.stringContaining(database(shard)) };
      await expect(openStoa({ data })).rejects.toMatchObject(refusal);
      // Refusing changes nothing: the next try says the same.
      await expect(openStoa({ data })).rejects.toMatchObject(refusal);
      const target = join(directory, `resharded-${shard}`);
      await expect(
        reshardDirectory({
          from: data,
          to: target,
          shards: 1,
          limits: limitsWith(),
          onProgress: () => undefined,
        }),
      ).rejects.toMatchObject({ code: 'damaged_data' });
    }
  });

  it('a copy of a closed directory, and one without stoa.durable, can be opened', async () => {
    await fill({ engine }, 0, 5);
    const copy = join(directory, 'copy');
    await cp(data, copy, { recursive: true });
    await rm(join(copy, 'stoa.durable'));
    for (const path of [data, copy]) {
      const stoa = await openStoa({ data: path });
      expect(await count(stoa)).toBe(5);
      await stoa.close();
    }
  });

  it('stoa.durable is never ahead of the database; without syncs it is written at the close', async () => {
    const note = async () => Number((await readFile(join(data, 'stoa.durable'), 'latin1')).split('\n')[1]);
    const stoa = await openStoa({ data, engine, storeConfig: { sync_writes: false } });
    await put(stoa, 0, 20);
    const before = await note();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await note()).toBe(before);
    await stoa.close();
    expect(await note()).toBe(kernelOf(stoa).root.lsn);
  });

  it('an incomplete stoa.durable is refused', async () => {
    await fill({ engine }, 0, 1);
    await writeFile(join(data, 'stoa.durable'), 'half a no');
    await expect(openStoa({ data })).rejects.toMatchObject({
      code: 'damaged_data',
      message: expect.stringContaining('stoa.durable'),
    });
    expect((await program.stoa(['doctor', '--accept-loss', '--data', data])).status).toBe(0);
  });
});
