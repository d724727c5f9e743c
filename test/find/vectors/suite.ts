/** Searches by meaning over HTTP: what must hold on every home. */
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StoaOptions } from '../../../src/index.js';
import { checkedVectors } from '../../../src/find/vectors/embedder.js';
import { httpEmbedder } from '../../../src/find/vectors/http-embedder.js';
import { cosineOf, scoreOf } from '../../../src/find/vectors/similarity.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import type { FindPage } from '../../../src/find/answers.js';
import { Running } from '../../server/running.js';
import {
  type EmbedderServer,
  dimensions,
  failures,
  refusedWord,
  retryAfterSeconds,
  startEmbedder,
  vectorOf,
} from '../../servers/embedder.js';

export interface VectorTarget {
  /** The options of an empty home. */
  open(): Promise<Partial<StoaOptions>>;
  /** Whether two servers can share the home. */
  readonly isShared: boolean;
}

const token = 'secret-of-the-embedder';
const limits = {
  embedBatchMax: 4,
  // A busy machine is late, and a search that waits longer for its vector is refused.
  embedSecondsMax: 2,
  embedPauseSecondsMax: 0.05,
  embedAttemptsMax: 2,
  embedAnswerBytesMax: 1_000_000,
};

async function embedAtOnce(texts: readonly string[]): Promise<number[][]> {
  return texts.map(vectorOf);
}

