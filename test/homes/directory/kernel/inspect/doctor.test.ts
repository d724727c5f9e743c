import { afterAll, expect, test } from 'vitest';
import { missingRow, wrongRow } from '../../../../../src/homes/directory/kernel/inspect/damage.js';
import { type Check, eachRow, examine } from '../../../../../src/homes/directory/kernel/inspect/doctor.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import { bytes, items, openStore, others, removeDirectories, text } from '../open-store.js';
import type { Finding } from '../../../../../src/operations/model.js';

afterAll(removeDirectories);

/** Each row of one family has one of the same key in the other. */
const pairs: Check = {
  family: items,
  *inspect({ reader, key }) {
    if (reader.get(others, key) === undefined)
      yield missingRow(others, key, 'It has no partner.', bytes('by the doctor'));
  },
};

test('a difference caused by a concurrent write is neither reported nor repaired', async () => {
  const { store, engine } = await openStore();
  await store.transact((tx) => {
    for (const key of ['damaged', 'on-its-way']) tx.put(items, bytes(key), bytes('v'));
  });
  const release = engine.holdCommits();
  const writing = store.transact((tx) => tx.put(others, bytes('on-its-way'), bytes('by its writer')));
  const found: (Finding & { repaired: boolean })[] = [];
  const examining = (async () => {
    for await (const finding of examine(store, [pairs], { repair: true })) found.push(finding);
  })();
  release();
  await Promise.all([writing, examining]);
  expect(found).toMatchObject([
    { family: others, key: bytes('damaged').toString('hex'), kind: 'missing', repaired: true },
  ]);
  expect([text(store, 'damaged', others), text(store, 'on-its-way', others)]).toEqual([
    'by the doctor',
    'by its writer',
  ]);
});

const countKey = bytes('count');
const rows = 2_000;

/**
 * A row of `others` says how many there are in `items`. Each part of the count takes longer than one turn
 * may.
 */
function countOfItems(onPart: (part: number) => void): Check {
  return {
    family: others,
    inspect: () => [],
    *conclude(reader) {
      let [count, part] = [0, 0];
      yield* eachRow(reader, items, {}, () => {
        count += 1;
        if (count % 200 !== 1) return;
        part += 1;
        onPart(part);
        const startedMs = performance.now();
        while (performance.now() - startedMs < 3);
      });
      if (reader.get(others, countKey)?.toString() === String(count)) return;
      yield wrongRow(others, countKey, 'The count is wrong.', bytes(String(count)));
    },
  };
}

/** Repairs the count, and answers how many parts of it were counted in one turn at most. */
async function repairCount(store: Store, onPart: (part: number) => void): Promise<number> {
  let [inTurn, longest, isOver] = [0, 0, false];
  const nextTurn = (): void => {
    inTurn = 0;
    if (!isOver) setImmediate(nextTurn);
  };
  nextTurn();
  const check = countOfItems((part) => {
    inTurn += 1;
    longest = Math.max(longest, inTurn);
    onPart(part);
  });
  for await (const finding of examine(store, [check], { repair: true }))
    expect(finding).toMatchObject({ family: others, kind: 'wrong', repaired: true });
  isOver = true;
  return longest;
}

async function storeWithItems(): Promise<Store> {
  const { store } = await openStore();
  await store.transact((tx) => {
    for (let row = 0; row < rows; row += 1) tx.put(items, bytes(`row-${row}`), bytes('v'));
    tx.put(others, countKey, bytes('7'));
  });
  return store;
}

test('a long repair of a count lets other requests run', async () => {
  const store = await storeWithItems();
  expect(await repairCount(store, () => undefined)).toBeLessThanOrEqual(2);
  expect(text(store, 'count', others)).toBe(String(rows));
});

test('a count is repaired correctly under concurrent writes', async () => {
  const store = await storeWithItems();
  let added = 0;
  const writes: Promise<void>[] = [];
  await repairCount(store, (part) => {
    // In the first part of a look; not in the last one, which is inside the transaction.
    if (part !== 1 || added === 3) return;
    added += 1;
    const key = bytes(`a-${added}`);
    setImmediate(() => writes.push(store.transact((tx) => tx.put(items, key, bytes('v')))));
  });
  await Promise.all(writes);
  expect(text(store, 'count', others)).toBe(String(rows + added));
});

test('a row that is written with what it counts, during a long look at both, is not reported', async () => {
  const store = await storeWithItems();
  let count = rows;
  const write = (): Promise<void> =>
    store.transact((tx) => {
      count += 1;
      tx.put(items, bytes(`row-${count}`), bytes('v'));
      tx.put(others, countKey, bytes(String(count)));
    });
  await write();
  const check: Check = {
    family: others,
    *inspect({ reader, key, value }) {
      let counted = 0;
      yield* eachRow(reader, items, {}, () => {
        counted += 1;
        if (counted % 200 !== 1) return;
        setImmediate(() => void write());
        const startedMs = performance.now();
        while (performance.now() - startedMs < 3);
      });
      if (value.toString() !== String(counted)) yield wrongRow(others, key, 'Wrong.', () => undefined);
    },
  };
  for await (const finding of examine(store, [check])) expect(finding).toBeUndefined();
});
