import { afterAll, expect, test } from 'vitest';
import { type Check, examine, missingRow } from '../../../../../src/homes/directory/kernel/inspect/doctor.js';
import { bytes, items, openStore, others, removeDirectories, text } from '../open-store.js';
import type { Finding } from '../../../../../src/operations/model.js';

afterAll(removeDirectories);

/** Each row of one family has one of the same key in the other. */
const pairs: Check = {
  family: items,
  *inspect(reader, { key }) {
    if (reader.get(others, key) === undefined)
      yield missingRow(others, key, 'It has no partner.', (tx) =>
        tx.put(others, key, bytes('by the doctor')),
      );
  },
};

test('what only seemed wrong, because a write was on its way, is neither told nor mended', async () => {
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
