/**
 * The conformance suite of the search: what every home must find. The expected results come from the records
 * themselves, ranked in memory, so homes that pass give the same results in the same order with the same
 * scores.
 */
import { operatorCaller } from '../../core/caller.js';
import { limitDefinitions } from '../../core/settings/limits.js';
import type { TestRunner } from '../../core/test-runner.js';
import type { Writer } from '../../core/write.js';
import type { DocumentRecord, Scope } from '../../datastore/model.js';
import { timeOfMs } from '../../datastore/documents/times.js';
import type { DataPort, DocumentWrite } from '../../datastore/port.js';
import { documentEntry } from '../entries.js';
import type { RankedEntry } from '../model.js';
import type { FindPort, IndexSearch } from '../port.js';
import { parseQuery, termsOfQuery } from '../query/query.js';
import { searchView } from '../ranking/search-view.js';
import { IndexView } from '../segments/view.js';
import { WaitingTerms } from '../segments/waiting.js';
import { type CorpusShape, makeCorpus } from './corpus.js';
import { makeQuestions } from './questions.js';

/** A home, or one of several servers on it. */
export interface FindBench {
  readonly data: DataPort;
  readonly writer: Writer;
  readonly find: FindPort;
  nowMs(): number;
  /** Files everything that waits, and joins what is to be joined. */
  settle(): Promise<void>;
}

export interface FindTarget {
  /** Opens an empty home whose clock `advance` moves. */
  open(): Promise<FindBench & { advance(ms: number): void; close(): Promise<void> }>;
  /** Another server on the same home; missing if a home has one server. */
  second?(): Promise<FindBench>;
  /** Documents of the corpus. */
  readonly documents: number;
}

const findPostingsMax = limitDefinitions.findPostingsMax.default;
const users = 4;
const writesPerBatch = 200;
const namespacesPerUser = 4;

