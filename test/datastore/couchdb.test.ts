import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { type CouchDataStore, openCouchDataStore } from '../../src/backends/couchdb/datastore.js';
import { dataStoreConformance } from '../../src/datastore/conformance/index.js';
import type { DataService } from '../../src/datastore/service.js';
import { operatorCaller } from '../../src/core/caller.js';
import { limitsWith } from '../../src/limits.js';
import { Running, credentials } from '../server/running.js';
import { FaultyProxy } from '../servers/faulty-proxy.js';
import { type Gate, startGate } from '../servers/gate.js';
import { sharedServer } from '../servers/shared.js';
import { dataOver } from './data-over.js';

let proxy: FaultyProxy;
let gate: Gate;
let direct: string;
beforeAll(async () => {
  direct = (await sharedServer('couchdb')).url;
  gate = await startGate(direct);
  proxy = new FaultyProxy(direct);
  await proxy.start();
});
afterAll(async () => {
  await gate.close();
  await proxy.stop();
});
afterEach(() => proxy.heal());

const database = `conformance_${process.pid}`;
const limits = limitsWith({ backendDelayMsMax: 50, backendAttemptsMax: 3 });

function urlOf(name: string, way = proxy.url): URL {
  const { username, password } = new URL(direct);
  return new URL(
    `couchdb://${username === '' ? '' : `${username}:${password}@`}${new URL(way).host}/${name}`,
  );
}

async function call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  const answer = await fetch(direct + path, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return (await answer.json()) as Record<string, unknown>;
}

// The emulator brings its indexes up to date only when it is asked, and takes its time.
const patiently = (name: string, body: () => Promise<void>): void => test(name, body, 300_000);

describe('the data store on CouchDB (emulator unless COUCHDB_URL is set)', () => {
  dataStoreConformance(patiently, {
    open: (options): Promise<CouchDataStore> =>
      openCouchDataStore(urlOf(database, gate.url), {
        ...options,
        limits: limitsWith({ ...options.limits, ...limits, backendRequestSecondsMax: 60 }),
      }),
    putForeign: async (document) => {
      await call('PUT', `/${database}/${encodeURIComponent(String(document['_id']))}`, document);
    },
    outage: { stop: () => gate.close(), start: () => gate.open() },
  });
});

async function open(name: string): Promise<DataService> {
  return dataOver({
    port: await openCouchDataStore(urlOf(name), { limits, nowMs: Date.now }),
    limits,
  });
}

const caller = operatorCaller('user_123', 'agent');

test("another program finds the seed's fields under the seed's id, with the value as JSON", async () => {
  const data = await open('seed_shape');
  await data.set(
    caller,
    'files:my-repo',
    'src/main.py',
    { lines: [1, [2]] },
    { metadata: { language: 'python' } },
  );
  const document = await call(
    'GET',
    `/seed_shape/${encodeURIComponent('user_123:files:my-repo:c3JjL21haW4ucHk=')}`,
  );
  expect(document).toMatchObject({
    userId: 'user_123',
    namespace: 'files:my-repo',
    key: 'src/main.py',
    value: { lines: [1, [2]] },
    metadata: { language: 'python' },
    createdByAgent: 'agent',
    accessCount: 0,
  });
  expect((await call('GET', '/seed_shape/_index'))['indexes']).toEqual(
    expect.arrayContaining([expect.objectContaining({ name: 'idx-user-namespace' })]),
  );
  await data.close();
});

test('a user id that CouchDB keeps for itself is stored all the same', async () => {
  const data = await open('odd_ids');
  for (const user of ['_design', '_local/x', '%5Fdesign']) {
    await data.set(operatorCaller(user), 'n', 'k', user);
    expect(await data.getEntry(operatorCaller(user), 'n', 'k')).toMatchObject({
      value: user,
      _id: `${user}:n:aw==`,
    });
  }
  expect((await data.port.exportPage(null, 100)).documents).toHaveLength(3);
  await data.close();
});

