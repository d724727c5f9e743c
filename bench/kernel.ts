/** What the kernel costs above the engines, and how its durable writes compare with Redis. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openEngine } from '../src/homes/directory/kernel/engines/index.js';
import { type EngineName, storeConfigDefaults } from '../src/core/settings/store-config.js';
import { kernelFamilies } from '../src/homes/directory/kernel/families.js';
import { encodeRedo, positionKey } from '../src/homes/directory/kernel/feed/log.js';
import { Store } from '../src/homes/directory/kernel/store.js';
import { limitsWith } from '../src/core/settings/limits.js';
import { type Bench, type Row, byTurns, rateInFlight, rateOf } from './frame.js';
import { type OpenRawEngine, type RawEngine, openRawLmdb, openRawRocksdb } from './raw-engines.js';
import { startRedis } from './redis.js';

const family = 'bench/items';
const keysCount = 200_000;
const valueBytes = 300;
const inFlight = 64;
const readTurns = 11;
/** Many short turns: a disk that others use too is quick and slow by the second. */
const writeTurns = 61;
const writeMs = 100;
const warmUpMs = 3_000;
/** As many as take about as long as a turn of ours. */
const redisWrites = 1_500;

export const kernelBench: Bench = {
  name: 'kernel',
  run: async (directory) => [
    ...(await engineRows(directory, 'lmdb', openRawLmdb)),
    ...(await engineRows(directory, 'rocksdb', openRawRocksdb)),
  ],
};

async function engineRows(directory: string, engine: EngineName, openRaw: OpenRawEngine): Promise<Row[]> {
  const paths = { kernel: join(directory, `${engine}-kernel`), raw: join(directory, `${engine}-raw`) };
  await once(`${paths.kernel}.filled`, () => withStore(engine, paths.kernel, fillStore));
  await once(`${paths.raw}.filled`, () => withRaw(openRaw, paths.raw, fillRaw));
  return [
    await readRow(engine, paths.kernel, openRaw),
    ...(await writeRows(directory, engine, paths, openRaw)),
  ];
}

/**
 * Both read the same files, one after the other: the shape of a database on disk matters more than the layer
 * above it.
 */
async function readRow(engine: EngineName, path: string, openRaw: OpenRawEngine): Promise<Row> {
  const reads = await byTurns(
    readTurns,
    () => withStore(engine, path, async (store) => warmRate(() => store.get(family, randomKey()))),
    () => withRaw(openRaw, path, async (raw) => warmRate(() => raw.get(randomKey()))),
  );
  return {
    what: `${engine}: kernel point read / raw engine read`,
    ...reads,
    unit: 'reads/s',
    target: { atLeast: 0.8 },
  };
}

async function writeRows(
  directory: string,
  engine: EngineName,
  paths: { kernel: string; raw: string },
  openRaw: OpenRawEngine,
): Promise<Row[]> {
  const rows: Row[] = [];
  await withStore(engine, paths.kernel, async (store) => {
    const put = (key: Buffer) => store.transact((tx) => tx.put(family, key, value()));
    await withRaw(openRaw, paths.raw, async (raw) => {
      const puts = () => Array.from({ length: inFlight }, () => ({ key: nextKey(), value: value() }));
      const ours = (ms = writeMs) => rateInFlight(inFlight, () => put(nextKey()), ms);
      const same = async (ms = writeMs) =>
        (await rateInFlight(1, () => raw.commit(puts(), nextRedo()), ms)) * inFlight;
      const alone = async (ms = writeMs) => (await rateInFlight(1, () => raw.commit(puts()), ms)) * inFlight;
      // Until it is compiled, the side with more code looks slower than it is.
      for (const warmUp of [ours, same, alone]) await warmUp(warmUpMs);
      const what = `${engine}: kernel durable transactions, ${inFlight} in flight / raw durable batches of`;
      rows.push({
        what: `${what} the same operations`,
        ...(await byTurns(
          writeTurns,
          () => ours(),
          () => same(),
        )),
        unit: 'writes/s',
        target: { atLeast: 0.8 },
      });
      rows.push({
        what: `${what} the ${inFlight} puts alone, without a redo log`,
        ...(await byTurns(
          writeTurns,
          () => ours(),
          () => alone(),
        )),
        unit: 'writes/s',
      });
    });
    if (engine === 'rocksdb') rows.push(...(await redisRows(join(directory, 'redis'), put)));
  });
  return rows;
}

/**
 * The record that the kernel writes beside as many transactions: its length, and bytes that shrink as little.
 */