export function findConformance(
  { describe, it, beforeAll, afterAll, expect }: TestRunner,
  target: FindTarget,
): void {
  describe('the search', () => {
    let bench: Awaited<ReturnType<FindTarget['open']>>;
    let other: FindBench;
    const shape: CorpusShape = { seed: 11, documents: target.documents, users, namespacesPerUser };
    const place = { user: 'user-1', namespace: 'user-1-space-1' };
    const questions = makeQuestions(77, 12, place);

    beforeAll(async () => {
      bench = await target.open();
      other = (await target.second?.()) ?? bench;
    });
    afterAll(() => bench.close());

    /** Compares a home with the ranking of its records in memory. */
    const expectEqual = async (texts: readonly string[]): Promise<void> => {
      const user = place.user;
      const records = await allRecords(bench.data, user);
      for (const namespaces of [null, [place.namespace], ['user-1-space-0', 'user-1-space-3']]) {
        const view = viewOf(records, namespaces, texts, bench.nowMs());
        for (const text of texts) {
          const search = searchOf(text, user, namespaces, bench.nowMs());
          const expected = await searchView(view, search, { findPostingsMax });
          for (const { find } of new Set([bench, other])) {
            const { entries, statistics } = await find.search(search);
            expect(entries.map(shown), text).toEqual(expected.entries.map(shown));
            expect(statistics, text).toEqual(expected.statistics);
          }
        }
      }
    };

    it('finds a written document with the next search, on every server', async () => {
      for (const [index, bodyText] of ['zebra crossing', 'the zebras crossed', 'Überraschung'].entries()) {
        await set(bench, 'fresh', 'news', [write(`note-${index}`, { text: bodyText })]);
        const word = bodyText.split(' ')[1] ?? 'uberraschung';
        for (const found of [other, bench])
          expect(await keysOf(found, 'fresh', word)).toContain(`note-${index}`);
      }
      await set(other, 'fresh', 'news', [write('note-0', { text: 'giraffe' })]);
      expect(await keysOf(bench, 'fresh', 'giraffe')).toEqual(['note-0']);
      expect(await keysOf(bench, 'fresh', 'crossing')).not.toContain('note-0');
      await remove(bench, 'fresh', 'news', ['note-0']);
      expect(await keysOf(other, 'fresh', 'giraffe')).toEqual([]);
    });

    it('finds the corpus as its records say: waiting, filed, and joined', async () => {
      const texts = [...questions.map(({ text }) => text).slice(0, 24), ...queryShapes];
      const corpus = [...makeCorpus(shape), ...questions.map(({ answer }) => answer)];
      const byScope = new Map<string, { user: string; namespace: string; writes: DocumentWrite[] }>();
      for (const { user, namespace, key, value } of corpus) {
        const scope = byScope.get(namespace) ?? { user, namespace, writes: [] };
        scope.writes.push(write(key, value));
        byScope.set(namespace, scope);
      }
      for (const { user, namespace, writes } of byScope.values())
        for (let at = 0; at < writes.length; at += writesPerBatch)
          await set(bench, user, namespace, writes.slice(at, at + writesPerBatch));
      await expectEqual(texts.slice(0, 6));
      await bench.settle();
      await expectEqual(texts);
    });

    it('follows documents that are written again and deleted', async () => {
      const records = await allRecords(bench.data, place.user);
      for (const namespace of new Set(records.map((record) => record.namespace))) {
        const keys = records.filter((record) => record.namespace === namespace).map(({ key }) => key);
        const rewritten = keys.filter((_key, index) => index % 17 === 0);
        const texts = rewritten.map((key) => write(key, { text: `rewritten database ${key}` }));
        await set(bench, place.user, namespace, texts);
        const removed = keys.filter((_key, index) => index % 19 === 0);
        await remove(other, place.user, namespace, removed);
      }
      await expectEqual(queryShapes);
      await bench.settle();
      await expectEqual(queryShapes);
    });

    it('answers most questions of the corpus with their document first', async () => {
      const live = new Set((await allRecords(bench.data, place.user)).map(({ key }) => key));
      const asked = questions.filter(({ answer }) => live.has(answer.key));
      let first = 0;
      for (const { text, answer } of asked) {
        const [best] = await keysOf(bench, place.user, text, [place.namespace]);
        if (best === answer.key) first += 1;
      }
      expect(first).toBeGreaterThanOrEqual(Math.floor(asked.length * 0.7));
    });

    it('shows nothing of other users and namespaces, and does not count it', async () => {
      const before = await bench.find.search(searchOf('secretword', 'alone', ['mine'], bench.nowMs()));
      await set(bench, 'alone', 'mine', [
        write('a', { text: 'secretword here' }),
        write('b', { text: 'other' }),
      ]);
      const search = searchOf('secretword', 'alone', ['mine'], bench.nowMs());
      const only = await bench.find.search(search);
      await set(bench, 'alone', 'theirs', [write('c', { text: 'secretword secretword' })]);
      await set(bench, 'stranger', 'mine', [write('d', { text: 'secretword secretword' })]);
      for (const _filed of [false, true]) {
        expect(await bench.find.search(search)).toEqual(only);
        await bench.settle();
      }
      expect(before.entries).toEqual([]);
      expect(only.statistics.entries).toBe(2);
      expect(await keysOf(bench, 'nobody', 'secretword')).toEqual([]);
    });

    it('does not find an expired document, before and after it is swept', async () => {
      const expiresAt = timeOfMs(bench.nowMs() + 60_000);
      await set(bench, 'brief', 'n', [
        { ...write('gone', { text: 'ephemeral thing' }), expiresAt },
        write('stays', { text: 'ephemeral too' }),
      ]);
      await bench.settle();
      expect(await keysOf(bench, 'brief', 'ephemeral')).toEqual(['gone', 'stays']);
      bench.advance(61_000);
      const search = searchOf('ephemeral', 'brief', null, bench.nowMs());
      const { entries, statistics } = await bench.find.search(search);
      expect(entries.map(({ name }) => name.id)).toEqual(['stays']);
      expect(statistics.entries).toBe(1);
    });

    it('knows who wrote the same words again, and when', async () => {
      const keys = Array.from({ length: 12 }, (_, index) => `note-${index}`);
      const texts = keys.map((key) => write(key, { text: `the same harbour ${key}` }));
      await set(bench, 'again', 'n', texts);
      await bench.settle();
      bench.advance(60_000);
      const sinceMs = bench.nowMs();
      await set(
        other,
        'again',
        'n',
        texts.slice(0, 5).map((text) => ({ ...text, agent: 'editor' })),
      );
      for (const _filed of [false, true]) {
        const search = searchOf('harbour', 'again', null, bench.nowMs());
        for (const { find } of new Set([bench, other])) {
          const all = await find.search({ ...search, limit: 20 });
          expect(all.entries.map(({ name }) => name.id).toSorted()).toEqual(keys.toSorted());
          // Newer comes first when the words are the same.
          expect(all.entries.slice(0, 5).map(({ version }) => version)).toEqual([2, 2, 2, 2, 2]);
          for (const limits of [{ authors: ['editor'] }, { sinceMs }]) {
            const { entries } = await find.search({ ...search, ...limits });
            expect(entries.map(({ name }) => name.id).toSorted()).toEqual(keys.slice(0, 5));
          }
          const { entries } = await find.search({ ...search, authors: ['scribe'], untilMs: sinceMs });
          expect(entries.map(({ name }) => name.id).toSorted()).toEqual(keys.slice(5).toSorted());
        }
        await bench.settle();
      }
      await set(other, 'again', 'n', [write('note-0', { text: 'another word' })]);
      await set(bench, 'again', 'n', [write('note-0', { text: 'another word' })]);
      expect(await keysOf(other, 'again', 'another')).toEqual(['note-0']);
      expect(await keysOf(other, 'again', 'harbour')).not.toContain('note-0');
    });

    const yearsOf = async (bounds: Partial<IndexSearch>): Promise<string[]> => {
      const search = searchOf('lunar', 'archivist', null, bench.nowMs());
      const { entries } = await other.find.search({ ...search, ...bounds });
      return entries.map(({ name }) => name.id.slice(0, 4));
    };
    const restored = (records: readonly DocumentRecord[]): Promise<unknown> =>
      bench.writer.write(
        { caller: operatorCaller('archivist'), idempotency: null },
        bench.data.restore(records),
      );

    it('knows the times of imported documents, also from before 1970', async () => {
      const scope: Scope = { user: 'archivist', namespace: 'n' };
      const year1950 = '1950-06-01T00:00:00Z';
      const records = [year1950, '1969-12-31T23:59:59.998500Z', '1970-01-01T00:00:00.500Z'].map((at) =>
        imported(scope, at),
      );
      await restored(records);
      for (const _filed of [false, true]) {
        expect(await yearsOf({})).toEqual(['1970', '1969', '1950']);
        expect(await yearsOf({ sinceMs: 0 })).toEqual(['1970']);
        expect(await yearsOf({ sinceMs: -2, untilMs: 0 })).toEqual(['1969']);
        expect(await yearsOf({ untilMs: -2 })).toEqual(['1950']);
        await bench.settle();
      }
      // The same words with another time.
      await restored(records.slice(2).map((record) => ({ ...record, version: 2, updatedAt: year1950 })));
      for (const _filed of [false, true]) {
        expect(await yearsOf({ untilMs: -2 })).toEqual(['1950', '1970']);
        await bench.settle();
      }
    });

    it('does not find what a cleared namespace had', async () => {
      await set(bench, 'tidy', 'n', [write('a', { text: 'clutter' }), write('b', { text: 'clutter' })]);
      await bench.settle();
      const scope = { user: 'tidy', namespace: 'n' };
      await bench.writer.write({ caller: operatorCaller('tidy'), idempotency: null }, [
        bench.data.clear(scope, null, 100),
      ]);
      expect(await keysOf(bench, 'tidy', 'clutter')).toEqual([]);
    });
  });
}