test('a document that another program wrote over one of ours is believed', async () => {
  const data = await open('shared_writes');
  await data.set(caller, 'n', 'k', 'ours', { metadata: { a: 1 } });
  const path = `/shared_writes/${encodeURIComponent('user_123:n:aw==')}`;
  const { _rev } = await call('GET', path);
  await call('PUT', path, {
    _rev,
    userId: 'user_123',
    namespace: 'n',
    key: 'k',
    value: { theirs: true },
    createdAt: '2026-01-01T00:00:00',
    updatedAt: '2026-01-02T00:00:00',
  });
  expect(await data.getEntry(caller, 'n', 'k')).toMatchObject({
    value: { theirs: true },
    metadata: {},
    version: 1,
    updatedAt: '2026-01-02T00:00:00Z',
  });
  await data.set(caller, 'n', 'k', 'again');
  expect((await data.listKeys(caller, 'n')).items).toMatchObject([{ key: 'k', version: 2, sizeBytes: 7 }]);
  await data.close();
});

test('a busy server is asked again', async () => {
  const data = await open('busy');
  await data.set(caller, 'n', 'k', 1);
  let busy = 2;
  proxy.intercept = () => (busy-- > 0 ? { status: 503, body: { error: 'busy' } } : undefined);
  await data.set(caller, 'n', 'k', 2);
  busy = 2;
  expect(await data.get(caller, 'n', 'k')).toBe(2);
  proxy.intercept = () => undefined;
  await data.close();
});

/** The next write is carried out and its answer lost; `then` happens before anybody looks. */
function loseAnswer(
  database: string,
  then: () => Promise<unknown> = async () => undefined,
): { times: number } {
  const lost = { times: 0 };
  proxy.losesAnswer = ({ target }) => {
    if (lost.times > 0 || target !== `/${database}/_bulk_docs`) return false;
    lost.times += 1;
    return true;
  };
  proxy.before = async ({ target }) => {
    if (lost.times === 0 || target === `/${database}/_bulk_docs`) return;
    proxy.before = async () => undefined;
    await then();
  };
  return lost;
}

test('a write whose answer was lost happens once, and is answered', async () => {
  const data = await open('lost_answers');
  for (let round = 1; round <= 3; round += 1) {
    const lost = loseAnswer('lost_answers');
    expect(await data.increment(caller, 'n', 'count')).toMatchObject({ value: round, version: round });
    expect(lost.times).toBe(1);
  }
  const batch = loseAnswer('lost_answers');
  expect(await data.setMany(caller, 'n', { a: 1, count: 7, b: 2 })).toEqual({
    a: { version: 1 },
    count: { version: 4 },
    b: { version: 1 },
  });
  expect(batch.times).toBe(1);
  expect(await data.getMany(caller, 'n', ['a', 'b', 'count'])).toEqual({ a: 1, b: 2, count: 7 });
  await data.close();
});

test('a deletion whose answer was lost says that the document was there', async () => {
  const data = await open('lost_deletions');
  await data.set(caller, 'n', 'k', 1);
  const lost = loseAnswer('lost_deletions');
  expect(await data.delete(caller, 'n', 'k')).toBe(true);
  expect(lost.times).toBe(1);
  expect(await data.delete(caller, 'n', 'k')).toBe(false);
  for (const key of ['a', 'b', 'c']) await data.set(caller, 'n', key, 1);
  loseAnswer('lost_deletions');
  expect(await data.clear(caller, 'n')).toBe(3);
  await data.close();
});

test('a write whose answer was lost is not repeated over what another wrote since', async () => {
  const [data, other] = [await open('lost_and_written'), await open('lost_and_written')];
  await data.increment(caller, 'n', 'count');
  loseAnswer('lost_and_written', () => other.increment(caller, 'n', 'count', 10));
  await expect(data.increment(caller, 'n', 'count')).rejects.toMatchObject({ code: 'backend_unavailable' });
  expect(await data.get(caller, 'n', 'count')).toBe(12);
  for (const service of [data, other]) await service.close();
});

