import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import type { Limits } from '../../src/core/settings/limits.js';
import type { FindPage } from '../../src/find/answers.js';
import { type Reply, Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';
import { eventually } from '../until.js';

let server: Running;

async function set(key: string, value: unknown, { namespace = 'notes', as = server.alice, ...rest } = {}) {
  const reply = await server.ask('PUT', `/v1/data/${namespace}/${encodeURIComponent(key)}`, {
    as,
    body: { value, ...rest },
  });
  expect(reply.status, reply.text).toBeLessThan(300);
}

/** The part of an answer that these tests read. */
function pageOf(json: unknown): FindPage {
  return json as FindPage; // The schema of the operation says so.
}

async function keysOf(query: string, as = server.alice): Promise<string[]> {
  const reply = await server.ask('GET', `/v1/find?${query}`, { as });
  expect(reply.status, reply.text).toBe(200);
  return pageOf(reply.json).items.map(({ key, id }) => key ?? id ?? '');
}

/** The keys of one namespace. */
function found(q: string): Promise<string[]> {
  return keysOf(`namespace=words&q=${encodeURIComponent(q)}`);
}

async function filtered(body: object): Promise<string[]> {
  const reply = await server.ask('POST', '/v1/find', {
    as: server.reader,
    body: { namespace: 'todo', ...body },
  });
  expect(reply.status, reply.text).toBe(200);
  return reply.json.items.map(({ key }: { key: string }) => key);
}

describe.each(['a data directory', 'PostgreSQL'])('a search over HTTP in %s', (home) => {
  /** A server on an empty home. */
  const start = async (limits: Partial<Limits>): Promise<Running> =>
    Running.start({ ...(home === 'PostgreSQL' ? (await sharedHome()).options : {}), limits });

  beforeAll(async () => {
    server = await start({ findWaitingMax: 4 });
  });
  afterAll(() => server.stop());

  test('an acknowledged write is found by the next search, and a question finds the note', async () => {
    await set('decisions/database', { text: 'We chose PostgreSQL as the database for the state of agents.' });
    await set('decisions/editor', { text: 'Everyone may use the editor of their choice.' });
    await set('recipes/figs', { text: 'Figs with honey and thyme.' });
    expect((await keysOf('q=which+database+did+we+choose'))[0]).toBe('decisions/database');
  });

  test('a result has a score, an excerpt with marks, an author, a time and a version', async () => {
    const { json } = await server.ask('GET', '/v1/find?q=honey', { as: server.alice });
    const [hit] = pageOf(json).items;
    if (hit === undefined) throw new Error('Nothing was found.');
    expect(hit).toMatchObject({
      kind: 'data',
      namespace: 'notes',
      key: 'recipes/figs',
      author: null,
      version: 1,
    });
    expect(hit.score).toBeGreaterThan(0.5);
    expect(hit.marks.map(([start, end]) => hit.excerpt.slice(start, end))).toEqual(['honey']);
    expect(Date.parse(hit.time)).toBeGreaterThan(0);
  });

  test('overwritten and deleted text is not found, before and after it is filed', async () => {
    await set('moving', 'alphaword');
    expect(await keysOf('q=alphaword')).toEqual(['moving']);
    await set('moving', 'betaword');
    expect(await keysOf('q=alphaword')).toEqual([]);
    for (let at = 0; at < 20; at += 1) await set(`filler-${at}`, `filler text ${at}`);
    expect(await keysOf('q=betaword')).toEqual(['moving']);
    await server.ask('DELETE', '/v1/data/notes/moving', { as: server.alice });
    expect(await keysOf('q=betaword')).toEqual([]);
    for (let at = 0; at < 20; at += 1) await set(`filler-${at}`, `other text ${at}`);
    expect(await keysOf('q=betaword')).toEqual([]);
    expect(await keysOf('q=filler&limit=100')).toHaveLength(20);
  });

  test('another user and a token for other namespaces find nothing of it', async () => {
    expect(await keysOf('q=honey', server.bob)).toEqual([]);
    const { token } = await server.stoa.identity.createToken(
      operatorCaller(),
      'alice',
      { scopes: { write: true, namespaces: ['elsewhere'] } },
      null,
    );
    expect(await keysOf('q=honey', token)).toEqual([]);
    const refused = await server.ask('GET', '/v1/find?q=honey&namespace=notes', { as: token });
    expect(refused.status).toBe(403);
  });

  test('what a caller may not read does not change a score', async () => {
    const { token } = await server.stoa.identity.createToken(
      operatorCaller(),
      'alice',
      { scopes: { write: true, namespaces: ['apart'] } },
      null,
    );
    await set('one', 'zebra crossing', { namespace: 'apart' });
    const scoreOf = async (): Promise<unknown> =>
      pageOf((await server.ask('GET', '/v1/find?q=zebra', { as: token })).json).items[0]?.score;
    const before = await scoreOf();
    for (let at = 0; at < 10; at += 1) await set(`zebra-${at}`, 'zebra', { namespace: 'hidden' });
    for (let at = 0; at < 10; at += 1) await set(`zebra-${at}`, 'zebra', { as: server.bob });
    expect(await scoreOf()).toBe(before);
  });

  test('pages follow each other without gaps and repeats while others write', async () => {
    for (let at = 0; at < 25; at += 1) await set(`page-${at}`, `walrus number ${'x '.repeat(at)}`);
    const seen: string[] = [];
    let cursor = '';
    do {
      const { json } = await server.ask('GET', `/v1/find?q=walrus&limit=4${cursor}`, { as: server.alice });
      seen.push(...json.items.map(({ key }: { key: string }) => key));
      cursor = json.next_cursor === null ? '' : `&cursor=${json.next_cursor}`;
      await set(`later-${seen.length}`, 'something else with other words');
    } while (cursor !== '');
    expect(seen).toHaveLength(25);
    expect(new Set(seen).size).toBe(25);
  });

  test('phrases, excluded words, beginnings and other forms', async () => {
    await set('p1', 'the blue green deployment failed', { namespace: 'words' });
    await set('p2', 'green fields and a blue sky', { namespace: 'words' });
    await set('p3', 'we deployed to production', { namespace: 'words' });
    expect(await found('"blue green"')).toEqual(['p1']);
    expect(await found('blue -deployment')).toEqual(['p2']);
    expect(await found('prod*')).toEqual(['p3']);
    expect((await found('deployed'))[0]).toBe('p3');
    expect(new Set(await found('deploying'))).toEqual(new Set(['p1', 'p3']));
    expect(await found('the')).toEqual(['p1']);
  });

  test('a time without a zone counts as UTC, wherever the server runs', async () => {
    await set('clock', { text: 'grandfather pendulum' });
    const { TZ } = process.env;
    process.env['TZ'] = 'Pacific/Kiritimati'; // 14 hours ahead
    try {
      const [before, after] = [-1, 1].map((hours) => new Date(Date.now() + hours * 3_600_000).toISOString());
      for (const zone of ['', 'Z'])
        expect(await keysOf(`q=pendulum&since=${before?.slice(0, 16)}${zone}`)).toEqual(['clock']);
      expect(await keysOf(`q=pendulum&until=${after?.slice(0, 19)}`)).toEqual(['clock']);
      expect(await keysOf(`q=pendulum&since=${after?.slice(0, 16)}`)).toEqual([]);
      expect(await keysOf('q=pendulum&since=2020-01-31&until=9999-12-31')).toEqual(['clock']);
    } finally {
      if (TZ === undefined) delete process.env['TZ'];
      else process.env['TZ'] = TZ;
    }
  });

  test('filters are exact on the stored value, alone and with words', async () => {
    await set('t1', { status: 'open', priority: 1, text: 'lamp' }, { namespace: 'todo' });
    await set('t2', { status: 'open', priority: 3, text: 'lamp post' }, { namespace: 'todo' });
    await set('t3', { status: 'done', priority: 5, text: 'lamp' }, { namespace: 'todo' });
    expect(await filtered({ filter: { status: 'open', priority: { $gte: 2 } } })).toEqual(['t2']);
    expect(await filtered({ filter: {}, sort: '-priority' })).toEqual(['t3', 't2', 't1']);
    expect(await filtered({ q: 'lamp', filter: { status: 'done' } })).toEqual(['t3']);
    expect(await filtered({ q: 'lamp', sort: 'priority' })).toEqual(['t1', 't2', 't3']);
  });

  test.each([
    ['$or', { $or: [{ status: 'open' }] }],
    ['$gte', { $gte: 2 }],
    ['$regex', { status: { $regex: 'o' } }],
    ['$in', { status: { $in: 'open' } }],
    ['$nin', { status: { $nin: 'open' } }],
  ])('a filter that could match nothing by %s is refused', async (operator, filter) => {
    const { status, json } = await server.ask('POST', '/v1/find', { as: server.alice, body: { filter } });
    expect([status, json.detail]).toEqual([400, expect.stringContaining(operator)]);
  });

  test('every excluded word counts, and numbers do not compare with other values', async () => {
    const words = Array.from({ length: 12 }, (_, at) => `bird${'abcdefghijkl'.charAt(at)}`);
    for (const word of words) await set(word, `aviary ${word}`, { namespace: 'words' });
    expect(
      await found(
        `aviary ${words
          .slice(1)
          .map((word) => `-${word}`)
          .join(' ')}`,
      ),
    ).toEqual(['birda']);
    for (const [key, priority] of Object.entries({
      n2: 2,
      t10: '10',
      word: 'open',
      no: null,
      yes: true,
      list: [3],
    }))
      await set(key, { rank: priority }, { namespace: 'todo' });
    expect(await filtered({ filter: { rank: { $gte: 2 } }, sort: 'rank' })).toEqual(['n2', 't10']);
    expect(await filtered({ filter: { rank: { $lt: 5 } } })).toEqual(['n2']);
    expect(await filtered({ filter: { rank: { $gt: 'a' } } })).toEqual(['word']);
    expect(await filtered({ filter: { rank: null } })).toEqual(['no']);
  });

  test('pages of the longest keys follow each other in every order', async () => {
    const namespace = '"'.repeat(256);
    const keys = ['a', 'b', 'c'].map((letter) => '"'.repeat(1_023) + letter);
    const long = '\u0001'.repeat(300);
    for (const key of keys) await set(key, { order: long + key.at(-1), text: 'longkeyword' }, { namespace });
    const many = Array.from({ length: 31 }, (_, at) => `other${'x'.repeat(at + 1)}`).join(' ');
    for (const body of [
      { q: `longkeyword ${many}` },
      { q: 'longkeyword', sort: 'order' },
      { namespace, filter: {} },
    ]) {
      const found: string[] = [];
      for (let cursor: string | null | undefined; cursor !== null;) {
        const request = { ...body, limit: 1, ...(cursor !== undefined && { cursor }) };
        const reply = await server.ask('POST', '/v1/find', { as: server.alice, body: request });
        expect(reply.status, reply.text).toBe(200);
        const page = pageOf(reply.json);
        found.push(...page.items.map(({ key = '' }) => key));
        cursor = page.next_cursor;
      }
      expect(found.toSorted()).toEqual(keys);
    }
  });

  test('a filter alone stops at its limit, says so, and continues', async () => {
    const small = await start({ findDocumentsExaminedMax: 5 });
    try {
      for (let at = 0; at < 12; at += 1)
        await small.ask('PUT', `/v1/data/n/k${String(at).padStart(2, '0')}`, {
          as: small.alice,
          body: { value: { even: at % 2 === 0 } },
        });
      const first = await small.ask('POST', '/v1/find', {
        as: small.alice,
        body: { filter: { even: true } },
      });
      expect(first.json.items).toHaveLength(3);
      expect(pageOf(first.json).examined_all).toBe(false);
      const rest = await small.ask('POST', '/v1/find', {
        as: small.alice,
        body: { filter: { even: true }, cursor: first.json.next_cursor },
      });
      expect(rest.json.items.map(({ key }: { key: string }) => key)).toEqual(['k06', 'k08']);
    } finally {
      await small.stop();
    }
  });

  test('sorting more documents than it may says that there are others', async () => {
    const small = await start({ findSortedMax: 5 });
    try {
      const sorted = (): Promise<Reply> =>
        small.ask('POST', '/v1/find', { as: small.alice, body: { sort: '-at' } });
      for (let at = 0; at < 6; at += 1) {
        await small.ask('PUT', `/v1/data/n/k${at}`, { as: small.alice, body: { value: { at } } });
        const { items, examined_all: isAll } = pageOf((await sorted()).json);
        expect([items.map(({ key }) => key), isAll]).toEqual([
          ['k4', 'k3', 'k2', 'k1', 'k0'].slice(-Math.min(5, at + 1)),
          at < 5,
        ]);
      }
    } finally {
      await small.stop();
    }
  });

  test('a page with large values ends early, and the next pages have the rest', async () => {
    const small = await start({ dataPageBytesMax: 1_000 });
    try {
      const keys = Array.from({ length: 40 }, (_, at) => `k${String(at).padStart(2, '0')}`);
      const set = Object.fromEntries(
        keys.map((key, at) => [key, { at, text: `ferret ${'x '.repeat(150)}` }]),
      );
      await small.ask('POST', '/v1/data/n', { as: small.alice, body: { set } });
      const filter = { at: { $gte: 0 } };
      for (const body of [
        { q: 'ferret' },
        { q: 'ferret', filter },
        { q: 'ferret', sort: 'at' },
        { filter },
        { sort: 'at' },
      ]) {
        const found: string[] = [];
        let [pages, cursor] = [0, null as string | null];
        do {
          const reply = await small.ask('POST', '/v1/find', {
            as: small.alice,
            body: { ...body, values: true, limit: 25, ...(cursor !== null && { cursor }) },
          });
          const page = pageOf(reply.json);
          found.push(...page.items.map(({ key = '' }) => key));
          expect(page.examined_all).toBe(true);
          [pages, cursor] = [pages + 1, page.next_cursor];
        } while (cursor !== null);
        expect(found.toSorted(), JSON.stringify(body)).toEqual(keys);
        expect(pages).toBeGreaterThanOrEqual(10);
      }
    } finally {
      await small.stop();
    }
  });

  test('an expired document is not found, and does not count', async () => {
    await set('brief', 'ephemeralword', { ttl: 3 } as object);
    expect(await keysOf('q=ephemeralword')).toEqual(['brief']);
    await eventually(async () => expect(await keysOf('q=ephemeralword')).toEqual([]));
  });

  test('a document from before 1970 is found after it is filed, and so are those beside it', async () => {
    const time = '1969-12-31T23:59:59.999Z';
    const old = { namespace: 'archive', userId: 'alice', createdAt: time, updatedAt: time };
    const documents = Array.from({ length: 40 }, (_, at) => ({
      ...old,
      key: `moon-${at}`,
      value: 'lunarword',
    }));
    const imported = await server.ask('POST', '/v1/documents', { as: server.operator, body: { documents } });
    expect(imported.status, imported.text).toBe(200);
    const filed = await server.ask('POST', '/v1/find/reindex', {
      as: server.operator,
      body: {},
    });
    expect(filed.status, filed.text).toBeLessThan(300);
    expect(await keysOf('q=lunarword&limit=100')).toHaveLength(documents.length);
    expect(await keysOf('q=lunarword&limit=100&until=1970-01-01')).toHaveLength(documents.length);
    expect(await keysOf('q=lunarword&since=1970-01-01')).toEqual([]);
    const first = await server.ask('GET', '/v1/find?q=lunarword&limit=30', { as: server.alice });
    expect(pageOf(first.json).items[0]?.time).toBe(time);
    expect(await keysOf(`q=lunarword&limit=30&cursor=${pageOf(first.json).next_cursor}`)).toHaveLength(10);
  });

  test('tasks are found by their command, output and question', async () => {
    const ask = (path: string, body: object) => server.ask('POST', path, { as: server.alice, body });
    const workspace = await ask('/v1/workspaces', { name: 'w', project_path: '/w' });
    const project = await ask(`/v1/workspaces/${workspace.json.id}/projects`, { name: 'p', path: '/p' });
    const session = await ask(`/v1/projects/${project.json.id}/sessions`, {});
    const task = await ask(`/v1/sessions/${session.json.id}/tasks`, { command: 'migrate the giraffe table' });
    expect(task.status, task.text).toBe(201);
    expect(await keysOf('q=giraffe')).toEqual([task.json.id]);
    const { json } = await server.ask('GET', '/v1/find?q=giraffe', { as: server.alice });
    expect(json.items[0]).toMatchObject({ kind: 'tasks', project_id: project.json.id, id: task.json.id });
    expect(await keysOf('q=giraffe', server.bob)).toEqual([]);
    for (const name of [project.json.id, 'w/p'])
      expect(await keysOf(`q=giraffe&project=${name}`)).toEqual([task.json.id]);
    const unknown = await server.ask('GET', '/v1/find?q=giraffe&project=w/q', { as: server.alice });
    expect([unknown.status, unknown.json.code]).toEqual([404, 'not_found']);
  });

  test('a secret in the text of a document, a task and a message is not found and not shown', async () => {
    const text = 'osprey DB_PASSWORD=correcthorse nest';
    const ask = (path: string, body: object) => server.ask('POST', path, { as: server.alice, body });
    await set('osprey', { text });
    const workspace = await ask('/v1/workspaces', { name: 'secrets' });
    const project = await ask(`/v1/workspaces/${workspace.json.id}/projects`, { name: 'p' });
    const session = await ask(`/v1/projects/${project.json.id}/sessions`, {});
    expect((await ask(`/v1/sessions/${session.json.id}/tasks`, { command: text })).status).toBe(201);
    const alice = { ...operatorCaller('alice'), kind: 'user' as const };
    await server.stoa.messaging.rooms.post(
      alice,
      { room: 'nests', byName: true },
      () => ({ body: text, pid: '' }),
      null,
    );
    for (const filed of [false, true]) {
      const { json } = await server.ask('GET', '/v1/find?q=osprey', { as: server.alice });
      const kinds = pageOf(json).items.map(({ kind, excerpt }) => [kind, excerpt.includes('correcthorse')]);
      expect(kinds.toSorted(), `filed: ${filed}`).toEqual([
        ['data', false],
        ['messages', false],
        ['tasks', false],
      ]);
      for (const q of ['correcthorse', 'correcth*']) expect(await keysOf(`q=${q}`)).toEqual([]);
      await server.ask('POST', '/v1/find/reindex', { as: server.operator, body: {} });
    }
    const search = { owner: 'alice', roomId: null, afterMs: 0, limit: 5, from: null };
    const foundByAicq = async (query: string) =>
      (await server.stoa.messaging.rooms.search({ ...search, query })).results.map(
        ({ message }) => message.body,
      );
    expect(await foundByAicq('osprey')).toEqual([text]);
    expect(await foundByAicq('correcthorse')).toEqual([]);
  });

  test('a document that was written with index: false is not found until a write says true', async () => {
    await set('quiet', 'hushword', { index: false } as object);
    expect(await keysOf('q=hushword')).toEqual([]);
    await set('quiet', 'hushword again');
    expect(await keysOf('q=hushword')).toEqual([]);
    const { json } = await server.ask('GET', '/v1/data/notes/quiet', { as: server.alice });
    expect(json).toMatchObject({ indexed: false });
    await set('quiet', 'hushword aloud', { index: true } as object);
    expect(await keysOf('q=hushword')).toEqual(['quiet']);
    await set('quiet', 'hushword hidden', { index: false } as object);
    expect(await keysOf('q=hushword')).toEqual([]);
  });

  test("messages of public rooms and of the user's own rooms are found, others are not", async () => {
    const rooms = server.stoa.messaging.rooms;
    const alice = { ...operatorCaller('alice'), kind: 'user' as const };
    const say = (room: string, body: string) =>
      rooms.post(alice, { room, byName: true }, () => ({ body, pid: '' }), null);
    await say('global', 'the pelican has landed');
    await say('alice-room', 'the pelican is mine');
    const said = async (as: string): Promise<string[]> => {
      const { json } = await server.ask('GET', '/v1/find?q=pelican&in=messages', { as });
      return pageOf(json).items.map(({ excerpt }) => excerpt);
    };
    expect(new Set(await said(server.alice))).toEqual(
      new Set(['the pelican has landed', 'the pelican is mine']),
    );
    expect(await said(server.bob)).toEqual(['the pelican has landed']);
  });

  test.each([
    ['no words', 'q=%20'],
    ['only an excluded word', 'q=-lonely'],
    ['a time that is not one', 'q=a&since=yesterday'],
    ['a time with something behind it', 'q=a&since=2026-01-31Tnoon'],
    ['an unknown kind', 'q=a&in=secrets'],
    ['a query that is too long', `q=${'a'.repeat(3_000)}`],
    ['a forged cursor', 'q=a&cursor=AAAAAAAA'],
    ['more excluded words than are looked up', `q=a${'%20-b'.repeat(33)}`],
  ])('%s is refused with the reason', async (_name, query) => {
    const reply = await server.ask('GET', `/v1/find?${query}`, { as: server.alice });
    expect(reply.status).toBe(400);
    expect(reply.json.detail.length).toBeGreaterThan(10);
  });
});
