/** The quality of the ranking on made questions with known answers. */
import { limitsWith } from '../../src/core/settings/limits.js';
import { makeCorpus } from '../../src/find/conformance/corpus.js';
import { searchOf } from '../../src/find/conformance/index.js';
import { makeQuestions, questionKinds } from '../../src/find/conformance/questions.js';
import { termsOfQuery } from '../../src/find/query/query.js';
import { searchView } from '../../src/find/ranking/search-view.js';
import { inSlices } from '../../src/core/waiting/yielding.js';
import { wordsBeginningWith } from '../../src/find/segments/beginnings.js';
import { Catalog } from '../../src/find/segments/catalog.js';
import { SegmentFacts } from '../../src/find/segments/facts.js';
import { packText } from '../../src/find/segments/packed-terms.js';
import { DeadPlaces, fileEntries } from '../../src/find/segments/segment.js';
import { IndexView, seenPlaces } from '../../src/find/segments/view.js';
import { documentText } from '../../src/find/text/document-text.js';
import type { Row } from '../frame.js';

const limits = limitsWith({});

/** How many of the reported half of the questions have their answer first, and among the first ten. */
export async function quality(): Promise<Row[]> {
  const place = { user: 'user-0', namespace: 'user-0-space-0' };
  const questions = makeQuestions(901, 200, place);
  const corpus = [
    ...makeCorpus({ seed: 9, documents: 10_000, users: 1, namespacesPerUser: 1 }),
    ...questions.map(({ answer }) => answer),
  ];
  const waiting = corpus.map(({ namespace, key, value }) => ({
    name: { kind: 'data' as const, collection: namespace, id: key },
    version: 1,
    author: null,
    timeMs: 0,
    expiresAtMs: null,
    packed: packText(documentText({ key, valueJson: JSON.stringify(value), metadata: {} })),
  }));
  const { catalog, facts, entries, blocks } = await inSlices(fileEntries(waiting));
  const segment = {
    catalog: new Catalog(catalog),
    facts: new SegmentFacts(facts, entries),
    dead: new DeadPlaces(Buffer.alloc(0)),
    blocks: blocks.map(({ body }) => body),
  };
  const filter = { hasCollection: () => true, nowMs: 1 };
  const begunIn = {
    isSeen: seenPlaces(segment, [], filter),
    blocksFrom: () => segment.blocks,
  };
  const rows: Row[] = [];
  for (const kind of questionKinds) {
    const reported = questions.filter((question, index) => question.kind === kind && index % 2 === 1);
    let [first, ten] = [0, 0];
    for (const { text, answer } of reported) {
      const search = searchOf(text, place.user, null, 1);
      const { words: begun } = await wordsBeginningWith(termsOfQuery(search.query).beginnings, [begunIn]);
      const view = new IndexView([{ segments: [segment], marked: [], waiting: [], begun }], filter);
      const { entries } = await searchView(view, search, limits);
      const found = entries.findIndex(({ name }) => name.id === answer.key);
      if (found === 0) first += 1;
      if (found >= 0) ten += 1;
    }
    const asked = reported.length;
    rows.push(
      { what: `${kind}: the answer is first`, ours: first, reference: asked, unit: 'questions' },
      { what: `${kind}: the answer is among ten`, ours: ten, reference: asked, unit: 'questions' },
    );
  }
  return rows;
}
