/** The packed terms of a text are those that its words have one by one. */
import { describe, expect, test } from 'vitest';
import { makeCorpus } from '../../src/find/conformance/corpus.js';
import { makeQuestions } from '../../src/find/conformance/questions.js';
import type { EntryText } from '../../src/find/model.js';
import { ByteReader } from '../../src/find/segments/bytes.js';
import { packMessage, packText, packedLengths, packedTerms } from '../../src/find/segments/packed-terms.js';
import { type Counts, readCounts, readPositions } from '../../src/find/segments/postings.js';
import { documentText } from '../../src/find/text/document-text.js';
import { messageText } from '../../src/find/text/task-text.js';
import { fold } from '../../src/find/words/fold.js';
import { inTermOrder } from '../../src/find/segments/word-order.js';
import { TermTable } from '../../src/find/words/term-table.js';
import { indexWords } from '../../src/messaging/messages/tokenizer.js';
import { type PlainTerms, type PlainUse, plainTerms } from './plain-terms.js';

function unpacked(packed: Buffer): PlainTerms {
  const terms = new Map<string, PlainUse>();
  for (const [term, { shape, bytes, countsFrom, positionsFrom, positionsTo }] of packedTerms(packed)) {
    const counts: Counts = { title: 0, body: 0, positions: 0 };
    readCounts(new ByteReader(bytes, countsFrom), shape, counts);
    const positions = readPositions(new ByteReader(bytes, positionsFrom, positionsTo), counts.positions);
    terms.set(term, { title: counts.title, body: counts.body, positions });
  }
  return { ...packedLengths(packed), terms };
}

/** In the same order too. */
function expectPlain(packed: Buffer, { terms, ...lengths }: PlainTerms): void {
  const { terms: own, ...ownLengths } = unpacked(packed);
  expect(ownLengths).toEqual(lengths);
  expect([...own]).toEqual([...terms]);
}

function expectSame(text: EntryText): void {
  expectPlain(packText(text), plainTerms(text));
}

/** Pieces of text with every kind of character that the rules for words name. */
const pieces = [
  'a', 'b', 'é', 'É', 'ß', 'İ', 'ı', 'ﬁ', 'ς', 'Σ', 'ü', 'e\u0301', 'ﷺ', 'Ⅷ', '²', '’', '"', '\n', '\t',
  '_', '-', '.', '/', ':', '@', '#', '+', ' ', ' ', ' ', ' ', '1', '9', '数', '据', 'ア', 'が', 'ｶ', 'ﾞ', '한',
  'न', 'ि', 'ไ', '𝒜', '😀', '\ud800', 'running', 'deployed', 'ran', 'C++', 'getUserById', 'E404', 'went',
  'Indices', 'PEOPLE', 'cities', 'Took', 'drew', 'x'.repeat(99), 'y'.repeat(101),
]; // prettier-ignore

function randomTexts(count: number): string[] {
  let state = 7;
  const next = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  return Array.from({ length: count }, () =>
    Array.from({ length: next(60) }, () => pieces[next(pieces.length)] + (next(3) === 0 ? ' ' : '')).join(''),
  );
}

describe('the packed terms of a text', () => {
  test('are those of its words in documents of nine languages', () => {
    for (const { key, value } of makeCorpus({ seed: 3, documents: 500, users: 4, namespacesPerUser: 2 }))
      expectSame(documentText({ key, valueJson: JSON.stringify(value), metadata: {} }));
    for (const { text, answer } of makeQuestions(5, 20, { user: 'u', namespace: 'n' }))
      expectSame({ title: [text], body: [answer.value.title, answer.value.text] });
  });

  test('are those of its words in any text', () => {
    for (const text of randomTexts(1_500))
      expectSame({ title: [text.slice(0, 9)], body: [text, text.slice(4)] });
    for (const text of ['', 'a '.repeat(30_000), 'Common '.repeat(30), 'a1_b2 '.repeat(900)])
      expectSame({ title: [], body: [text] });
  });

  test('do not keep anything of the text before', () => {
    const text = { title: ['one'], body: ['two three'] };
    const alone = packText(text);
    packText({ title: [], body: [Array.from({ length: 9_000 }, (_, index) => `word${index}`).join(' ')] });
    expect(packText(text)).toEqual(alone);
  });

  test('of a message have each of its words for the search of AICQ too', () => {
    for (const body of [...randomTexts(800), 'snake_case_name and E404', 'plain words only']) {
      const plain = plainTerms(messageText(body));
      const terms = new Map(plain.terms);
      for (const word of messageText(body).body.flatMap(indexWords))
        if (!plain.terms.has(fold(word))) terms.set(`=${word}`, { title: 0, body: 1, positions: [0] });
      expectPlain(packMessage(messageText(body)), { ...plain, terms });
    }
  });

  test('come in the order of their bytes', () => {
    const words = randomTexts(600).flatMap((text) => text.split(' '));
    const alike = Array.from({ length: 300 }, (_, index) => `the same beginning ${(index * 7_919) % 300}`);
    const distinct = [...new Set([...words, ...alike])].map((word) => Buffer.from(word));
    const table = new TermTable();
    for (const bytes of distinct) table.numberOf(bytes, 0, bytes.length);
    const steps = inTermOrder(table);
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    const ordered = Array.from(step.value, (term) =>
      table.bytes.toString('latin1', table.starts[term], table.starts[term + 1]),
    );
    expect(ordered).toEqual([...new Set(distinct.map((bytes) => bytes.toString('latin1')))].toSorted());
  });
});
