/** The best results of a search are the first ones of all its results: no bound leaves one out. */
import { expect, test } from 'vitest';
import { makeCorpus } from '../../src/find/conformance/corpus.js';
import { searchOf } from '../../src/find/conformance/index.js';
import { searchView } from '../../src/find/ranking/search-view.js';
import { packText } from '../../src/find/segments/packed-terms.js';
import { Catalog } from '../../src/find/segments/catalog.js';
import { SegmentFacts } from '../../src/find/segments/facts.js';
import { DeadPlaces, fileEntries } from '../../src/find/segments/segment.js';
import { IndexView, type ViewedSegment } from '../../src/find/segments/view.js';
import { WaitingTerms } from '../../src/find/segments/waiting.js';
import { termsOfQuery } from '../../src/find/query/query.js';
import { documentText } from '../../src/find/text/document-text.js';

const limits = { findPostingsMax: 1_000_000 };
const corpus = [...makeCorpus({ seed: 21, documents: 800, users: 1, namespacesPerUser: 1 })];
const entries = corpus.map(({ namespace, key, value }, index) => ({
  name: { kind: 'data' as const, collection: namespace, id: key },
  version: 1,
  author: null,
  timeMs: index * 86_400_000,
  expiresAtMs: null,
  packed: packText(documentText({ key, valueJson: JSON.stringify(value), metadata: {} })),
}));

/** Words that stand side by side in a document, and words from two places of it. */
const texts = corpus.slice(0, 60).flatMap(({ value }, index) => {
  const words = value.text.split(/[^\p{L}\p{M}\p{Nd}]+/u).filter((word) => word.length > 1);
  const from = (index * 7) % Math.max(1, words.length - 6);
  const near = words.slice(from, from + 1 + (index % 6));
  return [near.join(' '), [...near, words[0], words.at(-1)].join(' ')];
});

const nowMs = 801 * 86_400_000;
const searches = texts.map((text) => searchOf(text, 'user-0', null, nowMs));
const terms = new WaitingTerms({
  terms: searches.flatMap(({ query }) => termsOfQuery(query).terms),
  beginnings: [],
});
/** Everything waits; everything is filed, in segments of several sizes; or some of each. */
const filedTo = { waiting: 0, 'filed and waiting': 600, filed: entries.length };

function viewOf(filed: number): IndexView {
  const segments = [];
  for (let from = 0, size = 50; from < filed; from += size, size *= 2)
    segments.push(segmentOf(entries.slice(from, Math.min(from + size, filed))));
  const waiting = entries.slice(filed).map((entry) => terms.of(entry));
  return new IndexView([{ segments, marked: [], waiting }], { hasCollection: () => true, nowMs });
}

function segmentOf(part: typeof entries): ViewedSegment {
  const steps = fileEntries(part);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  const { catalog, facts, entries, blocks } = step.value;
  return {
    catalog: new Catalog(catalog),
    facts: new SegmentFacts(facts, entries),
    dead: new DeadPlaces(Buffer.alloc(0)),
    blocks: blocks.map(({ body }) => body),
  };
}

test.each(
  Object.entries(filedTo).flatMap(([name, filed]) => [1, 3, 10].map((limit) => ({ name, filed, limit }))),
)('the first $limit results are the best of all, with entries that are $name', async ({ filed, limit }) => {
  const view = viewOf(filed);
  for (const search of searches) {
    const all = await searchView(view, { ...search, limit: entries.length }, limits);
    const best = await searchView(view, { ...search, limit }, limits);
    expect(best.entries).toEqual(all.entries.slice(0, limit));
  }
});
