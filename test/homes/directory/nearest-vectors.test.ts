/** Searches by meaning in namespaces with so many vectors that usearch chooses the nearest. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { checkedVectors } from '../../../src/find/vectors/embedder.js';
import { cosineOf, scoreOf } from '../../../src/find/vectors/similarity.js';
import type { FindPage } from '../../../src/find/answers.js';
import type { StoaOptions } from '../../../src/index.js';
import { Running } from '../../server/running.js';
import { dimensions, vectorOf } from '../../servers/embedder.js';
import { until } from '../../until.js';

const documents = 900;
const limits = { vectorsExactMax: 250, embedBatchMax: 500 };
const texts = new Map<string, string>();
let data: string;
let server: Running;
const faults: unknown[] = [];

async function embed(asked: readonly string[]): Promise<number[][]> {
  return asked.map(vectorOf);
}

const start = (more: Partial<StoaOptions['limits']> = {}): Promise<Running> =>
  Running.start({
    data,
    engine: 'lmdb',
    shards: 2,
    limits: { ...limits, ...more },
    sweepIntervalMs: 20,
    onError: (error) => void faults.push(error),
    embedder: { model: 'made', dimensions, embed },
  });

/** Five words of two hundred, always the same for a number. */
function textOf(number: number): string {
  const rest = Math.floor(number / 211);
  const wordOf = (at: number): string => `w${(number * (7 * at + 3) + rest * (17 * at + 5) + at * 41) % 211}`;
  return Array.from({ length: 5 }, (_, at) => wordOf(at)).join(' ');
}

const ask = async (method: string, path: string, body?: object, as = server.alice): Promise<unknown> => {
  const reply = await server.ask(method, path, { as, ...(body && { body }) });
  expect(reply.status, reply.text).toBeLessThan(300);
  return reply.json;
};
const find = (query: object, as = server.alice): Promise<FindPage> =>
  ask('POST', '/v1/find', { mode: 'vector', namespace: 'many', ...query }, as) as Promise<FindPage>;
const settled = (): Promise<void> =>
  until(async () => {
    const { text } = await server.ask('GET', '/v1/status', { as: server.operator });
    return JSON.parse(text).embedding.waiting === 0;
  });
/** All vectors together fit into one ranked list, so only a search that did not compare all of them says so. */
const isChosen = async (): Promise<boolean> => !(await find({ q: 'w1 w2' })).examined_all;
const chosen = (): Promise<void> => expect.poll(isChosen).toBe(true);

async function fill(namespace: string, from: ReadonlyMap<string, string>, as = server.alice): Promise<void> {
  await ask('PATCH', `/v1/namespaces/${namespace}`, { embed: true, embed_fields: ['text'] }, as);
  const set = Object.fromEntries([...from].map(([key, text]) => [key, { text }]));
  await ask('POST', `/v1/data/${namespace}`, { set }, as);
}

function exact(q: string, count: number): { key: string; score: number }[] {
  const [asked] = checkedVectors([vectorOf(q)], 1, dimensions) as [Float32Array];
  return [...texts]
    .map(([key, text]) => {
      const [vector] = checkedVectors([vectorOf(text)], 1, dimensions) as [Float32Array];
      return { key, score: Number(scoreOf(cosineOf(asked, vector)).toFixed(6)) };
    })
    .toSorted((a, b) => b.score - a.score)
    .slice(0, count);
}

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'stoa-nearest-'));
  for (let at = 0; at < documents; at += 1) texts.set(`key-${String(at).padStart(4, '0')}`, textOf(at));
  server = await start();
  await fill('many', texts);
  await fill('many', new Map([...texts].map(([key, text]) => [`of-bob-${key}`, text])), server.bob);
  await settled();
});
afterEach(() => expect(faults).toEqual([]));
afterAll(async () => {
  await server.stop();
  await rm(data, { recursive: true, force: true });
});

test('the status says that usearch is used, and above how many vectors', async () => {
  const { text } = await server.ask('GET', '/v1/status', { as: server.operator });
  expect(JSON.parse(text).embedding.search).toBe(
    'vectors are compared one by one, and by usearch in namespaces with more than 250',
  );
});

test('the first search compares all vectors, and later ones find what it found, with the same scores', async () => {
  expect((await find({ q: 'w1 w2' })).examined_all).toBe(true);
  await chosen();
  let same = 0;
  for (let at = 0; at < 30; at += 1) {
    const q = textOf(5_000 + at);
    const wanted = new Map(exact(q, 10).map(({ key, score }) => [key, score]));
    const { items } = await find({ q, limit: 10 });
    expect(items).toHaveLength(10);
    for (const { key, score } of items) if (wanted.get(key!) === score) same += 1;
  }
  // Measured: 300 of 300.
  expect(same).toBeGreaterThanOrEqual(285);
});

test('a document is found by its new text and not by its old one as soon as it has its vector', async () => {
  await chosen();
  for (let round = 0; round < 3; round += 1) {
    const text = `unusual${round} words${round}`;
    await ask('PUT', '/v1/data/many/key-0007', { value: { text } });
    texts.set('key-0007', text);
    await ask('PUT', `/v1/data/many/new-${round}`, { value: { text: `brand${round} new` } });
    texts.set(`new-${round}`, `brand${round} new`);
    await settled();
    const [rewritten] = (await find({ q: text, limit: 5 })).items;
    expect([rewritten?.key, rewritten?.score]).toEqual(['key-0007', 1]);
    expect((await find({ q: textOf(7), limit: 5 })).items.map(({ key }) => key)).not.toContain('key-0007');
    expect((await find({ q: `brand${round} new`, limit: 5 })).items[0]?.key).toBe(`new-${round}`);
  }
  await chosen();
});

