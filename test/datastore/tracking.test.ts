/** Counted reads are exact, also with a slow or faulty database. */
import { type Socket, type AddressInfo, createConnection, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { MemoryDataStore } from '../../src/stores/memory/datastore.js';
import type { AccessRead, BatchResult, ClearStep, WriteBatch } from '../../src/datastore/port.js';
import type { Scope } from '../../src/datastore/model.js';
import type { DataService } from '../../src/datastore/service.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Limits, limitsWith } from '../../src/core/settings/limits.js';
import { openPort } from '../homes/postgres/open-domains.js';
import { sharedPostgres } from '../servers/shared.js';
import { dataOver } from './data-over.js';
import { eventually } from '../until.js';

const reader = operatorCaller('ada', 'reader');
const keysOf = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `k${String(index).padStart(3, '0')}`);

/** A database that takes counts, clears and deletions when the test lets it. */
class Moody extends MemoryDataStore {
  mood: 'prompt' | 'slow' | 'refusing' = 'prompt';
  beforeClearStep: (after: string | null) => Promise<void> = async () => undefined;
  refusesDeletes = false;
  #waiting: (() => void)[] = [];

  override async recordAccess(reads: readonly AccessRead[]): Promise<void> {
    if (this.mood === 'refusing') throw new Error('No room for counts.');
    if (this.mood === 'slow') await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    await super.recordAccess(reads);
  }

  override async clearStep(scope: Scope, after: string | null, limit: number): Promise<ClearStep> {
    await this.beforeClearStep(after);
    return super.clearStep(scope, after, limit);
  }

  override async write(scope: Scope, batch: WriteBatch): Promise<BatchResult> {
    if (this.refusesDeletes && batch.deletes.length > 0)
      return { sets: [], deletes: batch.deletes.map(() => new Error('Not now.')) };
    return super.write(scope, batch);
  }

