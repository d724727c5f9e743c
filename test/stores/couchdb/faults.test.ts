/** Faults between the data store and CouchDB, caused by a proxy. */
import { dataOver } from '../../datastore/data-over.js';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import type { Socket } from 'node:net';
import { expect, test } from 'vitest';
import { openCouchDataStore } from '../../../src/stores/couchdb/open.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { Running, credentials } from '../../server/running.js';
import { ProxiedCouchdb, hastyLimits as limits } from './database.js';
import { eventually } from '../../until.js';

const couch = new ProxiedCouchdb();
const caller = operatorCaller('user_123', 'agent');

test('a request to a busy server is retried', async () => {
  const data = await couch.open('busy');
  await data.set(caller, 'n', 'k', 1);
  let busy = 2;
  couch.proxy.intercept = () => (busy-- > 0 ? { status: 503, body: { error: 'busy' } } : undefined);
  await data.set(caller, 'n', 'k', 2);
  busy = 2;
  expect(await data.get(caller, 'n', 'k')).toBe(2);
  couch.proxy.intercept = () => undefined;
  await data.close();
});

test('agents that the server refuses are reported once, and written with a later document', async () => {
  const faults: unknown[] = [];
  const port = await openCouchDataStore(couch.urlOf('refused_agents'), {
    limits,
    nowMs: Date.now,
    onError: (error) => faults.push(error),
  });
  const data = dataOver({ port, limits });
  await data.set(caller, 'n', 'k', 0);
  couch.proxy.intercept = ({ target }) =>
    target.includes('_namespaces') ? { status: 403, body: { error: 'forbidden' } } : undefined;
  for (const name of ['heron', 'otter']) await data.set({ ...caller, agent: name }, 'n', 'k', 1);
  expect(faults).toHaveLength(1);
  couch.proxy.heal();
  await data.set({ ...caller, agent: 'walrus' }, 'n', 'k', 2);
  const [summary] = await port.listNamespaces(caller.user, null, 1);
  expect(summary?.agents.toSorted()).toEqual(['agent', 'heron', 'otter', 'walrus']);
  await data.close();
});

/** The next write is executed and its answer lost; `then` runs before the next request. */
function loseAnswer(name: string, then: () => Promise<unknown> = async () => undefined): { times: number } {
  const lost = { times: 0 };
  couch.proxy.losesAnswer = ({ target }) => {
    if (lost.times > 0 || target !== `/${couch.database(name)}/_bulk_docs`) return false;
    lost.times += 1;
    return true;
  };
  couch.proxy.before = async ({ target }) => {
    if (lost.times === 0 || target === `/${couch.database(name)}/_bulk_docs`) return;
    couch.proxy.before = async () => undefined;
    await then();
  };
  return lost;
}

