/** The data store in a directory: against the engine below it, and a million documents against ten thousand. */
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DirectoryDataStore } from '../src/homes/directory/datastore/datastore.js';
import { directoryFamilies } from '../src/homes/directory/families.js';
import { DataService } from '../src/datastore/service.js';
import { DirectoryWriter } from '../src/homes/directory/writer.js';
import { operatorCaller } from '../src/core/caller.js';
import { openKernel } from '../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../src/homes/directory/kernel/kernel.js';
import type { Transaction } from '../src/homes/directory/kernel/transaction.js';
import { limitsWith } from '../src/core/settings/limits.js';
import { type Bench, type Row, byTurns, isLarge, rateInFlight } from './frame.js';
import { openRawLmdb } from './raw-engines.js';

const few = 10_000;
const many = 1_000_000;
const namespaces = 50;
const inFlight = 64;
const hotKeys = 1_000;
const turns = 9;
const caller = operatorCaller('bench');
const reader = operatorCaller('bench', 'reader');
const rawFamily = 'bench/raw';

/** About a kilobyte, as a small result of an agent is. */
const value = {
  title: 'result',
  tags: ['a', 'b', 'c'],
  score: 0.75,
  items: Array.from({ length: 12 }, (_, index) => ({
    id: index,
    name: `item number ${index}`,
    done: index % 2 === 0,
  })),
  note: 'x'.repeat(300),
};
const valueText = JSON.stringify(value);
const valueBytes = Buffer.from(valueText);

export const datastoreBench: Bench = {
  name: 'datastore',
  run: async (directory) => {
    const small = await openFilled(join(directory, `directory-${few}`), few);
    const rows = [await readRow(directory, small), await trackingRow(small), await writeRow(small)];
    if (isLarge) {
      const large = await openFilled(join(directory, `directory-${many}`), many);
      rows.push(...(await sizeRows(small, large)));
      await large.close();
    }
    await small.close();
    return rows;
  },
};

interface DocumentSet {
  data: DataService;
  kernel: Kernel;
  count: number;
  close(): Promise<void>;
}

/** Both read a key out of ten thousand and parse its JSON. */
async function readRow(directory: string, { data }: DocumentSet): Promise<Row> {
  const path = join(directory, 'raw');
  await rm(path, { recursive: true, force: true });
  const raw = await openRawLmdb(path, rawFamily);
  const keys = Array.from({ length: few }, (_, index) =>
    Buffer.from(`${'u'.repeat(32)}${namespaceOf(index)}\0${keyOf(index)}`),
  );
  await raw.commit(keys.map((key) => ({ key, value: valueBytes })));
  const reads = await byTurns(
    turns,
    () => rateOfCalls(20_000, (index) => data.get(caller, namespaceOf(index % few), keyOf(index % few))),
    () => rateOfCalls(20_000, (index) => JSON.parse(String(raw.get(keys[index % few] as Buffer))) as unknown),
  );
  await raw.close();
  return {
    what: 'get in process / raw engine read and JSON.parse',
    ...reads,
    unit: 'reads/s',
    target: { atLeast: 0.6 },
  };
}

async function trackingRow({ data }: DocumentSet): Promise<Row> {
  const read = (who: typeof caller) => () =>
    rateOfCalls(20_000, (index) => data.get(who, namespaceOf(index % hotKeys), keyOf(index % hotKeys)));
  const reads = await byTurns(turns, read(reader), read(caller));
  return {
    what: 'get by an agent, counted / not counted (1,000 hot keys)',
    ...reads,
    unit: 'reads/s',
    target: { atLeast: 0.9 },
  };
}