  cheerUp(): void {
    this.mood = 'prompt';
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

function open(limits: Partial<Limits> = {}): { port: Moody; data: DataService; faults: string[] } {
  const options = { limits: limitsWith(limits), nowMs: Date.now };
  const [port, faults] = [new Moody(options), [] as string[]];
  return {
    port,
    faults,
    data: dataOver({
      port,
      ...options,
      onError: (error) => void faults.push((error as Error).message),
    }),
  };
}

async function countsOf(port: Moody, keys: readonly string[]): Promise<number[]> {
  return (await port.getMany({ user: 'ada', namespace: 'n' }, keys)).map(
    (record) => record?.accessCount ?? -1,
  );
}

test('reads of any number of documents are counted while earlier counts are being written', async () => {
  const { port, data, faults } = open({ trackedReadsMax: 10 });
  const keys = keysOf(300);
  await data.setMany(reader, 'n', Object.fromEntries(keys.map((key) => [key, 1])));
  port.mood = 'slow';
  for (let round = 0; round < 3; round += 1) {
    for (const key of keys) await data.get(reader, 'n', key);
    await data.getMany(reader, 'n', keys);
    for await (const document of data.getAll(reader, 'n')) expect(document.accessCount).toBe(round * 3 + 2);
  }
  expect(await countsOf(port, keys.slice(0, 20))).toEqual(Array(20).fill(0));
  port.cheerUp();
  await data.tracker.close();
  expect(await countsOf(port, keys)).toEqual(Array(keys.length).fill(9));
  expect([data.tracker.dropped, faults]).toEqual([0, []]);
});

test('a flush writes all earlier reads, also those made during another flush', async () => {
  const { port, data } = open();
  await data.set(reader, 'n', 'k000', 1);
  await data.get(reader, 'n', 'k000');
  port.mood = 'slow';
  const earlier = data.tracker.flush();
  await data.get(reader, 'n', 'k000');
  const flushed = Promise.all([earlier, data.tracker.flush(), data.tracker.flush()]);
  port.cheerUp();
  await flushed;
  expect(await countsOf(port, ['k000'])).toEqual([2]);
  await data.tracker.close();
});

test('counting of further documents stops only when the database refuses counts, and is reported once', async () => {
  const { port, data, faults } = open({ trackedReadsMax: 10 });
  const keys = keysOf(30);
  await data.setMany(reader, 'n', Object.fromEntries(keys.map((key) => [key, 1])));
  port.mood = 'refusing';
  await data.getMany(reader, 'n', keys.slice(0, 10));
  await data.tracker.flush();
  for (let round = 0; round < 2; round += 1) await data.getMany(reader, 'n', keys);
  expect(data.tracker.dropped).toBe(40);
  expect(faults.filter((sentence) => sentence.includes('are not counted'))).toHaveLength(1);
  port.cheerUp();
  await data.tracker.flush();
  await data.getMany(reader, 'n', keys);
  await data.tracker.close();
  expect(await countsOf(port, keys)).toEqual([...Array<number>(10).fill(4), ...Array<number>(20).fill(1)]);
});

test('a database that recovers while the store closes gets every count; otherwise the loss is reported', async () => {
  const { port, data } = open();
  await data.set(reader, 'n', 'k000', 1);
  await data.get(reader, 'n', 'k000');
  port.mood = 'refusing';
  const closing = data.tracker.close();
  await eventually(() => expect(port.mood).toBe('refusing'));
  port.cheerUp();
  await closing;
  expect(await countsOf(port, ['k000'])).toEqual([1]);

  const lost = open();
  await lost.data.set(reader, 'n', 'k000', 1);
  await lost.data.get(reader, 'n', 'k000');
  lost.port.mood = 'refusing';
  await lost.data.tracker.close();
  expect(lost.faults.at(-1)).toContain('The reads of 1 documents could not be written');
});

test('a read after the close is not counted', async () => {
  const { port, data, faults } = open();
  await data.set(reader, 'n', 'k000', 1);
  await data.tracker.close();
  port.mood = 'refusing';
  await data.get(reader, 'n', 'k000');
  await data.tracker.flush();
  expect(faults).toEqual([]);
});

test('a clear removes the read counts of deleted documents, not those of documents created after it', async () => {
  const { port, data } = open({ clearStepMax: 2 });
  const keys = keysOf(6);
  await data.setMany(reader, 'n', Object.fromEntries(keys.map((key) => [key, 1])));
  await data.getMany(reader, 'n', keys);
  port.beforeClearStep = async (after) => {
    if (after !== 'k003') return;
    await data.set(reader, 'n', 'k000', 'anew');
    await data.get(reader, 'n', 'k000');
    await data.get(reader, 'n', 'k000');
  };
  expect(await data.clear(reader, 'n')).toBe(6);
  await data.set(reader, 'n', 'k005', 'anew');
  await data.tracker.close();
  expect(await countsOf(port, ['k000', 'k005'])).toEqual([2, 0]);
});

test('a deletion that fails leaves the reads of its document', async () => {
  const { port, data } = open();
  await data.set(reader, 'n', 'k000', 1);
  await data.get(reader, 'n', 'k000');
  port.refusesDeletes = true;
  await expect(data.delete(reader, 'n', 'k000')).rejects.toThrow('Not now.');
  await data.tracker.close();
  expect(await countsOf(port, ['k000'])).toEqual([1]);
});

/**
 * Connections through which the answer to a commit never comes: the server has done it, or never got to it.
 */
async function losingCommits(url: string): Promise<{
  url: string;
  loses: (what: 'nothing' | 'answers' | 'changes') => void;
  lost: () => number;
  close: () => Promise<void>;
}> {
  let what: 'nothing' | 'answers' | 'changes' = 'nothing';
  let lost = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const target = createConnection({ host: new URL(url).hostname, port: Number(new URL(url).port) });
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket
        .on('error', () => undefined)
        .on('close', () => [client, target].forEach((either) => either.destroy()));
    }
    const lose = (): void => {
      lost += 1;
      client.destroy();
    };
    // The parameters of the change, and the server's answer to a finished transaction.
    client.on('data', (chunk) =>
      what === 'changes' && chunk.includes('reader') ? lose() : target.write(chunk),
    );
    target.on('data', (chunk) =>
      what === 'answers' && chunk.includes('COMMIT\0') ? lose() : client.write(chunk),
    );
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const own = new URL(url);
  own.port = String((server.address() as AddressInfo).port); // A TCP server that listens has an AddressInfo.
  return {
    url: own.href,
    loses: (next) => void (what = next),
    lost: () => lost,
    close: () =>
      new Promise<void>((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

test.each(['answers', 'changes'] as const)(
  'PostgreSQL counts each read once when %s are lost on the way',
  async (what) => {
    const proxy = await losingCommits((await sharedPostgres()).url);
    const options = { limits: limitsWith(), nowMs: Date.now };
    const port = await openPort(proxy.url, options);
    const data = dataOver({ port, ...options, onError: () => undefined });
    const namespace = `lost ${what} ${process.pid}`;
    await data.set(reader, namespace, 'k', 1);
    for (let round = 1; round <= 3; round += 1) {
      await data.get(reader, namespace, 'k');
      proxy.loses(what);
      await data.tracker.flush();
      expect(proxy.lost()).toBe(round);
      proxy.loses('nothing');
      await data.get(reader, namespace, 'k');
      await data.tracker.flush();
      expect((await port.get({ user: 'ada', namespace }, 'k'))?.accessCount).toBe(round * 2);
    }
    await data.close();
    await proxy.close();
  },
);