/** Queries of every shape, over the words of the corpus. */
const queryShapes = [
  'database',
  'the',
  'the of to and',
  'database queue',
  'migration of the invoice table to the cluster',
  '"the database"',
  'database -queue',
  'data*',
  'd*',
  'e* s*',
  '数*',
  'getUserById',
  'user id',
  '数据库',
  '会议 报告',
  'Straße prüfen',
  'сервер ошибка',
  'E404',
  'src/app.ts',
  'nosuchwordanywhere database',
  'キャッシュ',
];

function imported({ user, namespace }: Scope, at: string): DocumentRecord {
  return {
    userId: user,
    namespace,
    key: at,
    valueJson: '"lunar"',
    metadata: {},
    createdByAgent: null,
    updatedByAgent: null,
    lastAccessedByAgent: null,
    accessCount: 0,
    createdAt: at,
    updatedAt: at,
    lastAccessedAt: null,
    version: 1,
    expiresAt: null,
  };
}

function write(key: string, value: unknown): DocumentWrite {
  return {
    key,
    valueJson: JSON.stringify(value),
    metadata: null,
    agent: 'scribe',
    ifVersion: null,
    expiresAt: null,
  };
}

async function set(
  { data, writer }: FindBench,
  user: string,
  namespace: string,
  sets: readonly DocumentWrite[],
): Promise<void> {
  await writer.write({ caller: operatorCaller(user), idempotency: null }, [
    data.write({ user, namespace }, { sets, deletes: [], gets: [] }),
  ]);
}