async function writeRow({ data, kernel }: DocumentSet): Promise<Row> {
  let number = 0;
  const store = kernel.root;
  const writes = await byTurns(
    31,
    () =>
      rateInFlight(
        inFlight,
        // Other text each time: words that are stored already are not filed again.
        () => data.set(caller, 'written', `k${(number += 1) % few}`, { ...value, title: `result ${number}` }),
        100,
      ),
    () =>
      rateInFlight(inFlight, () => store.transact((tx) => plainWrite(tx, `k${(number += 1) % few}`)), 100),
  );
  return {
    what: `durable set, ${inFlight} in flight / kernel transactions of JSON.stringify, one put and one change`,
    ...writes,
    unit: 'writes/s',
    target: { atLeast: 0.6 },
  };
}

/** The least that a visible write of a value does: its JSON, its bytes, and its line in the change feed. */
function plainWrite(tx: Transaction, key: string): void {
  tx.put(rawFamily, Buffer.from(`${'u'.repeat(32)}written\0${key}`), Buffer.from(JSON.stringify(value)));
  tx.change({
    domain: 'data',
    kind: 'document.set',
    id: `written/${key}`,
    user: 'bench',
    version: 1,
    facts: { namespace: 'written', key },
  });
}

async function sizeRows(small: DocumentSet, large: DocumentSet): Promise<Row[]> {
  const rows: Row[] = [];
  const row = async (
    what: string,
    calls: number,
    work: (set: DocumentSet, index: number) => Promise<unknown>,
  ) => {
    const costs = await byTurns(
      turns,
      () => cost(large, calls, work),
      () => cost(small, calls, work),
    );
    rows.push({ what: `${what}, 1M documents / 10k`, ...costs, unit: 'µs', target: { atMost: 1.3 } });
  };
  // The same number of different keys in both, spread over the whole set.
  await row('get', 10_000, ({ data, count }, index) => {
    const number = ((index % hotKeys) * 7_919) % count;
    return data.get(caller, namespaceOf(number), keyOf(number));
  });
  await row('listKeys page of 100', 300, ({ data }, index) => data.listKeys(caller, namespaceOf(index)));
  await row(`listNamespaces (${namespaces})`, 100, ({ data }) => data.listNamespaces(caller));
  return rows;
}

async function cost(
  set: DocumentSet,
  calls: number,
  work: (set: DocumentSet, index: number) => Promise<unknown>,
): Promise<number> {
  const startedMs = performance.now();
  for (let call = 0; call < calls; call += 1) await work(set, call);
  return ((performance.now() - startedMs) * 1_000) / calls;
}

async function rateOfCalls(calls: number, work: (index: number) => unknown): Promise<number> {
  const startedMs = performance.now();
  for (let call = 0; call < calls; call += 1) await work(call);
  return (calls / (performance.now() - startedMs)) * 1_000;
}

function namespaceOf(index: number): string {
  return `namespace-${String(index % namespaces).padStart(2, '0')}`;
}

function keyOf(index: number): string {
  return `documents/${String(index).padStart(7, '0')}`;
}

/** Loaded a thousand a transaction and kept between runs. */
async function openFilled(path: string, count: number): Promise<DocumentSet> {
  const mark = `${path}.filled`;
  if (!existsSync(mark)) await rm(path, { recursive: true, force: true });
  const kernel = await openKernel({
    dataDir: path,
    engine: 'lmdb',
    families: [...directoryFamilies, rawFamily],
    limits: limitsWith(),
  });
  const port = new DirectoryDataStore({ kernel });
  const data = new DataService({ port, writer: new DirectoryWriter(kernel), limits: limitsWith() });
  if (!existsSync(mark)) {
    for (let first = 0; first < count; first += 1_000) {
      const step = Array.from({ length: 1_000 }, (_, index) => first + index);
      await kernel.root.transact((tx) => {
        for (const index of step) {
          const write = {
            key: keyOf(index),
            valueJson: valueText,
            metadata: null,
            agent: null,
            ifVersion: null,
            expiresAt: null,
          };
          port.verbs.set(tx, { user: caller.user, namespace: namespaceOf(index) }, write);
        }
      });
    }
    await writeFile(mark, '');
  }
  return {
    data,
    kernel,
    count,
    close: async () => {
      await data.close();
      await kernel.close();
    },
  };
}
