/** The rows of the search index, compared with the plain words of the same entries. */
import { describe, expect, test } from 'vitest';
import type { EntryName } from '../../src/find/model.js';
import { type GroupList, joinLists } from '../../src/find/ranking/group-list.js';
import { beginningWordsMax, wordsBeginningWith } from '../../src/find/segments/beginnings.js';
import { TermCursor, blockBytesMax } from '../../src/find/segments/blocks.js';
import { Catalog, CatalogWriter } from '../../src/find/segments/catalog.js';
import { type ChangingFacts, SegmentFacts } from '../../src/find/segments/facts.js';
import { compareNames } from '../../src/find/ranking/order.js';
import { mergedBlocks, mergedCatalog } from '../../src/find/segments/merge.js';
import { packText } from '../../src/find/segments/packed-terms.js';
import {
  DeadPlaces,
  type NewSegment,
  type WaitingEntry,
  fileEntries,
} from '../../src/find/segments/segment.js';
import { IndexView, type ViewedSegment, seenPlaces } from '../../src/find/segments/view.js';
import { type SeenWaiting, WaitingTerms } from '../../src/find/segments/waiting.js';
import { compareWords } from '../../src/find/segments/word-order.js';
import { isStemTerm } from '../../src/find/words/entry-terms.js';
import { type PlainTerms, plainTerms } from './plain-terms.js';

const vocabulary = [
  'deploy',
  'deployed',
  'getUserById',
  'naïve',
  '東京',
  '𝒜lpha',
  '\uffff',
  'the',
  'E404',
  'x',
];

function keyOf({ kind, collection, id }: EntryName): string {
  return `${kind} ${collection} ${id}`;
}

/** A small generator of numbers, so that a failure repeats. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

interface Made {
  readonly entry: WaitingEntry;
  readonly terms: PlainTerms;
}

function makeEntries(seed: number, count: number): Made[] {
  const next = numbers(seed);
  return Array.from({ length: count }, (_, index) => {
    const words = Array.from({ length: 1 + next(40) }, () => `${vocabulary[next(10)]} w${next(200)}`).join(
      ' ',
    );
    const text = { title: [`key ${index}`], body: [words] };
    const name: EntryName = {
      kind: next(4) === 0 ? 'tasks' : 'data',
      collection: `space-${next(5)}`,
      id: `id-${seed}-${index}`,
    };
    return {
      terms: plainTerms(text),
      entry: {
        name,
        version: next(100),
        author: next(2) === 0 ? null : `agent-${next(3)}`,
        timeMs: 1_700_000_000_000 + next(1_000_000),
        expiresAtMs: next(10) === 0 ? 1_800_000_000_000 + next(1_000) : null,
        packed: packText(text),
      },
    };
  });
}

function filed(entries: readonly WaitingEntry[]): NewSegment {
  const steps = fileEntries(entries);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

function viewed(segment: NewSegment, dead = new DeadPlaces(Buffer.alloc(0))): ViewedSegment {
  const catalog = new Catalog(segment.catalog);
  const facts = new SegmentFacts(segment.facts, catalog.count);
  return { catalog, facts, dead, blocks: segment.blocks.map(({ body }) => body) };
}

const everything = { hasCollection: () => true, nowMs: 1_700_000_000_000 };

function hasCollection(kind: string, collection: string): boolean {
  return kind === 'data' && (collection === 'space-1' || collection === 'space-3');
}

/** Waiting entries as a search for all of their terms keeps them. */
function seenOf(made: readonly Made[]): SeenWaiting[] {
  const terms = new WaitingTerms({
    terms: made.flatMap((one) => [...one.terms.terms.keys()]),
    beginnings: [],
  });
  return made.map(({ entry }) => terms.of(entry));
}