test('reads count once where the answer to their count was lost, also when the document is written meanwhile', async () => {
  const [data, other] = [await open('lost_counts'), await open('lost_counts')];
  await data.set(caller, 'n', 'k', 1);
  for (let read = 0; read < 3; read += 1) await data.get(caller, 'n', 'k');
  const lost = loseAnswer('lost_counts', () => other.set(operatorCaller('user_123', 'other'), 'n', 'k', 2));
  await data.tracker.flush();
  expect(lost.times).toBe(1);
  await data.tracker.flush();
  expect(await other.getEntry(operatorCaller('user_123'), 'n', 'k')).toMatchObject({
    accessCount: 3,
    value: 2,
    version: 2,
  });
  for (const service of [data, other]) await service.close();
});

test('a namespace that the collation of CouchDB takes for another is listed all the same (emulator)', async () => {
  const data = await open('collation');
  const names = ['e\u0301', '\u00e9', 'z'];
  for (const name of names) await data.set(operatorCaller('user_123'), name, 'k', 1);
  // The emulator compares code units; CouchDB finds nothing between two spellings of one letter.
  proxy.intercept = ({ body }) => {
    const { selector } = (body.startsWith('{') ? JSON.parse(body) : {}) as {
      selector?: { namespace?: { $gt?: unknown } };
    };
    return selector?.namespace?.$gt === names[0]
      ? { status: 200, body: { docs: [], bookmark: 'nil' } }
      : undefined;
  };
  expect((await data.listNamespaces(caller)).items.map(({ namespace, count }) => [namespace, count])).toEqual(
    [
      [names[0], 1],
      ['z', 1],
      [names[1], 1],
    ],
  );
  await data.close();
});

test('a list of namespaces asks no more for many documents than for few', async () => {
  const small = limitsWith({ ...limits, pageItemsMax: 5, clearStepMax: 5 });
  const data = dataOver({
    port: await openCouchDataStore(urlOf('listing'), { limits: small, nowMs: Date.now }),
    limits: small,
  });
  const asked = async (user: string, count: number): Promise<string[]> => {
    for (const namespace of ['n', 'm'])
      await data.setMany(
        operatorCaller(user, 'agent'),
        namespace,
        Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 'é'])),
      );
    const targets: string[] = [];
    proxy.intercept = ({ target }) => {
      targets.push(target.split('?')[0] ?? '');
      return undefined;
    };
    expect((await data.listNamespaces(operatorCaller(user))).items).toMatchObject(
      ['m', 'n'].map((namespace) => ({ namespace, count, sizeBytes: count * 4, agents: ['agent'] })),
    );
    proxy.heal();
    return targets;
  };
  const few = await asked('few', 1);
  expect(await asked('many', 30)).toEqual(few);
  await data.close();
});

function putForeign(key: string, fields: Record<string, unknown>): Promise<unknown> {
  const id = `user_123:～:${Buffer.from(key).toString('base64')}`;
  return call('PUT', `/counting/${encodeURIComponent(id)}`, {
    userId: 'user_123',
    namespace: '～',
    key,
    createdAt: '2026-01-01T00:00:00',
    ...fields,
  });
}

