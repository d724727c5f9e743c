/** A record and the index rows that its family declares are written, changed and removed together. */
import { afterAll, beforeEach, expect, it } from 'vitest';
import { inspectIndexRow, inspectRows } from '../../../src/homes/directory/doctor/indexes.js';
import { IndexedFamily } from '../../../src/homes/directory/indexed-family.js';
import { type Damage, ExaminedRow } from '../../../src/homes/directory/kernel/inspect/damage.js';
import type { Store } from '../../../src/homes/directory/kernel/store.js';
import { items, openStore, others, removeDirectories } from './kernel/open-store.js';

interface Note {
  id: string;
  topic: string | null;
  tags: readonly string[];
  text: string;
}

const notes = new IndexedFamily<Note>({
  family: items,
  keyOf: ({ id }) => Buffer.from(id),
  encode: (note) => Buffer.from(JSON.stringify(note)),
  indexes: [
    {
      family: others,
      keysOf: ({ id, topic }) => (topic === null ? undefined : `topic:${topic}:${id}`),
      contentOf: ({ id }) => Buffer.from(id),
    },
    {
      family: others,
      keysOf: ({ id, tags }) => tags.map((tag) => Buffer.from(`tag:${tag}:${id}`)),
      basisOf: ({ tags }) => tags,
    },
  ],
});

const first: Note = { id: 'a', topic: 'x', tags: ['red', 'blue'], text: '' };
let store: Store;

beforeEach(async () => {
  ({ store } = await openStore());
  await store.transact((tx) => notes.put(tx, undefined, first));
});
afterAll(removeDirectories);

const key = (text: string): Buffer => Buffer.from(text);
const found = (damages: Iterable<Damage>): string[] =>
  Array.from(damages, (damage) => `${damage.kind} ${Buffer.from(damage.key, 'hex').toString()}`);
const rows = (): string[] => Array.from(store.range(others, {}), ({ key, value }) => `${key} ${value}`);

it('a new record has every row that is declared', () => {
  expect(rows()).toEqual(['tag:blue:a ', 'tag:red:a ', 'topic:x:a a']);
});

it('a change writes the difference and nothing else', async () => {
  const written: string[] = [];
  store.onWritten((operations) => {
    for (const { family, key, value } of operations)
      if (family === others) written.push(`${value === undefined ? 'delete' : 'put'} ${key}`);
  });
  await store.transact((tx) => notes.put(tx, first, { ...first, topic: null, tags: ['blue', 'green'] }));
  expect(written.toSorted()).toEqual(['delete tag:red:a', 'delete topic:x:a', 'put tag:green:a']);
  expect(rows()).toEqual(['tag:blue:a ', 'tag:green:a ']);
});

it('a deleted record loses all its rows', async () => {
  await store.transact((tx) => notes.remove(tx, first));
  expect(rows()).toEqual([]);
  expect(store.get(items, Buffer.from('a'))).toBeUndefined();
});

it('doctor finds a missing row, a wrong value and a row of no record by the same declaration', async () => {
  await store.transact((tx) => {
    tx.delete(others, key('tag:red:a'));
    tx.put(others, key('topic:x:a'), key('b'));
  });
  expect(found(inspectRows(store, notes.rowsOf(first), 'the note a'))).toEqual([
    'wrong topic:x:a',
    'missing tag:red:a',
  ]);
  await store.transact((tx) => {
    for (const { applyRepair } of inspectRows(tx, notes.rowsOf(first), 'the note a')) applyRepair?.(tx);
  });
  expect(rows()).toEqual(['tag:blue:a ', 'tag:red:a ', 'topic:x:a a']);
  const entry = { key: key('topic:y:a'), value: key('a') };
  const stale = new ExaminedRow(others, entry, { reader: store, store, pass: {} });
  expect(found(inspectIndexRow(stale, notes.rowsOf(first), 'note'))).toEqual(['duplicate topic:y:a']);
  expect(found(inspectIndexRow(stale, undefined, 'note'))).toEqual(['dangling topic:y:a']);
});