/** Every term of the view must be exactly what the words of the entries say. */
function expectSame(view: IndexView, made: readonly Made[]): void {
  const expected = new Map<string, Map<string, unknown>>();
  for (const { entry, terms } of made)
    for (const [term, use] of terms.terms) {
      const entries = expected.get(term) ?? new Map<string, unknown>();
      entries.set(JSON.stringify(entry.name), use);
      expected.set(term, entries);
    }
  expect(view.count).toBe(made.length);
  expect(view.titleLength).toBe(made.reduce((sum, { terms }) => sum + terms.titleLength, 0));
  expect(view.bodyLength).toBe(made.reduce((sum, { terms }) => sum + terms.bodyLength, 0));
  for (const [term, entries] of expected) {
    const list = view.list(term);
    const found = Array.from(list.ordinals, (ordinal, index): [string, unknown] => [
      JSON.stringify(view.facts(ordinal).name),
      {
        title: list.titles[index],
        body: list.bodies[index],
        positions: list.positions(index),
      },
    ]);
    expect(new Map(found)).toEqual(entries);
    expect(found.length).toBe(entries.size);
  }
}

async function merged(segments: readonly ViewedSegment[]): Promise<NewSegment> {
  const inputs = segments.map((segment) => ({ ...segment, blocks: oneByOne(segment.blocks) }));
  const joined = await mergedCatalog(inputs, everything.nowMs);
  const blocks = [];
  for await (const complete of mergedBlocks(inputs, joined)) blocks.push(...complete);
  return { catalog: joined.catalog, facts: joined.facts, entries: joined.entries, blocks };
}

async function* oneByOne(blocks: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* blocks;
}

function readTerms(body: Buffer): void {
  const cursor = new TermCursor();
  cursor.open(body);
  while (cursor.next()) continue;
}

function shown({ ordinals, titles, bodies, positions }: GroupList): unknown {
  return Array.from(ordinals, (ordinal, at) => [ordinal, titles[at], bodies[at], positions(at)]);
}