function nextRedo(): { key: Buffer; value: Buffer } {
  newest += 1;
  const start = Math.floor(Math.random() * (noise.length - redoBytes));
  return { key: positionKey(newest), value: Buffer.from(noise.subarray(start, start + redoBytes)) };
}

/** New keys, as those of new things are; and keys that are there already, anywhere among all of them. */
async function redisRows(directory: string, put: (key: Buffer) => Promise<void>): Promise<Row[]> {
  const redis = await startRedis(directory);
  try {
    const against = (key: () => Buffer) =>
      byTurns(
        writeTurns,
        () => rateInFlight(inFlight, () => put(key()), writeMs),
        () => redis.setRate({ writes: redisWrites, clients: inFlight, valueBytes, keys: keysCount }),
      );
    const what = `rocksdb: durable put of ${valueBytes} B, ${inFlight} in flight`;
    const reference = `Redis 7 appendfsync always, SET, ${inFlight} clients`;
    return [
      {
        what: `${what} / ${reference}`,
        ...(await against(nextKey)),
        unit: 'writes/s',
        target: { atLeast: 1.5 },
      },
      {
        what: `${what}, over ${keysCount.toLocaleString('en')} keys at random / ${reference}`,
        ...(await against(randomKey)),
        unit: 'writes/s',
      },
    ];
  } finally {
    await redis.stop();
  }
}

/** A first stretch fills the caches and counts for nothing. */
function warmRate(work: () => void): number {
  rateOf(work, 300);
  return rateOf(work);
}

async function withStore<T>(engine: EngineName, path: string, use: (store: Store) => Promise<T>): Promise<T> {
  const opened = await openEngine(engine, { ...storeConfigDefaults, data_dir: path }, [
    ...Object.values(kernelFamilies),
    family,
  ]);
  const store = new Store({ engine: opened, families: [family], limits: limitsWith() });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

async function withRaw<T>(
  openRaw: OpenRawEngine,
  path: string,
  use: (raw: RawEngine) => Promise<T>,
): Promise<T> {
  const raw = await openRaw(path, family);
  try {
    return await use(raw);
  } finally {
    await raw.close();
  }
}

/** A mark beside a data set that was made whole. */
async function once(mark: string, make: () => Promise<void>): Promise<void> {
  if (existsSync(mark)) return;
  await make();
  await writeFile(mark, '');
}

const batchKeys = 2_000;

async function fillStore(store: Store): Promise<void> {
  for (let first = 0; first < keysCount; first += batchKeys) {
    await store.transact((tx) => {
      for (let number = first; number < first + batchKeys; number += 1)
        tx.put(family, keyOf(number), value());
    });
  }
}

async function fillRaw(raw: RawEngine): Promise<void> {
  for (let first = 0; first < keysCount; first += batchKeys) {
    await raw.commit(
      Array.from({ length: batchKeys }, (_, index) => ({ key: keyOf(first + index), value: value() })),
    );
  }
}

/** Spread over the whole key space, as hashed or random ids are. */
function keyOf(number: number): Buffer {
  const key = Buffer.allocUnsafe(16);
  key.writeUInt32BE(Math.imul(number, 0x9e3779b1) >>> 0, 0);
  key.writeUInt32BE(Math.imul(number, 0x85ebca6b) >>> 0, 4);
  key.writeUInt32BE(0, 8);
  key.writeUInt32BE(number, 12);
  return key;
}

function randomKey(): Buffer {
  return keyOf(Math.floor(Math.random() * keysCount));
}

let newest = 0;

/** Growing with time, as new ids are. They begin with 0xff, after every key of the data set. */
function nextKey(): Buffer {
  const key = Buffer.alloc(16, 0xff);
  newest += 1;
  key.writeBigUInt64BE(BigInt(Date.now()), 4);
  key.writeUInt32BE(newest, 12);
  return key;
}

const redoBytes = encodeRedo(
  0,
  Array.from({ length: inFlight }, (_, lsn) => ({
    lsn,
    atMs: 0,
    commit: null,
    operations: [{ family, key: Buffer.alloc(16), value: Buffer.alloc(valueBytes) }],
  })),
).length;

const noise = Buffer.from(Array.from({ length: 64 * 1024 }, () => Math.floor(Math.random() * 256)));

/** Different every time and hard to compress. */
function value(): Buffer {
  const start = Math.floor(Math.random() * (noise.length - valueBytes));
  return Buffer.from(noise.subarray(start, start + valueBytes));
}