test('a namespace counts documents of other programs, and none that has expired', async () => {
  let nowMs = Date.parse('2026-03-01T00:00:00Z');
  const data = dataOver({
    port: await openCouchDataStore(urlOf('counting'), { limits, nowMs: () => nowMs }),
    limits,
    nowMs: () => nowMs,
  });
  await putForeign('theirs', {
    value: ['é😀'],
    updatedAt: '2026-02-01T00:00:00.123456',
    createdByAgent: 'python',
  });
  await putForeign('older', { value: 1, updatedAt: '2026-02-01T01:00:00+02:00' });
  await data.set(caller, '😀', 'stays', 'x');
  await data.set(caller, '😀', 'expires', 'yyyy', { ttl: 60 });
  await data.set(caller, 'gone', 'expires', 1, { ttl: 60 });
  const theirs = {
    namespace: '～',
    count: 2,
    sizeBytes: 11,
    updatedAt: '2026-02-01T00:00:00.123456Z',
    agents: ['python'],
  };
  expect((await data.listNamespaces(caller)).items).toEqual([
    { namespace: 'gone', count: 1, sizeBytes: 1, updatedAt: '2026-03-01T00:00:00Z', agents: ['agent'] },
    theirs,
    { namespace: '😀', count: 2, sizeBytes: 9, updatedAt: '2026-03-01T00:00:00Z', agents: ['agent'] },
  ]);
  nowMs += 60_000;
  const live = [
    theirs,
    { namespace: '😀', count: 1, sizeBytes: 3, updatedAt: '2026-03-01T00:00:00Z', agents: ['agent'] },
  ];
  expect((await data.listNamespaces(caller)).items).toEqual(live);
  await data.port.sweepExpired?.(10);
  expect((await data.listNamespaces(caller)).items).toEqual(live);
  expect((await data.port.exportPage(null, 100)).documents.map(({ key }) => key).toSorted()).toEqual([
    'older',
    'stays',
    'theirs',
  ]);
  await data.close();
});

test('an export leaves nothing out when the last document of a page is deleted before the next', async () => {
  const data = await open('export_deleted');
  for (const key of ['a', 'b', 'c', 'd']) await data.set(caller, 'n', key, key);
  const keys: string[] = [];
  let after: string | null = null;
  do {
    const page = await data.port.exportPage(after, 2);
    keys.push(...page.documents.map(({ key }) => key));
    if (page.documents.length > 0) await data.delete(caller, 'n', keys.at(-1) ?? '');
    after = page.after;
  } while (after !== null);
  expect(keys).toEqual(['a', 'b', 'c', 'd']);
  await data.close();
});

test('documents of another program are taken up a few at a time, however many there are', async () => {
  const data = await open('many_foreign');
  const documents = Array.from({ length: 120 }, (_, index) => {
    const key = `k${String(index).padStart(3, '0')}`;
    return {
      _id: `user_123:n:${Buffer.from(key).toString('base64')}`,
      userId: 'user_123',
      namespace: 'n',
      key,
      value: index,
      createdAt: '2026-01-01T00:00:00',
      updatedAt: '2026-01-01T00:00:00',
    };
  });
  await call('POST', '/many_foreign/_bulk_docs', { docs: documents });
  const written: number[] = [];
  proxy.intercept = ({ target, body }) => {
    if (target === '/many_foreign/_bulk_docs')
      written.push((JSON.parse(body) as { docs: unknown[] }).docs.length);
    return undefined;
  };
  expect((await data.listKeys(caller, 'n', { limit: 200 })).items.map(({ key }) => key)).toEqual(
    documents.map(({ key }) => key),
  );
  expect(written).toEqual([50, 50, 20]);
  await data.close();
});

test('a server that takes requests and never answers is waited for once, not at every attempt', async () => {
  const short = limitsWith({ backendRequestSecondsMax: 0.3, backendAttemptsMax: 8 });
  const data = dataOver({
    port: await openCouchDataStore(urlOf('hanging'), { limits: short, nowMs: Date.now }),
    limits: short,
  });
  let asked = 0;
  const waiting: (() => void)[] = [];
  proxy.before = () => {
    asked += 1;
    return new Promise((resolve) => waiting.push(resolve));
  };
  await expect(data.get(caller, 'n', 'k')).rejects.toMatchObject({ code: 'backend_unavailable' });
  expect(asked).toBe(1);
  proxy.heal();
  for (const goOn of waiting) goOn();
  expect(await data.get(caller, 'n', 'k')).toBeUndefined();
  await data.close();
});

