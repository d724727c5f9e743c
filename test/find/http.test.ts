import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import type { FindPage } from '../../src/find/service.js';
import { Running } from '../server/running.js';

let server: Running;

beforeAll(async () => {
  server = await Running.start({ limits: { findWaitingMax: 4 } });
});
afterAll(() => server.stop());

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

describe('a search over HTTP', () => {
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

  test('filters are exact on the stored value, alone and with words', async () => {
    await set('t1', { status: 'open', priority: 1, text: 'lamp' }, { namespace: 'todo' });
    await set('t2', { status: 'open', priority: 3, text: 'lamp post' }, { namespace: 'todo' });
    await set('t3', { status: 'done', priority: 5, text: 'lamp' }, { namespace: 'todo' });
    expect(await filtered({ filter: { status: 'open', priority: { $gte: 2 } } })).toEqual(['t2']);
    expect(await filtered({ filter: {}, sort: '-priority' })).toEqual(['t3', 't2', 't1']);
    expect(await filtered({ q: 'lamp', filter: { status: 'done' } })).toEqual(['t3']);
    expect(await filtered({ q: 'lamp', sort: 'priority' })).toEqual(['t1', 't2', 't3']);
  });

  test('a filter alone stops at its limit, says so, and continues', async () => {
    const small = await Running.start({ limits: { findDocumentsExaminedMax: 5 } });
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

  test('an expired document is not found, and does not count', async () => {
    await set('brief', 'ephemeralword', { ttl: 1 } as object);
    expect(await keysOf('q=ephemeralword')).toEqual(['brief']);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    expect(await keysOf('q=ephemeralword')).toEqual([]);
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
    ['an unknown kind', 'q=a&in=secrets'],
    ['a query that is too long', `q=${'a'.repeat(3_000)}`],
    ['a forged cursor', 'q=a&cursor=AAAAAAAA'],
  ])('%s is refused with the reason', async (_name, query) => {
    const reply = await server.ask('GET', `/v1/find?${query}`, { as: server.alice });
    expect(reply.status).toBe(400);
    expect(reply.json.detail.length).toBeGreaterThan(10);
  });
});
