/** What an increment costs after one document in a hundred changed, against the full backup. */
import { kernelOf } from '../test/kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { operatorCaller } from '../src/core/caller.js';
import { type Stoa, openStoa } from '../src/index.js';
import { chainBytes } from '../src/homes/directory/kernel/backup/chain.js';
import { backup } from '../src/homes/directory/kernel/backup/backup.js';
import { type Bench, type Row, median } from './frame.js';

const documents = 100_000;
const changed = documents / 100;
const batch = 500;
const turns = 3;
const valueText = 'x'.repeat(500);

export const backupBench: Bench = {
  name: 'backup',
  run: async (directory) => [
    ...(await engineRows(directory, 'lmdb')),
    ...(await engineRows(directory, 'rocksdb')),
  ],
};

interface Cost {
  ms: number;
  bytes: number;
}

async function engineRows(directory: string, engine: 'lmdb' | 'rocksdb'): Promise<Row[]> {
  const own = await mkdtemp(join(directory, `${engine}-`));
  const stoa = await openStoa({ data: join(own, 'data'), engine });
  try {
    for (let from = 0; from < documents; from += batch)
      await set(
        stoa,
        Array.from({ length: batch }, (_, index) => from + index),
        'first',
      );
    const full: Cost[] = [];
    const increment: Cost[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      const backups = join(own, `backups-${turn}`);
      full.push(await costOf(stoa, backups, 'full'));
      // Spread over all keys, as work is.
      for (let from = 0; from < changed; from += batch)
        await set(
          stoa,
          Array.from({ length: batch }, (_, index) => ((from + index) * 97 + turn) % documents),
          `turn ${turn}`,
        );
      increment.push(await costOf(stoa, backups, 'incremental'));
    }
    const row = (what: string, unit: string, pick: (cost: Cost) => number): Row => ({
      what: `${engine}: increment of 1 % changed / full, ${what}`,
      ours: median(increment.map(pick)),
      reference: median(full.map(pick)),
      unit,
      target: { atMost: 0.05 },
    });
    return [row('time', 'ms', ({ ms }) => ms), row('bytes', 'B', ({ bytes }) => bytes)];
  } finally {
    await stoa.close();
    await rm(own, { recursive: true, force: true });
  }
}

async function set(stoa: Stoa, numbers: readonly number[], tag: string): Promise<void> {
  const items = Object.fromEntries(
    numbers.map((number) => [`document-${number}`, { number, tag, text: valueText }]),
  );
  await stoa.data.setMany(operatorCaller('bench'), 'bench', items);
}

async function costOf(stoa: Stoa, directory: string, kind: 'full' | 'incremental'): Promise<Cost> {
  const startedMs = performance.now();
  const description = await backup(kernelOf(stoa), { directory, kind });
  return { ms: performance.now() - startedMs, bytes: chainBytes([description]) };
}
