/**
 * The doctor over every family: each index and kept count is damaged, found and repaired, and no record
 * changes.
 */
import type { Kernel } from '../../../../src/homes/directory/kernel/kernel.js';
import { kernelOf } from '../../../kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { allChecks, unexaminedFamilies } from '../../../../src/homes/directory/doctor/doctor.js';
import { families as messaging } from '../../../../src/homes/directory/messaging/rows.js';
import { userKey } from '../../../../src/identity/user-key.js';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { examineAll } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import type { Finding } from '../../../../src/operations/model.js';
import { kernelFamilies as kernel } from '../../../../src/homes/directory/kernel/families.js';
import type { Store } from '../../../../src/homes/directory/kernel/store.js';
import type { Totals } from '../../../../src/messaging/model.js';
import { nowMs, populate } from '../populated.js';

import {
  derived,
  elsewhere,
  everyFamily,
  examined,
  junk,
  none,
  records,
  stranger,
  text,
} from './family-rules.js';

it('every family has a rule, or a stated reason for having none', () => {
  const checked = new Set(checkedFamilies());
  for (const family of everyFamily)
    expect([family, checked.has(family)]).toEqual([family, !(family in unexaminedFamilies)]);
  for (const reason of Object.values(unexaminedFamilies)) expect(reason.length).toBeGreaterThan(20);
  expect(
    [
      ...Object.keys(derived),
      ...Object.keys(records),
      ...Object.keys(unexaminedFamilies),
      ...elsewhere.filter((family) => !(family in unexaminedFamilies)),
    ].toSorted(),
  ).toEqual([...everyFamily].toSorted());
});

/** The checks name their families without looking at a store. */
function checkedFamilies(): string[] {
  const unopened = { root: undefined, stores: [], limits: {} } as unknown as Kernel;
  return allChecks(unopened).map(({ family }) => family);
}