describe('the rows of the search index', () => {
  test('a segment has every word of its entries, and so has a merged segment', async () => {
    const made = [makeEntries(2, 300), makeEntries(3, 40), makeEntries(4, 1)];
    const segments = made.map((part) => viewed(filed(part.map(({ entry }) => entry))));
    expectSame(new IndexView([{ segments, marked: [], waiting: [] }], everything), made.flat());
    const one = await merged(segments);
    expect(one.entries).toBe(341);
    expectSame(
      new IndexView([{ segments: [viewed(one)], marked: [], waiting: [] }], everything),
      made.flat(),
    );
    expect(one).toEqual(filed(made.flat().map(({ entry }) => entry)));
  });

  test('the catalog finds the place of every entry, and of no other', () => {
    const next = numbers(11);
    const parts = ['a', 'b', 'ab', 'é', '東', '𝒜', '\uffff'];
    const anyName = (): EntryName => ({
      kind: next(2) === 0 ? 'tasks' : 'data',
      collection: `space-${next(3)}`,
      id: Array.from({ length: 1 + next(4) }, () => parts[next(parts.length)]).join(''),
    });
    for (let round = 0; round < 50; round += 1) {
      const names = new Map(
        Array.from({ length: 1 + next(200) }, anyName).map((name) => [keyOf(name), name]),
      );
      const sorted = [...names.values()].toSorted(compareNames);
      const writer = new CatalogWriter();
      const facts = { version: 1, author: null, timeMs: 1, expiresAtMs: null, titleLength: 1, bodyLength: 1 };
      for (const name of sorted) writer.add({ ...name, id: Buffer.from(name.id), ...facts });
      const catalog = new Catalog(writer.take().catalog);
      expect(sorted.map((name) => catalog.placeOf(name))).toEqual([...sorted.keys()]);
      const others = Array.from({ length: 200 }, anyName).filter((name) => !names.has(keyOf(name)));
      expect(others.filter((name) => catalog.placeOf(name) !== -1)).toEqual([]);
    }
  });

  test('changed facts are those of their entries only, and the agents of earlier ones are forgotten', () => {
    const made = makeEntries(15, 40).map(({ entry }) => entry);
    let { facts } = viewed(filed(made));
    const expected = made.toSorted((a, b) => compareNames(a.name, b.name));
    for (let round = 0; round < 80; round += 1) {
      const changes = new Map(
        [round % 40, (round * 7) % 40].map((place): [number, ChangingFacts] => [
          place,
          { version: 2 ** 53 - 1 - round, author: `agent ${round} of ${place}`, timeMs: place },
        ]),
      );
      facts = facts.with(changes);
      for (const [place, change] of changes)
        expected[place] = { ...(expected[place] as WaitingEntry), ...change };
      expect(Array.from(expected, (_, place) => facts.at(place))).toEqual(
        expected.map(({ version, author, timeMs }) => ({ version, author, timeMs })),
      );
    }
    expect(facts.bytes.includes('agent 0 of 0')).toBe(false);
    expect(facts.newestMs).toBe(Math.max(...expected.map(({ timeMs }) => timeMs)));
  });

  test('an entry that has left is not seen, and a merge removes its words', async () => {
    const made = makeEntries(5, 200);
    const segment = viewed(filed(made.map(({ entry }) => entry)));
    const gone = made.filter((_, index) => index % 3 === 0);
    const left = made.filter((_, index) => index % 3 !== 0);
    const dead = new DeadPlaces(Buffer.alloc(0)).with(
      gone.map(({ entry }) => segment.catalog.placeOf(entry.name)),
    );
    expect(dead.count).toBe(gone.length);
    expectSame(
      new IndexView([{ segments: [{ ...segment, dead }], marked: [], waiting: [] }], everything),
      left,
    );
    const one = await merged([{ ...segment, dead }]);
    expect(one).toEqual(filed(left.map(({ entry }) => entry)));
  });

  test('a marked place hides its old entry and shows the waiting one', () => {
    const [old, other] = [makeEntries(6, 100), makeEntries(7, 100)];
    const segment = viewed(filed(old.map(({ entry }) => entry)));
    const rewritten = old.slice(0, 30).map(({ entry }, index): Made => {
      const { terms, entry: next } = other[index] as Made;
      return { terms, entry: { ...entry, version: 1_000, packed: next.packed } };
    });
    const waiting = seenOf(rewritten.slice(0, 20));
    const marked = rewritten.map(({ entry }) => entry.name);
    const view = new IndexView([{ segments: [segment], marked, waiting }], everything);
    expectSame(view, [...rewritten.slice(0, 20), ...old.slice(30)]);
  });

  test('entries of other collections and expired entries are neither seen nor counted', () => {
    const made = makeEntries(8, 300);
    const segment = viewed(filed(made.slice(0, 200).map(({ entry }) => entry)));
    const nowMs = 1_800_000_000_500;
    const waiting = seenOf(made.slice(200));
    const view = new IndexView([{ segments: [segment], marked: [], waiting }], { hasCollection, nowMs });
    const seen = made.filter(
      ({ entry: { name, expiresAtMs } }) =>
        hasCollection(name.kind, name.collection) && (expiresAtMs ?? Infinity) > nowMs,
    );
    expect(seen.length).toBeGreaterThan(20);
    expectSame(view, seen);
  });

  test('a beginning stands for its first words that a seen entry has, whatever the segments are', async () => {
    const made = [makeEntries(12, 300), makeEntries(13, 200), makeEntries(14, 50)];
    const parts = made.map((part) => filed(part.map(({ entry }) => entry)));
    const joined = await merged(parts.map((part) => viewed(part)));
    const filter = { hasCollection, nowMs: everything.nowMs };
    const seen = made.flat().filter(({ entry: { name } }) => hasCollection(name.kind, name.collection));
    for (const begin of ['', 'a', 'w', 'no-such']) {
      const words = new Set(seen.flatMap(({ terms }) => [...terms.terms.keys()]));
      const expected = [...words].filter((word) => word.startsWith(begin) && !isStemTerm(word));
      const first = expected.toSorted(compareWords).slice(0, beginningWordsMax + 1);
      for (const segments of [parts, [joined]]) {
        const { words: begun, isComplete } = await wordsBeginningWith(
          [begin],
          segments.map((part) => ({
            isSeen: seenPlaces(viewed(part), [], filter),
            blocksFrom: () => part.blocks.map(({ body }) => body),
          })),
        );
        expect(isComplete).toBe(true);
        // Only the blocks that were found for the beginning.
        const partition = {
          segments: segments.map((part) => ({ ...viewed(part), blocks: [] })),
          marked: [],
          waiting: [],
          begun,
        };
        const view = new IndexView([partition], filter);
        expect(view.beginning(begin, 1_000)).toEqual(first);
        for (const word of first)
          expect(view.list(word).ordinals.length, word).toBe(
            seen.filter(({ terms }) => terms.terms.has(word)).length,
          );
      }
    }
  });

  test('many lists are joined as few lists are', () => {
    const made = makeEntries(15, 100);
    const segment = viewed(filed(made.map(({ entry }) => entry)));
    const view = new IndexView([{ segments: [segment], marked: [], waiting: [] }], everything);
    const lists = Array.from({ length: 12 }, (_, at) => ({
      list: view.list(`w${at}`),
      weight: 0.5 + at / 8,
    }));
    const many = joinLists(lists, view.ordinals);
    const halves = [lists.slice(0, 6), lists.slice(6)].map((half) => joinLists(half, view.ordinals));
    const few = joinLists(
      halves.map((list) => ({ list, weight: 1 })),
      view.ordinals,
    );
    expect(many.ordinals.length).toBeGreaterThan(20);
    expect(shown(many)).toEqual(shown(few));
  });

  test('a common word is split over blocks of a limited size', async () => {
    const packed = packText({ title: [], body: ['common '.repeat(30)] });
    const entries = Array.from({ length: 3_000 }, (_, index) => ({
      ...(makeEntries(9, 1)[0] as Made).entry,
      name: { kind: 'data' as const, collection: 'one', id: `id-${index}` },
      packed,
    }));
    const segment = filed(entries);
    expect(segment.blocks.length).toBeGreaterThan(5);
    for (const { body } of segment.blocks) expect(body.length).toBeLessThanOrEqual(blockBytesMax);
    expect(new Set(segment.blocks.map(({ first, from }) => `${first} ${from}`)).size).toBe(
      segment.blocks.length,
    );
    const view = new IndexView([{ segments: [viewed(segment)], marked: [], waiting: [] }], everything);
    expect(view.list('common').ordinals.length).toBe(3_000);
    expect(await merged([viewed(segment)])).toEqual(segment);
  });

  test('cut or changed bytes end in an error, not in a hang', () => {
    const segment = filed(makeEntries(10, 50).map(({ entry }) => entry));
    const next = numbers(11);
    for (let round = 0; round < 300; round += 1) {
      const [catalog, body] = [Buffer.from(segment.catalog), Buffer.from(segment.blocks[0]?.body ?? '')];
      catalog[next(catalog.length)] = next(256);
      body[next(body.length)] = next(256);
      const facts = Buffer.from(segment.facts);
      facts[next(facts.length)] = next(256);
      for (const read of [
        () => new Catalog(catalog.subarray(0, next(catalog.length))),
        () => new Catalog(catalog),
        () => new SegmentFacts(facts.subarray(0, next(facts.length)), segment.entries),
        () => new SegmentFacts(facts, segment.entries),
        () => readTerms(body),
      ])
        try {
          read();
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
    }
  });

  test('a waiting entry keeps the terms that a search looks up, and the first words of a beginning', () => {
    const words = Array.from({ length: 300 }, (_, index) => `w${index}`);
    const packed = packText({ title: ['key'], body: [`alpha ${words.join(' ')}`] });
    const [first] = makeEntries(7, 1);
    const entry = { ...(first as Made).entry, packed };
    const kept = (terms: string[], beginnings: string[]): string[] => [
      ...new WaitingTerms({ terms, beginnings }).of(entry).terms.keys(),
    ];
    expect(kept(['alpha', 'w7', 'absent'], [])).toEqual(['alpha', 'w7']);
    expect(kept([], ['w'])).toEqual(['w', ...words].toSorted(compareWords).slice(0, beginningWordsMax + 1));
    expect(kept([], [])).toEqual([]);
  });
});
