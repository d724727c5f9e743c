/** What the kernel costs above the engines, and how its durable writes compare with Redis. */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openEngine } from '../src/kernel/engines/index.js';
import { storeConfigDefaults } from '../src/kernel/engine.js';
import { kernelFamilies } from '../src/kernel/families.js';
import { Store } from '../src/kernel/store.js';
import { limitsWith } from '../src/limits.js';
import { type Bench, type Row, byTurns, rateInFlight, rateOf } from './frame.js';
import { type RawEngine, openRawLmdb, openRawRocksdb } from './raw-engines.js';
import { startRedis } from './redis.js';

const family = 'bench/items';
const keysCount = 200_000;
const valueBytes = 300;
const inFlight = 64;
const turns = 7;

export const kernelBench: Bench = {
  name: 'kernel',
  run: async (directory) => [...(await engineRows(directory, 'lmdb', openRawLmdb)), ...(await engineRows(directory, 'rocksdb', openRawRocksdb))],
};

async function engineRows(directory: string, engine: 'lmdb' | 'rocksdb', openRaw: (path: string) => Promise<RawEngine>): Promise<Row[]> {
  const own = join(directory, `${engine}-kernel`);
  const config = { ...storeConfigDefaults, data_dir: own };
  const store = new Store({ engine: await openEngine(engine, config, [...Object.values(kernelFamilies), family]), families: [family], limits: limitsWith() });
  const raw = await openRaw(join(directory, `${engine}-raw`));
  await once(`${own}.filled`, () => fillStore(store));
  await once(join(directory, `${engine}-raw.filled`), () => fillRaw(raw));

  const rows: Row[] = [];
  const reads = await byTurns(turns, () => rateOf(() => store.get(family, randomKey())), () => rateOf(() => raw.get(randomKey())));
  rows.push({ what: `${engine}: kernel point read / raw engine read`, ...reads, unit: 'reads/s', target: { atLeast: 0.8 } });

  const put = (key: Buffer) => store.transact((tx) => tx.put(family, key, value()));
  const batch = () => raw.commit(Array.from({ length: inFlight }, () => ({ key: nextKey(), value: value() })));
  const writes = await byTurns(turns, () => rateInFlight(inFlight, () => put(nextKey())), async () => (await rateInFlight(1, batch)) * inFlight);
  rows.push({ what: `${engine}: kernel durable transactions, ${inFlight} in flight / raw durable batches of ${inFlight}`, ...writes, unit: 'writes/s', target: { atLeast: 0.8 } });

  if (engine === 'rocksdb') {
    const redis = await startRedis(join(directory, 'redis'));
    try {
      const sets = await byTurns(turns, () => rateInFlight(inFlight, () => put(randomKey())), () => redis.setRate({ clients: inFlight, valueBytes, keys: keysCount }));
      rows.push({ what: `${engine}: durable put of ${valueBytes} B, ${inFlight} in flight / Redis 7 appendfsync always, SET, ${inFlight} clients`, ...sets, unit: 'writes/s', target: { atLeast: 1.5 } });
    } finally {
      await redis.stop();
    }
  }
  await store.close();
  await raw.close();
  return rows;
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
      for (let number = first; number < first + batchKeys; number += 1) tx.put(family, keyOf(number), value());
    });
  }
}

async function fillRaw(raw: RawEngine): Promise<void> {
  for (let first = 0; first < keysCount; first += batchKeys) {
    await raw.commit(Array.from({ length: batchKeys }, (_, index) => ({ key: keyOf(first + index), value: value() })));
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

const noise = Buffer.from(Array.from({ length: 64 * 1024 }, () => Math.floor(Math.random() * 256)));

/** Different every time and hard to compress. */
function value(): Buffer {
  const start = Math.floor(Math.random() * (noise.length - valueBytes));
  return Buffer.from(noise.subarray(start, start + valueBytes));
}