export function vectorSuite(target: VectorTarget): void {
  let place: Partial<StoaOptions>;
  let embedder: EmbedderServer;
  let server: Running;
  const faults: unknown[] = [];

  const start = (more: Partial<StoaOptions> = {}): Promise<Running> =>
    Running.start({
      ...place,
      limits,
      // Each sweep asks PostgreSQL some ten questions; a directory looks into its memory.
      sweepIntervalMs: target.isShared ? 100 : 20,
      onError: (error) => void faults.push(error),
      embedder: httpEmbedder({
        url: embedder.url,
        model: 'test',
        dimensions,
        token,
        limits: limitsWith(limits),
      }),
      ...more,
    });

  beforeAll(async () => {
    embedder = await startEmbedder();
    place = await target.open();
    server = await start();
  });
  afterAll(async () => {
    await server.stop();
    await embedder.stop();
  });

  const put = async (namespace: string, key: string, text: string, more: object = {}): Promise<void> => {
    const path = `/v1/data/${namespace}/${encodeURIComponent(key)}`;
    const reply = await server.ask('PUT', path, { as: server.alice, body: { value: { text }, ...more } });
    expect(reply.status, reply.text).toBeLessThan(300);
  };
  const configure = async (namespace: string, change: object): Promise<void> => {
    const reply = await server.ask('PATCH', `/v1/namespaces/${namespace}`, {
      as: server.alice,
      body: change,
    });
    expect(reply.status, reply.text).toBe(200);
  };
  const ask = (query: object, as = server.alice, at = server) =>
    at.ask('POST', '/v1/find', { as, body: query });
  const find = async (query: object, as = server.alice, at = server): Promise<FindPage> => {
    const reply = await ask({ mode: 'vector', ...query }, as, at);
    expect(reply.status, reply.text).toBe(200);
    return reply.json as unknown as FindPage;
  };
  const keys = async (query: object, as = server.alice): Promise<(string | undefined)[]> =>
    (await find(query, as)).items.map(({ key }) => key);
  const status = async (): Promise<{ waiting: number; failing: string | null; model: string | null }> =>
    JSON.parse((await server.ask('GET', '/v1/status', { as: server.operator })).text).embedding;
  const settled = (): Promise<void> => expect.poll(async () => (await status()).waiting).toBe(0);

  describe('a search by meaning', () => {
    test('finds other words of the same meaning, and a search by words does not', async () => {
      await configure('notes', { embed: true });
      await put('notes', 'choice', 'We took postgres.');
      await put('notes', 'lunch', 'There is stew today.');
      await put('notes', 'trip', 'The vehicle is red.');
      await settled();
      expect((await keys({ q: 'which database', namespace: 'notes' }))[0]).toBe('choice');
      expect((await keys({ q: 'soup', namespace: 'notes' }))[0]).toBe('lunch');
      expect(await keys({ q: 'automobile', namespace: 'notes', mode: 'text' })).toEqual([]);
    });

    test('is by words unless the request says otherwise', async () => {
      expect(await keys({ q: 'postgres', mode: undefined })).toEqual(
        await keys({ q: 'postgres', mode: 'text' }),
      );
    });

    test('joins both orders with mode=hybrid', async () => {
      await put('notes', 'other', 'The automobile needs a database of parts.');
      await settled();
      const { items } = await find({ q: 'red automobile', namespace: 'notes', mode: 'hybrid' });
      expect(items[0]?.key).toBe('trip');
      expect(items.map(({ key }) => key)).toContain('other');
      expect(items.every(({ score }) => score !== null && score > 0 && score <= 1)).toBe(true);
    });

    test('has the same results in the same order as a comparison of all vectors in memory', async () => {
      await configure('many', { embed: true });
      const words = ['rain', 'car', 'soup', 'database', 'window', 'river', 'stone', 'paper'];
      const texts = new Map<string, string>();
      for (let at = 0; at < 40; at += 1) {
        const text = [words[at % 8], words[(at * 3) % 8], words[(at * 5 + 1) % 8], `n${at % 7}`].join(' ');
        texts.set(`key-${String(at).padStart(2, '0')}`, text);
      }
      const batch = Object.fromEntries([...texts].map(([key, text]) => [key, { text }]));
      await server.ask('POST', '/v1/data/many', { as: server.alice, body: { set: batch } });
      await settled();
      const [wanted] = checkedVectors([vectorOf('storm on the river')], 1, dimensions);
      // All were written in one step, so equal scores are in the order of the keys.
      const expected = [...texts]
        .map(([key, text]) => {
          const [vector] = checkedVectors([vectorOf(`${key} text ${text}`)], 1, dimensions);
          return { key, score: Number(scoreOf(cosineOf(wanted!, vector!)).toFixed(6)) };
        })
        .toSorted((a, b) => b.score - a.score || (a.key < b.key ? -1 : 1));
      const { items } = await find({ q: 'storm on the river', namespace: 'many', limit: 40 });
      expect(items.map(({ key, score }) => ({ key, score }))).toEqual(expected);
    });

    test.each(['vector', 'hybrid'])(
      'continues on the next page without gaps and repeats (%s)',
      async (mode) => {
        const asked = { q: 'stone in the rain', namespace: 'many', mode };
        const whole = await find({ ...asked, limit: 40 });
        const paged: (string | undefined)[] = [];
        let cursor: string | undefined;
        do {
          const page = await find({ ...asked, limit: 7, cursor });
          paged.push(...page.items.map(({ key }) => key));
          cursor = page.next_cursor ?? undefined;
        } while (cursor !== undefined);
        expect(paged).toEqual(whole.items.map(({ key }) => key));
        expect(new Set(paged).size).toBe(40);
      },
    );

    test('combines with filters, prefixes and times', async () => {
      await put('notes', 'cars/one', 'A car.', { metadata: {} });
      await put('notes', 'cars/two', 'An automobile.');
      await settled();
      expect((await keys({ q: 'vehicle', namespace: 'notes', prefix: 'cars/' })).toSorted()).toEqual([
        'cars/one',
        'cars/two',
      ]);
      expect(await keys({ q: 'vehicle', namespace: 'notes', filter: { text: 'A car.' } })).toEqual([
        'cars/one',
      ]);
      expect(await keys({ q: 'vehicle', namespace: 'notes', until: '2001-01-01' })).toEqual([]);
      expect(await keys({ q: 'vehicle', namespace: 'notes', agent: 'nobody' })).toEqual([]);
    });

    test('ends if a filter leaves out all of a hundred results, which are read together', async () => {
      await configure('hundred', { embed: true, embed_fields: ['title'] });
      const texts = Array.from({ length: 100 }, (_, at) => [`key-${at}`, { title: 'stew', text: `${at}` }]);
      await server.ask('POST', '/v1/data/hundred', {
        as: server.alice,
        body: { set: Object.fromEntries(texts) },
      });
      await settled();
      for (const mode of ['text', 'vector', 'hybrid']) {
        const page = await find({ q: 'stew', mode, namespace: 'hundred', filter: { text: 'none' } });
        expect(page).toEqual({ items: [], next_cursor: null, examined_all: true });
      }
    });

    test('shows nothing of other users, and nothing of namespaces outside the token', async () => {
      expect(await keys({ q: 'which database' }, server.bob)).toEqual([]);
      const { json } = await server.ask('POST', '/v1/users/alice/tokens', {
        as: server.operator,
        body: { scopes: { namespaces: ['elsewhere'] } },
      });
      const narrow = String(json['token']);
      expect(await keys({ q: 'which database' }, narrow)).toEqual([]);
      expect((await ask({ q: 'database', mode: 'vector', namespace: 'notes' }, narrow)).status).toBe(403);
      expect(
        (await server.ask('PATCH', '/v1/namespaces/notes', { as: server.reader, body: { embed: false } }))
          .status,
      ).toBe(403);
    });

    test('sends the token of the embedder, and shows it nowhere', async () => {
      expect(new Set(embedder.credentials)).toEqual(new Set([`Bearer ${token}`]));
      const shown = await server.ask('GET', '/v1/status', { as: server.operator });
      expect(shown.text).not.toContain(token);
      expect(faults.map(String).join()).not.toContain(token);
    });
  });

  describe('the work in the background', () => {
    test('removes what is deleted, taken out of the search or has expired', async () => {
      await put('notes', 'gone', 'A secret automobile.');
      await put('notes', 'hidden', 'A hidden automobile.');
      await settled();
      await server.ask('DELETE', '/v1/data/notes/gone', { as: server.alice });
      await put('notes', 'hidden', 'A hidden automobile.', { index: false });
      for (const _when of ['at once', 'later']) {
        const found = await keys({ q: 'automobile', namespace: 'notes', limit: 100 });
        expect(found).not.toContain('gone');
        await settled();
      }
    });

    test('a document that is written again while it is embedded ends with the vector of its newest text', async () => {
      await configure('race', { embed: true });
      const release = embedder.hold();
      const before = embedder.requests.length;
      await put('race', 'note', 'It is about soup.');
      await expect.poll(() => embedder.requests.length).toBeGreaterThan(before);
      await put('race', 'note', 'It is about rain.');
      release();
      await settled();
      const [byNew] = (await find({ q: 'storm', namespace: 'race' })).items;
      const [byOld] = (await find({ q: 'broth', namespace: 'race' })).items;
      expect(byNew?.score).toBeGreaterThan(byOld?.score ?? 1);
    });

    test('does not embed the same text twice', async () => {
      const before = embedder.requests.flat().length;
      await put('race', 'note', 'It is about rain.', { metadata: { seen: true } });
      await settled();
      expect(embedder.requests.flat().length).toBe(before);
    });

    test('embeds what was there before the namespace asked, and forgets it when it asks no more', async () => {
      for (let at = 0; at < 10; at += 1) await put('later', `key-${at}`, `automobile number ${at}`);
      expect((await ask({ q: 'car', mode: 'vector', namespace: 'later' })).status).toBe(400);
      await configure('later', { embed: true });
      await settled();
      expect(await keys({ q: 'car', namespace: 'later', limit: 20 })).toHaveLength(10);
      await configure('later', { embed: false });
      await settled();
      expect(
        (await find({ q: 'car', limit: 100 })).items.filter(({ namespace }) => namespace === 'later'),
      ).toEqual([]);
    });

    test('embeds only the members that the namespace names', async () => {
      await configure('fields', { embed: true, embed_fields: ['summary'] });
      const value = { summary: 'about soup', text: 'a long story of a car' };
      await server.ask('PUT', '/v1/data/fields/one', { as: server.alice, body: { value } });
      await settled();
      expect(embedder.requests.flat()).toContain('about soup');
    });

    test('survives a restart: what was not embedded is embedded later', async () => {
      embedder.behave('fails');
      await put('notes', 'restart', 'The weather of tomorrow.');
      await expect.poll(async () => (await status()).failing).toContain('503');
      await server.stop();
      embedder.behave('works');
      server = await start();
      await settled();
      expect((await keys({ q: 'storm tomorrow', namespace: 'notes' }))[0]).toBe('restart');
    });

    test.each(failures)(
      'keeps documents waiting while the embedder %s, and then embeds them',
      async (behaviour) => {
        embedder.behave(behaviour);
        await put('notes', `when-${behaviour}`, `A vehicle, ${behaviour}.`);
        await expect.poll(async () => (await status()).failing).not.toBe(null);
        expect((await status()).waiting).toBe(1);
        const reply = await ask({ q: `unknown ${behaviour}`, mode: 'hybrid', namespace: 'notes' });
        expect(reply.status, reply.text).toBe(503);
        expect(reply.json['code']).toBe('backend_unavailable');
        expect((await ask({ q: 'vehicle', mode: 'text', namespace: 'notes' })).status).toBe(200);
        embedder.behave('works');
        await settled();
        expect((await status()).failing).toBe(null);
        expect(await keys({ q: 'car', namespace: 'notes', limit: 100 })).toContain(`when-${behaviour}`);
      },
    );

    test('a redirect is not followed, because the token would go with it', () => {
      expect(embedder.strayed).toEqual([]);
    });

    test('a text that the embedder refuses holds up no other', async () => {
      for (const [at, word] of ['first', refusedWord, 'third', 'fourth'].entries())
        await put('notes', `refused-${at}`, `A car that is ${word}.`);
      await settled();
      const found = await keys({ q: 'vehicle', namespace: 'notes', limit: 100 });
      expect(found).toEqual(expect.arrayContaining(['refused-0', 'refused-2', 'refused-3']));
      expect(found).not.toContain('refused-1');
      expect(await keys({ q: refusedWord, mode: 'text', namespace: 'notes' })).toEqual(['refused-1']);
    });

    test('an embedder that limits requests gets the next one when it asked for it', async () => {
      await server.stop();
      server = await start({ limits: { ...limits, embedPauseSecondsMax: 60 } });
      embedder.behave('limits');
      const before = embedder.requests.length;
      await put('notes', 'limited', 'A vehicle, later.');
      await expect.poll(async () => (await status()).failing).toContain('429');
      const refusedAtMs = performance.now();
      embedder.behave('works');
      await settled();
      // With the growing pause alone the next request comes after at most one second.
      expect(performance.now() - refusedAtMs).toBeGreaterThan((retryAfterSeconds - 0.5) * 1_000);
      expect(embedder.requests.length - before).toBe(2);
      await server.stop();
      server = await start();
    });

    test('documents wait while the embedder is restarted', async () => {
      const listenAgain = await embedder.pauseListening();
      await put('notes', 'restarted', 'An automobile of the evening.');
      await expect.poll(async () => (await status()).failing).not.toBe(null);
      expect((await status()).waiting).toBe(1);
      await listenAgain();
      await settled();
      expect(await keys({ q: 'car', namespace: 'notes', limit: 100 })).toContain('restarted');
    });

    test('a search says that documents still wait for a vector', async () => {
      // The vector of these words is cached, so the search needs no embedder while it is held.
      expect((await find({ q: 'rain', namespace: 'race' })).examined_all).toBe(true);
      const release = embedder.hold();
      await put('race', 'unseen', 'It is about a storm.');
      expect((await find({ q: 'rain', namespace: 'race' })).examined_all).toBe(false);
      release();
      await settled();
      expect((await find({ q: 'rain', namespace: 'race' })).examined_all).toBe(true);
    });

    test.each([
      ['another model', { model: 'other', dimensions }],
      ['other dimensions', { model: 'other', dimensions: 16 }],
    ])('with %s everything is embedded again, and old vectors are not compared', async (_change, changed) => {
      await server.stop();
      const gate = new AbortController();
      const opened = once(gate.signal, 'abort');
      const embed = async (texts: readonly string[]): Promise<number[][]> => {
        // Searches are answered at once.
        if (!texts.includes('car')) await opened;
        return texts.map((text) => vectorOf(text).slice(0, changed.dimensions));
      };
      server = await start({ embedder: { ...changed, embed }, limits: { ...limits, embedSecondsMax: 60 } });
      expect(await find({ q: 'car', namespace: 'notes' })).toMatchObject({ items: [], examined_all: false });
      await expect.poll(async () => (await status()).waiting).toBeGreaterThan(20);
      expect(await find({ q: 'car', namespace: 'notes' })).toMatchObject({ items: [], examined_all: false });
      gate.abort();
      await settled();
      const page = await find({ q: 'car', namespace: 'notes', limit: 100 });
      expect(page.examined_all).toBe(true);
      expect(page.items.map(({ key }) => key)).toEqual(
        expect.arrayContaining(['trip', 'cars/one', 'restart']),
      );
      await server.stop();
      server = await start();
      // Nothing waits before the server has seen that the model is another one again.
      await expect.poll(() => keys({ q: 'car', namespace: 'notes' })).not.toEqual([]);
      await settled();
    });

    test('without an embedder a search by meaning is refused with the settings that are missing', async () => {
      await server.stop();
      server = await start({ embedder: undefined });
      const reply = await ask({ q: 'car', mode: 'vector' });
      expect([reply.status, reply.json['code']]).toEqual([501, 'unsupported']);
      expect(reply.text).toContain('--embedder-url');
      const refused = await server.ask('PATCH', '/v1/namespaces/new', {
        as: server.alice,
        body: { embed: true },
      });
      expect(refused.status).toBe(501);
      // Removed text leaves all the same.
      await server.ask('DELETE', '/v1/data/notes/choice', { as: server.alice });
      await settled();
      await server.stop();
      server = await start();
    });

    test('doctor finds nothing', async () => {
      await settled();
      const reply = await server.ask('POST', '/v1/doctor', { as: server.operator, body: {} });
      expect(reply.json['found'], reply.text).toBe(0);
    });
  });

  if (target.isShared)
    test('two servers embed each document once, and both find it', async () => {
      const other = await start();
      try {
        await configure('shared', { embed: true });
        const before = embedder.requests.flat().length;
        const writes = Array.from({ length: 30 }, (_, at) => put('shared', `key-${at}`, `stew number ${at}`));
        await Promise.all(writes);
        await settled();
        for (const at of [server, other])
          expect(
            (await find({ q: 'soup', namespace: 'shared', limit: 50 }, server.alice, at)).items,
          ).toHaveLength(30);
        expect(new Set(embedder.requests.flat().slice(before)).size).toBeGreaterThanOrEqual(30);
      } finally {
        await other.stop();
      }
    });

  if (target.isShared)
    test('a server whose model another one replaced embeds nothing more, and the other one embeds everything', async () => {
      const sent: string[] = [];
      const gate = new AbortController();
      const opened = once(gate.signal, 'abort');
      const held = async (texts: readonly string[]): Promise<number[][]> => {
        sent.push(...texts);
        if (texts.join().includes('came late')) await opened;
        return texts.map(vectorOf);
      };
      await server.stop();
      server = await start({
        embedder: { model: 'test', dimensions, embed: held },
        limits: { ...limits, embedSecondsMax: 60 },
      });
      await configure('replaced', { embed: true });
      for (const key of ['one', 'two', 'three']) await put('replaced', key, `stew number ${key}`);
      await settled();
      await put('replaced', 'late', 'stew that came late');
      await expect.poll(() => sent.join(), { timeout: 20_000 }).toContain('came late');
      const newer = await start({ embedder: { model: 'newer', dimensions, embed: embedAtOnce } });
      const found = async (): Promise<number> => {
        const page = await find({ q: 'soup', namespace: 'replaced' }, newer.alice, newer);
        return page.examined_all ? page.items.length : 0;
      };
      try {
        expect(await found()).toBe(0);
        gate.abort();
        await expect.poll(found, { timeout: 40_000 }).toBe(4);
        await put('replaced', 'last', 'stew that came last');
        await expect.poll(found, { timeout: 20_000 }).toBe(5);
        expect(sent.join()).not.toContain('came last');
        expect((await find({ q: 'soup', namespace: 'replaced' })).examined_all).toBe(false);
      } finally {
        await newer.stop();
      }
    }, 180_000);
}
