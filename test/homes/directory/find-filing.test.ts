/** The turns that filing gets in a data directory while other work waits for its turns. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { nextTurn } from '../../../src/core/waiting/yielding.js';
import { partitionsIn } from '../../../src/homes/directory/find/filing/work.js';
import type { DirectoryFind } from '../../../src/homes/directory/find/find.js';
import { findFamilies } from '../../../src/homes/directory/find/rows.js';
import type { Store } from '../../../src/homes/directory/kernel/store.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { kernelOf } from '../../kernel-of.js';

const ada = operatorCaller('ada');
const documents = 200;

let directory: string;
let stoa: Stoa;
let store: Store;
let index: DirectoryFind;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-find-filing-'));
  stoa = await openStoa({ data: directory, sweepIntervalMs: 3_600_000 });
  store = kernelOf(stoa).root;
  index = stoa.find.port as DirectoryFind; // The home of this Stoa is a directory.
});
afterAll(async () => {
  await stoa.close();
  await rm(directory, { recursive: true, force: true });
});

/** The turns that a foreground loop takes until the filing has its segment ready to be written. */
async function turnsUntilFiled(file: (store: Store, partition: Buffer) => Promise<unknown>): Promise<number> {
  for (let at = 0; at < documents; at += 1) await stoa.data.set(ada, 'notes', `key-${at}`, `walrus ${at}`);
  const [partition] = partitionsIn(store, findFamilies.marks);
  let nowMs = 0;
  // Every pause is a turn.
  vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 1_000));
  const written: string[] = [];
  const transact = store.transact.bind(store);
  vi.spyOn(store, 'transact').mockImplementation((work, ...options) => {
    written.push('segment');
    return transact(work, ...options);
  });
  const filing = file(store, partition as Buffer);
  let turns = 0;
  while (written.length === 0) {
    await nextTurn();
    turns += 1;
  }
  await filing;
  vi.restoreAllMocks();
  return turns;
}

it('takes every other turn while a search waits for it, and one in eight otherwise', async () => {
  // Later filings also look up the places of the first one.
  await turnsUntilFiled((...given) => index.work.file(...given));
  const behind = await turnsUntilFiled((...given) => index.work.file(...given));
  const awaited = await turnsUntilFiled((...given) => index.work.fileUnlessMerging(...given));
  const awaitedLater = await turnsUntilFiled((...given) =>
    Promise.all([index.work.file(...given), index.work.fileUnlessMerging(...given)]),
  );
  expect(awaited).toBeLessThan(behind / 3);
  expect(awaitedLater).toBeLessThan(behind / 3);
});
