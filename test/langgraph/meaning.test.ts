/** The index of a LangGraph store: search by meaning with the embedder of the server. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { StoaStore, type StoaStoreOptions } from '../../src/langgraph/index.js';
import { Running } from '../server/running.js';
import { dimensions, vectorOf } from '../servers/embedder.js';

let running: Running;
const embedded: string[] = [];

async function embed(texts: readonly string[]): Promise<number[][]> {
  embedded.push(...texts);
  return texts.map(vectorOf);
}

beforeAll(async () => {
  running = await Running.start({ sweepIntervalMs: 20, embedder: { model: 'test', dimensions, embed } });
});
afterAll(() => running.stop());

function storeWith(index: StoaStoreOptions['index'], token = running.alice): StoaStore {
  return new StoaStore({ client: new Stoa({ url: running.url, token }), namespace: 'meaning', index });
}

test('with an index a query finds other words of the same meaning, from the named fields only', async () => {
  const store = storeWith({ embed: 'test', dims: dimensions, fields: ['text'] });
  await store.put(['ada'], 'car', { text: 'a red vehicle', private: 'never sent' });
  await store.put(['ada'], 'lunch', { text: 'a bowl of stew' });
  await expect
    .poll(async () => (await store.search(['ada'], { query: 'soup' })).map(({ key }) => key), {
      timeout: 20_000,
    })
    .toEqual(['lunch', 'car']);
  expect((await store.search(['ada'], { query: 'automobile', limit: 1 }))[0]?.key).toBe('car');
  expect(embedded.join(' ')).not.toContain('never sent');
  expect(
    (await storeWith({ fields: ['text'] }, running.reader).search(['ada'], { query: 'soup' }))[0]?.key,
  ).toBe('lunch');
});

test('an index that the server cannot honour is refused', async () => {
  await expect(storeWith({ dims: 7, fields: ['text'] }).search(['ada'], { query: 'soup' })).rejects.toThrow(
    'has dims 7, and the embedder of the server has 32',
  );
  const embeddings = { embedQuery: async () => [1] };
  // As a program without types would pass it.
  const index = { dims: 32, embeddings } as NonNullable<StoaStoreOptions['index']>;
  expect(() => storeWith(index)).toThrow('the server embeds');
});