/** Asks over HTTP and hangs up when the database has been asked for `path`; nobody answers that before the server has noticed. */
async function hangUpAt(running: Running, method: string, path: string, asked: string): Promise<void> {
  const connection = once(running.app.server, 'connection') as Promise<[Socket]>;
  const request = httpRequest(running.url + path, {
    method,
    agent: false,
    headers: credentials(running.alice),
  });
  const ended = once(request, 'error');
  proxy.before = async ({ target }) => {
    if (target !== asked) return;
    proxy.before = async () => undefined;
    const [socket] = await connection;
    const closed = once(socket, 'close');
    request.destroy(new Error('hung up'));
    await closed;
  };
  request.end();
  await ended;
  const counted = `stoa_http_requests_total{method="${method}",route="${path.replace('/n', '/{namespace}')}",status="499"} 1`;
  await vi.waitFor(
    async () => expect((await running.ask('GET', '/metrics')).text).toContain(counted),
    20_000,
  );
}

test('a caller who hangs up ends a clear after the step under way, and a list after the request under way', async () => {
  const running = await Running.start({
    datastore: urlOf('hung_up').href,
    limits: { ...limits, clearStepMax: 2 },
  });
  await running.ask('POST', '/v1/data/n', {
    as: running.alice,
    body: { set: { a: 1, b: 2, c: 3, d: 4, e: 5 } },
  });
  for (const namespace of ['one', 'two', 'three', 'four'])
    await running.ask('PUT', `/v1/data/${namespace}/k`, { as: running.alice, body: { value: 1 } });
  await hangUpAt(running, 'DELETE', '/v1/data/n', '/hung_up/_bulk_docs');
  expect((await running.ask('GET', '/v1/data/n', { as: running.alice })).json.items).toMatchObject([
    { key: 'c' },
    { key: 'd' },
    { key: 'e' },
  ]);
  const namespacesAskedFor: unknown[] = [];
  proxy.intercept = ({ target, body }) => {
    if (target === '/hung_up/_find')
      namespacesAskedFor.push(
        (JSON.parse(body) as { selector: { namespace: { $gt: unknown } } }).selector.namespace.$gt,
      );
    return undefined;
  };
  await hangUpAt(running, 'GET', '/v1/data', '/hung_up/_find');
  expect(namespacesAskedFor).toEqual([null]);
  expect((await running.ask('GET', '/v1/data', { as: running.alice })).json.items).toHaveLength(5);
  await running.stop();
});

test('a close ends the requests that are under way, however long they might take', async () => {
  const patient = limitsWith({ backendRequestSecondsMax: 3_600 });
  const data = dataOver({
    port: await openCouchDataStore(urlOf('closing'), { limits: patient, nowMs: Date.now }),
    limits: patient,
  });
  const asked = new Promise<void>((resolve) => {
    proxy.before = () => {
      resolve();
      return new Promise(() => undefined);
    };
  });
  const waiting = expect(data.get(caller, 'n', 'k')).rejects.toMatchObject({ code: 'closed' });
  await asked;
  await data.close();
  await waiting;
  await expect(data.get(caller, 'n', 'k')).rejects.toMatchObject({ code: 'closed' });
});

test('a close does not wait again and again for a server that never answers', async () => {
  const short = limitsWith({ backendRequestSecondsMax: 0.3 });
  const failed: unknown[] = [];
  const data = dataOver({
    port: await openCouchDataStore(urlOf('closing'), { limits: short, nowMs: Date.now }),
    limits: short,
    onError: (error) => failed.push(error),
  });
  await data.set(caller, 'n', 'k', 1);
  await data.get(caller, 'n', 'k');
  let asked = 0;
  proxy.before = () => {
    asked += 1;
    return new Promise(() => undefined);
  };
  await data.close();
  expect(asked).toBe(1);
  expect(failed.map(String).join()).toMatch(/no answer within 0.3 s.*are not counted/);
});