describe.each(['lmdb', 'rocksdb'] as const)('the doctor on %s', (engine) => {
  let directory: string;
  let stoa: Stoa;
  let store: Store;
  let sound: ReturnType<typeof rowsOfAll>;
  let totals: Totals;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-doctor-'));
    stoa = await openStoa({ data: directory, engine, clock: () => nowMs, sweepIntervalMs: 3_600_000 });
    store = kernelOf(stoa).root;
    // As after the first full backup: before it, the redo log has no rows.
    kernelOf(stoa).keepRedo();
    await populate(stoa);
    sound = rowsOfAll();
    totals = await stoa.messaging.port.totals();
  });
  /** Each test starts with the same rows. */
  afterEach(() => makeSound());
  afterAll(async () => {
    await stoa.close();
    await rm(directory, { recursive: true, force: true });
  });

  async function findings(repair = false): Promise<(Finding & { repaired: boolean })[]> {
    const found: (Finding & { repaired: boolean })[] = [];
    for await (const { shard: _, ...finding } of examineAll(
      kernelOf(stoa).stores,
      allChecks(kernelOf(stoa)),
      {
        repair,
      },
    ))
      found.push(finding);
    return found;
  }

  const rowsOf = (family: string) =>
    Array.from(store.range(family, {}), ({ key, value }) => ({
      key: Buffer.from(key),
      value: Buffer.from(value),
    }));
  /** Every row on one engine; on the other, the first and last rows are enough. */
  const victimsOf = (family: string) =>
    engine === 'lmdb'
      ? rowsOf(family)
      : rowsOf(family).filter((_, index, { length }) => index === 0 || index === length - 1);
  const rowsOfAll = () =>
    new Map(
      examined.flatMap((family) =>
        rowsOf(family).map((row) => [`${family} ${row.key.toString('hex')}`, { family, ...row }]),
      ),
    );
  const makeSound = () =>
    store.transact((tx) => {
      for (const [name, { family, key }] of rowsOfAll()) if (!sound.has(name)) tx.delete(family, key);
      for (const { family, key, value } of sound.values())
        if (tx.get(family, key)?.equals(value) !== true) tx.put(family, key, value);
    });
  const dump = (families: readonly string[]) =>
    families.flatMap((family) =>
      rowsOf(family).map(({ key, value }) => `${family} ${key.toString('hex')} ${value.toString('hex')}`),
    );
  const dumpRecords = () => dump(Object.keys(records));
  const dumpAll = () => dump(examined);
  const write = (family: string, key: Buffer, value: Buffer | undefined) =>
    store.transact((tx) => (value === undefined ? tx.delete(family, key) : tx.put(family, key, value)));

  /**
   * Finds the damage in its family, repairs all of it, finds nothing more, and has not changed the records.
   */
  async function mend(family: string, kept: readonly string[]): Promise<void> {
    const found = await findings();
    expect(found.map((finding) => finding.family)).toContain(family);
    expect(found.filter(({ repair }) => repair === null)).toEqual([]);
    const repaired = await findings(true);
    expect(repaired.filter((finding) => !finding.repaired)).toEqual([]);
    expect(await findings()).toEqual([]);
    expect(dumpRecords()).toEqual(kept);
    expect(await stoa.messaging.port.totals()).toEqual(totals);
    expect(await search('words')).toEqual([
      'these words wait',
      'filed words come again',
      'filed words are filed early',
    ]);
    expect(await search('filed', 'again')).toEqual(['filed words come again']);
    expect(await search('nobody')).toEqual([]);
  }

  const search = async (...words: string[]) =>
    (
      await stoa.messaging.port.search({
        words,
        roomId: null,
        owner: null,
        afterMs: 0,
        beforeMs: null,
        limit: 10,
      })
    ).messages.map(({ body }) => body);

  it('finds nothing in an undamaged store with rows in every family', async () => {
    for (const family of everyFamily.filter((each) => !elsewhere.includes(each)))
      expect([family, rowsOf(family).length > 0]).toEqual([family, true]);
    expect(await findings()).toEqual([]);
  });

  const damaged = Object.entries({ ...derived, ...records });

  it.each(damaged.filter(([, { lost }]) => lost !== undefined))(
    'brings back any row that is lost of %s',
    async (family, { lost }) => {
      const [all, kept] = [dumpAll(), dumpRecords()];
      for (const { key } of victimsOf(family)) {
        await write(family, key, undefined);
        await mend(family, kept);
        if (lost === 'same') expect(dumpAll()).toEqual(all);
        else await makeSound();
      }
    },
  );

  it.each(damaged.filter(([, { spoiled }]) => spoiled !== undefined))(
    'mends any row of %s that says something else',
    async (family, { spoiled }) => {
      const [all, kept] = [dumpAll(), dumpRecords()];
      for (const { key } of victimsOf(family)) {
        if (/^meta:(schema|last)_/.test(key.toString())) continue;
        await write(family, key, junk);
        await mend(family, kept);
        if (spoiled === 'removed') expect(store.get(family, key)).toBeUndefined();
        if (spoiled === 'same') expect(dumpAll()).toEqual(all);
        else await makeSound();
      }
    },
  );

  it.each(damaged.filter(([, { extra = [] }]) => extra.length > 0))(
    'takes out the rows of %s that do not belong',
    async (family, { extra = [] }) => {
      const [all, kept] = [dumpAll(), dumpRecords()];
      for (const [key, value] of extra) {
        expect(store.get(family, key)).toBeUndefined();
        await write(family, key, value);
        expect(await findings()).toContainEqual(
          expect.objectContaining({ family, key: key.toString('hex') }),
        );
        await mend(family, kept);
        expect(dumpAll()).toEqual(all);
      }
    },
  );

  it('reports unreadable records and does not change them', async () => {
    for (const family of Object.keys(records)) {
      const [first] = rowsOf(family) as [{ key: Buffer; value: Buffer }];
      if (family === 'messaging/room_keys') continue;
      await write(family, first.key, junk);
      const found = await findings();
      expect(found.length, family).toBeGreaterThan(0);
      await write(family, first.key, first.value);
      expect(await findings(), family).toEqual([]);
    }
  });

  it.each([messaging.messages, messaging.inboxes])(
    'reports a message of %s whose proof cannot be read',
    async (family) => {
      const [first] = rowsOf(family) as [{ key: Buffer; value: Buffer }];
      await write(family, first.key, Buffer.concat([first.value, text('\n{"scheme":')]));
      expect(await findings()).toMatchObject([{ family, kind: 'unreadable' }]);
      await write(family, first.key, first.value);
    },
  );

  it('opens a store whose guards cannot be read, so that the doctor can look at it', async () => {
    await write(messaging.blocks, text('203.0.113.9'), junk);
    await write(messaging.rateWindows, text('violations'), junk);
    await write(messaging.nonces, stranger.subarray(0, 3), none);
    await stoa.close();
    stoa = await openStoa({ data: directory, engine, clock: () => nowMs, sweepIntervalMs: 3_600_000 });
    store = kernelOf(stoa).root;
    expect((await findings(true)).map(({ family, repaired }) => [family, repaired])).toEqual([
      [messaging.nonces, true],
      [messaging.blocks, false],
    ]);
    expect((await stoa.messaging.port.blocks(null, 10)).items).toMatchObject([{ address: '203.0.113.7' }]);
  });
});

it('with several shards, the directory of ids has every record that is looked up by id', async () => {
  const stoa = await openStoa({
    data: 'unused',
    engine: 'memory',
    shards: 2,
    clock: () => nowMs,
    sweepIntervalMs: 3_600_000,
  });
  await populate(stoa);
  const { root, stores } = kernelOf(stoa);
  const findings = async (repair: boolean) => {
    const found: Finding[] = [];
    for await (const finding of examineAll(stores, allChecks(kernelOf(stoa)), { repair }))
      found.push(finding);
    return found;
  };
  const rows = () =>
    Array.from(
      root.range(kernel.directory, {}),
      ({ key, value }) => `${key.toString()} ${value.toString('hex')}`,
    );
  const before = rows();
  expect(before.length).toBeGreaterThanOrEqual(8);
  expect(await findings(false)).toEqual([]);
  for (const { key } of Array.from(root.range(kernel.directory, {}))) {
    for (const value of [undefined, stranger.subarray(0, 32)]) {
      await root.transact((tx) =>
        value === undefined ? tx.delete(kernel.directory, key) : tx.put(kernel.directory, key, value),
      );
      expect(await findings(false), key.toString()).toContainEqual(
        expect.objectContaining({ family: kernel.directory }),
      );
      await findings(true);
      expect(await findings(false)).toEqual([]);
      expect(rows()).toEqual(before);
    }
  }
  await root.transact((tx) => tx.put(kernel.directory, text('something else'), userKey('ada')));
  expect(await findings(true)).toMatchObject([{ family: kernel.directory, kind: 'wrong' }]);
  expect(rows()).toEqual(before);
  await stoa.close();
});