async function remove(
  { data, writer }: FindBench,
  user: string,
  namespace: string,
  keys: readonly string[],
): Promise<void> {
  const deletes = keys.map((key) => ({ key, ifVersion: null }));
  await writer.write({ caller: operatorCaller(user), idempotency: null }, [
    data.write({ user, namespace }, { sets: [], deletes, gets: [] }),
  ]);
}

async function allRecords(data: DataPort, user: string): Promise<DocumentRecord[]> {
  const records: DocumentRecord[] = [];
  for (const { namespace } of await data.listNamespaces(user, null, 1_000)) {
    let after: string | null = null;
    for (;;) {
      const page: DocumentRecord[] = await data.listDocuments(
        { user, namespace },
        { prefix: '', after, limit: 500 },
      );
      records.push(...page);
      const last = page.at(-1);
      if (last === undefined || page.length < 500) break;
      after = last.key;
    }
  }
  return records;
}

export function searchOf(
  text: string,
  user: string,
  namespaces: readonly string[] | null,
  asOfMs: number,
): IndexSearch {
  return {
    query: parseQuery(text),
    parts: { data: { user, namespaces }, tasks: null, messages: null },
    prefix: null,
    authors: null,
    sinceMs: null,
    untilMs: null,
    asOfMs,
    statistics: null,
    after: null,
    limit: 10,
  };
}

/** The records themselves, without any index of a home. */
function viewOf(
  records: readonly DocumentRecord[],
  namespaces: readonly string[] | null,
  texts: readonly string[],
  nowMs: number,
): IndexView {
  const wanted = texts.map((text) => termsOfQuery(parseQuery(text)));
  const terms = new WaitingTerms({
    terms: wanted.flatMap((one) => one.terms),
    beginnings: wanted.flatMap(({ beginnings }) => beginnings),
  });
  const waiting = records.flatMap((record) => {
    const entry = entryOf(record);
    return entry === null ? [] : terms.of(entry);
  });
  return new IndexView([{ segments: [], marked: [], waiting }], {
    hasCollection: (_kind, collection) => namespaces?.includes(collection) ?? true,
    nowMs,
  });
}

/** By name, version and time. Each version of a record is packed once. */
const entries = new Map<string, ReturnType<typeof documentEntry>>();

function entryOf(record: DocumentRecord): ReturnType<typeof documentEntry> {
  const { userId, namespace, key, version, updatedAt } = record;
  const id = JSON.stringify([userId, namespace, key, version, updatedAt]);
  const entry = entries.get(id) ?? documentEntry(record);
  entries.set(id, entry);
  return entry;
}

async function keysOf(
  { find, nowMs }: FindBench,
  user: string,
  text: string,
  namespaces: readonly string[] | null = null,
): Promise<string[]> {
  const answer = await find.search(searchOf(text, user, namespaces, nowMs()));
  return answer.entries.map(({ name }) => name.id);
}

function shown({ name, score, version, timeMs, author }: RankedEntry): unknown {
  return [name.collection, name.id, score, version, timeMs, author];
}