test('a write whose answer was lost happens once, and is answered', async () => {
  const data = await couch.open('lost_answers');
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
  const data = await couch.open('lost_deletions');
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

test('a write whose answer was lost is not repeated over a later write of another caller', async () => {
  const [data, other] = [await couch.open('lost_and_written'), await couch.open('lost_and_written')];
  await data.increment(caller, 'n', 'count');
  loseAnswer('lost_and_written', () => other.increment(caller, 'n', 'count', 10));
  await expect(data.increment(caller, 'n', 'count')).rejects.toMatchObject({ code: 'backend_unavailable' });
  expect(await data.get(caller, 'n', 'count')).toBe(12);
  for (const service of [data, other]) await service.close();
});

test('reads count once where the answer to their count was lost, also when the document is written meanwhile', async () => {
  const [data, other] = [await couch.open('lost_counts'), await couch.open('lost_counts')];
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

test('a server that takes requests and never answers is waited for once, not at every attempt', async () => {
  const short = limitsWith({ backendRequestSecondsMax: 1, backendAttemptsMax: 8 });
  const data = dataOver({
    port: await openCouchDataStore(couch.urlOf('hanging'), { limits: short, nowMs: Date.now }),
    limits: short,
  });
  let asked = 0;
  const waiting: (() => void)[] = [];
  couch.proxy.before = () => {
    asked += 1;
    return new Promise((resolve) => waiting.push(resolve));
  };
  await expect(data.get(caller, 'n', 'k')).rejects.toMatchObject({ code: 'backend_unavailable' });
  expect(asked).toBe(1);
  couch.proxy.heal();
  for (const goOn of waiting) goOn();
  expect(await data.get(caller, 'n', 'k')).toBeUndefined();
  await data.close();
});

/**
 * Sends a request and disconnects when the database gets `path`, which is answered only after the server has
 * noticed.
 */
async function hangUpAt(running: Running, method: string, path: string, asked: string): Promise<void> {
  const connection = once(running.app.server, 'connection') as Promise<[Socket]>;
  const request = httpRequest(running.url + path, {
    method,
    agent: false,
    headers: credentials(running.alice),
  });
  const ended = once(request, 'error');
  couch.proxy.before = async ({ target }) => {
    if (target !== asked) return;
    couch.proxy.before = async () => undefined;
    const [socket] = await connection;
    const closed = once(socket, 'close');
    request.destroy(new Error('hung up'));
    await closed;
  };
  request.end();
  await ended;
  const counted = `stoa_http_requests_total{method="${method}",route="${path.replace('/n', '/{namespace}')}",status="499"} 1`;
  await eventually(async () => expect((await running.ask('GET', '/metrics')).text).toContain(counted));
}

test('when the caller disconnects, a clear ends after the current step and a list after the current request', async () => {
  const running = await Running.start({
    datastore: couch.urlOf('hung_up').href,
    limits: { ...limits, clearStepMax: 2 },
  });
  await running.ask('POST', '/v1/data/n', {
    as: running.alice,
    body: { set: { a: 1, b: 2, c: 3, d: 4, e: 5 } },
  });
  for (const namespace of ['one', 'two', 'three', 'four'])
    await running.ask('PUT', `/v1/data/${namespace}/k`, { as: running.alice, body: { value: 1 } });
  await hangUpAt(running, 'DELETE', '/v1/data/n', `/${couch.database('hung_up')}/_bulk_docs`);
  expect((await running.ask('GET', '/v1/data/n', { as: running.alice })).json.items).toMatchObject([
    { key: 'c' },
    { key: 'd' },
    { key: 'e' },
  ]);
  const namespacesAskedFor: unknown[] = [];
  couch.proxy.intercept = ({ target, body }) => {
    if (target === `/${couch.database('hung_up')}/_find`)
      namespacesAskedFor.push(
        (JSON.parse(body) as { selector: { namespace: { $gt: unknown } } }).selector.namespace.$gt,
      );
    return undefined;
  };
  await hangUpAt(running, 'GET', '/v1/data', `/${couch.database('hung_up')}/_find`);
  expect(namespacesAskedFor).toEqual([null]);
  expect((await running.ask('GET', '/v1/data', { as: running.alice })).json.items).toHaveLength(5);
  await running.stop();
});

test('a close ends running requests, even if they would never finish', async () => {
  const patient = limitsWith({ backendRequestSecondsMax: 3_600 });
  const data = dataOver({
    port: await openCouchDataStore(couch.urlOf('closing'), { limits: patient, nowMs: Date.now }),
    limits: patient,
  });
  const asked = new Promise<void>((resolve) => {
    couch.proxy.before = () => {
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

test('a close waits only once for a server that never answers', async () => {
  const short = limitsWith({ backendRequestSecondsMax: 0.3 });
  const failed: unknown[] = [];
  const data = dataOver({
    port: await openCouchDataStore(couch.urlOf('closing'), { limits: short, nowMs: Date.now }),
    limits: short,
    onError: (error) => failed.push(error),
  });
  await data.set(caller, 'n', 'k', 1);
  await data.get(caller, 'n', 'k');
  let asked = 0;
  couch.proxy.before = () => {
    asked += 1;
    return new Promise(() => undefined);
  };
  await data.close();
  expect(asked).toBe(1);
  expect(failed.map(String).join()).toMatch(/no answer within 0.3 s.*are lost/);
});

test('a list waits for an index that takes longer to build than a request may', async () => {
  // A busy machine needs longer than that for other requests, so the documents are written without this limit.
  const writer = await couch.open('building');
  await writer.setMany(caller, 'n', { a: 1, b: 2 });
  await writer.close();
  const data = await couch.open('building', { backendRequestSecondsMax: 0.6 });
  const late = new Map<string, number>();
  // Every index is late twice.
  couch.proxy.before = async ({ target, body }) => {
    if (!/_find$|_view/.test(target)) return;
    const question = `${target} ${body}`;
    late.set(question, (late.get(question) ?? 0) + 1);
    if ((late.get(question) ?? 0) <= 2) await new Promise((resolve) => setTimeout(resolve, 900));
  };
  expect((await data.listKeys(caller, 'n')).items).toHaveLength(2);
  expect((await data.listNamespaces(caller)).items).toMatchObject([{ namespace: 'n', count: 2 }]);
  expect(await data.clear(caller, 'n')).toBe(2);
  expect([...late.values()].every((times) => times >= 3)).toBe(true);
  await data.close();
});

test('a list whose index fails for good is refused at once', async () => {
  const data = await couch.open('broken_index');
  await data.set(caller, 'n', 'k', 1);
  couch.proxy.intercept = ({ target }) =>
    target.endsWith('/_find')
      ? { status: 500, body: { error: 'unknown_error', reason: 'broken' } }
      : undefined;
  await expect(data.listKeys(caller, 'n')).rejects.toMatchObject({
    code: 'backend_unavailable',
    message: 'CouchDB reported 500: broken.',
  });
  await data.close();
});

test('wrong credentials are an error of the configuration', async () => {
  const url = couch.urlOf('strangers');
  url.password = 'wrong';
  await expect(openCouchDataStore(url, { limits, nowMs: Date.now })).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/rejected the credentials/),
  });
});