test('deleted and expired documents are never shown', async () => {
  await chosen();
  const gone = ['key-0100', 'key-0101', 'key-0102', 'key-0103'];
  for (const key of gone.slice(0, 2)) await ask('DELETE', `/v1/data/many/${key}`);
  await ask('PUT', '/v1/data/many/key-0102', { value: { text: texts.get('key-0102') }, index: false });
  await ask('PUT', '/v1/data/many/key-0103', { value: { text: texts.get('key-0103') }, ttl: 1 });
  for (const key of gone.slice(0, 3)) {
    const { items } = await find({ q: texts.get(key)!, limit: 20 });
    expect(items.map((item) => item.key)).not.toContain(key);
  }
  await expect
    .poll(async () => (await find({ q: texts.get('key-0103')!, limit: 20 })).items.map(({ key }) => key))
    .not.toContain('key-0103');
  for (const key of gone) texts.delete(key);
  await settled();
  await chosen();
});

test('each user finds only their own documents', async () => {
  await chosen();
  await expect.poll(async () => (await find({ q: 'w1 w2' }, server.bob)).examined_all).toBe(false);
  for (let at = 0; at < 10; at += 1) {
    const { items: ofAlice } = await find({ q: textOf(at), limit: 100 });
    expect(ofAlice.filter(({ key }) => key!.startsWith('of-bob'))).toEqual([]);
    const { items: ofBob } = await find({ q: textOf(at), limit: 100 }, server.bob);
    expect(ofBob).toHaveLength(100);
    expect(ofBob.filter(({ key }) => !key!.startsWith('of-bob'))).toEqual([]);
  }
});

test('conditions that few documents meet are answered by comparing all', async () => {
  await chosen();
  await ask('PUT', '/v1/data/many/rare%2Fone', { value: { text: 'w9 w8 w7', kind: 'rare' } });
  texts.set('rare/one', 'w9 w8 w7');
  await settled();
  const far = textOf(77);
  const byPrefix = await find({ q: far, prefix: 'rare/' });
  expect([byPrefix.items.map(({ key }) => key), byPrefix.examined_all]).toEqual([['rare/one'], true]);
  expect((await find({ q: far, filter: { kind: 'rare' } })).items.map(({ key }) => key)).toEqual([
    'rare/one',
  ]);
  expect((await find({ q: far, agent: 'nobody' })).items).toEqual([]);
  expect((await find({ q: far, until: '2001-01-01' })).items).toEqual([]);
  expect((await find({ q: far, since: '2001-01-01', limit: 10 })).items).toHaveLength(10);
});

test('pages continue without repeats up to the end of the list', async () => {
  await chosen();
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await find({ q: 'w5 w6 w7', limit: 90, cursor });
    seen.push(...page.items.map(({ key }) => key!));
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen.length).toBe(texts.size);
});

test('a search over all namespaces ranks those with a graph and those without it together', async () => {
  await chosen();
  await fill('few', new Map([['near', textOf(42)]]));
  await settled();
  const { items } = await find({ q: textOf(42), namespace: undefined, limit: 5 });
  expect(items.slice(0, 2).map(({ score }) => score)).toEqual([1, 1]);
  expect(
    items
      .map(({ namespace }) => namespace)
      .toSorted()
      .slice(0, 2),
  ).toEqual(['few', 'many']);
});

test('hybrid searches work with it', async () => {
  await chosen();
  const { items } = await find({ q: 'w11 w12', mode: 'hybrid', limit: 5 });
  expect(items).toHaveLength(5);
});

const inCleared = (): Promise<FindPage> => find({ q: 'w1 w2', namespace: 'cleared', limit: 50 });

test('searches while the namespace is cleared show nothing that is gone', async () => {
  await fill('cleared', texts);
  await settled();
  await expect.poll(async () => (await inCleared()).examined_all).toBe(false);
  const clearing = ask('DELETE', '/v1/data/cleared').then(() => 'cleared');
  for (let done = ''; done === '';) {
    const searching = Promise.all([inCleared(), inCleared()]).then(() => '');
    done = await Promise.race([clearing, searching]);
    await searching;
  }
  expect((await inCleared()).items).toEqual([]);
});

test('after a restart the graph is made again from the rows', async () => {
  await server.stop();
  server = await start();
  expect(await isChosen()).toBe(false);
  await chosen();
  expect((await find({ q: 'unusual2 words2', limit: 1 })).items[0]?.key).toBe('key-0007');
});

test('a graph without room is not made, and searches compare all vectors', async () => {
  await server.stop();
  server = await start({ vectorGraphBytesMax: 600_000 });
  await fill('small', new Map([...texts].slice(0, 300)));
  await settled();
  expect(await isChosen()).toBe(false);
  // Graphs are made one after the other, so the larger one was tried by then.
  await expect.poll(async () => (await find({ q: 'w1', namespace: 'small' })).examined_all).toBe(false);
  expect(await isChosen()).toBe(false);
  const { items } = await find({ q: textOf(500), limit: 1 });
  expect(items[0]).toMatchObject({ key: 'key-0500', score: 1 });
});

test('a graph that no search uses is dropped', async () => {
  await server.stop();
  server = await start({ vectorGraphIdleSeconds: 2 });
  await chosen();
  await expect.poll(isChosen, { interval: 5_000 }).toBe(false);
});
