import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { type Stoa as OpenedStoa, openStoa, operatorCaller } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';
import { type Gate, startGate } from '../servers/gate.js';
import { until } from '../until.js';

let opened: OpenedStoa;
let gate: Gate;
let url: string;
let stop: () => Promise<void>;

beforeAll(async () => {
  opened = await openStoa({ data: 'unused', engine: 'memory' });
  const app = createApp(opened);
  await app.listen({ host: '127.0.0.1', port: 0 });
  // A TCP server that listens has an AddressInfo.
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  gate = await startGate(url);
  stop = async () => {
    await gate.close();
    await stopApp(app, 5);
    await opened.close();
  };
});
afterAll(() => stop());

function client(options: Partial<ConstructorParameters<typeof Stoa>[0]> = {}): Stoa {
  return new Stoa({
    url,
    token: opened.operatorToken,
    user: 'ada',
    agent: 'tester',
    retryDelayMs: 5,
    ...options,
  });
}

test('many large values are read with several requests, because one answer has a limit', async () => {
  const data = client().data<string>('large');
  const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
  for (const key of keys) await data.set(key, key.repeat(200_000));
  await expect(data.batch({ get: keys })).rejects.toMatchObject({ code: 'too_large' });
  const read = await data.getMany(keys);
  expect(Object.keys(read)).toEqual(keys);
  expect(keys.filter((key) => read[key] !== key.repeat(200_000))).toEqual([]);
});

test('every verb gives the same result through the server as in the library', async () => {
  const data = client().data<{ n: number } | null>('verbs');
  expect(await data.set('a/b', { n: 1 }, { metadata: { m: 1 }, ttl: 60 })).toMatchObject({
    key: 'a/b',
    version: 1,
    sizeBytes: 7,
  });
  expect(await data.get('a/b')).toEqual({ n: 1 });
  await data.set('null', null);
  expect(await data.get('null', 'fallback')).toBeNull();
  expect(await data.get('missing')).toBeUndefined();
  expect(await data.get('missing', 'fallback')).toBe('fallback');
  expect(await data.getEntry('a/b')).toMatchObject({
    createdByAgent: 'tester',
    updatedByAgent: 'tester',
    userId: 'ada',
    accessCount: 1,
    metadata: { m: 1 },
  });
  expect(await data.setMany({ x: { n: 2 }, '..': { n: 3 } })).toEqual({
    x: { version: 1 },
    '..': { version: 1 },
  });
  expect(await data.getMany(['x', '..', 'missing'])).toEqual({ x: { n: 2 }, '..': { n: 3 } });
  expect(Object.keys(await data.getAll())).toEqual(['..', 'a/b', 'null', 'x']);
  expect((await data.listKeys({ prefix: 'a', limit: 1 })).items.map(({ key }) => key)).toEqual(['a/b']);
  expect((await data.listNamespaces()).items.map(({ namespace }) => namespace)).toContain('verbs');
  expect(await data.update('a/b', (current) => ({ n: (current?.n ?? 0) + 1 }))).toEqual({ n: 2 });
  expect((await data.getEntry('a/b'))?.expiresAt).not.toBeNull();
  expect(await data.mergePatch('a/b', { n: 5 })).toEqual({ n: 5 });
  const other = data.useNamespace<number>('numbers');
  expect([await other.increment('i'), await other.increment('i', 4)]).toEqual([1, 5]);
  expect(await other.append('l', [1, 'two'])).toEqual([1, 'two']);
  expect(await data.delete('x', { ifVersion: 1 })).toBe(true);
  expect(await data.delete('x')).toBe(false);
  expect(await data.clear()).toBe(3);
  expect(client().data().namespace).toBe('default');
});

describe('values that JSON would change are refused before they are sent:', () => {
  const circle: Record<string, unknown> = {};
  circle['again'] = circle;

  test.each([
    ['NaN', { deep: [NaN] }, 'deep[0] is NaN'],
    ['undefined', { gone: undefined }, 'gone is undefined'],
    ['a function', () => 1, 'is a function'],
    ['a BigInt', { big: 5n }, 'big is a bigint'],
    ['a date', { at: new Date() }, 'at is an instance of Date'],
    ['a map', new Map([[1, 2]]), 'is an instance of Map'],
    ['binary', new Uint8Array(3), 'is binary'],
    ['a circle', circle, 'again is a circular reference'],
  ])('%s', async (_about, value, reason) => {
    const data = client().data<unknown>('refused');
    const refusal = { code: 'invalid_request', message: expect.stringContaining(reason) as string };
    await expect(data.set('k', value)).rejects.toMatchObject(refusal);
    await expect(data.setMany({ k: value })).rejects.toMatchObject(refusal);
    await expect(data.update('k', () => value)).rejects.toMatchObject(refusal);
    await expect(data.append('k', [value])).rejects.toMatchObject(refusal);
    await expect(data.mergePatch('k', value)).rejects.toMatchObject(refusal);
    await expect(
      client().commit({ operations: [{ op: 'data.set', namespace: 'refused', key: 'k', value }] }),
    ).rejects.toMatchObject(refusal);
    await expect(
      client().commit({
        operations: [{ op: 'data.append', namespace: 'refused', key: 'k', items: [value] }],
      }),
    ).rejects.toMatchObject(refusal);
    expect((await data.listKeys()).items).toEqual([]);
  });

  test('names with lone surrogates, which would become equal names', async () => {
    const data = client().data('refused');
    const refusal = { code: 'invalid_request', message: expect.stringContaining('lone surrogate') as string };
    for (const key of ['\ud800', '\ud800/x']) await expect(data.set(key, 1)).rejects.toMatchObject(refusal);
    await expect(client().data('\udfff/n').get('k')).rejects.toMatchObject(refusal);
    await expect(data.listKeys({ prefix: '\ud800' })).rejects.toMatchObject(refusal);
    expect(() => client({ user: '\ud800' })).toThrow('lone surrogate');
    expect((await data.listKeys()).items).toEqual([]);
  });
});

test('documents can expire at a given time, one by one and in batches, as in the library', async () => {
  const data = client().data<number>('moments');
  const expiresAt = '2999-01-01T00:00:00Z';
  await data.set('one', 1, { expiresAt });
  await data.setMany({ two: 2 }, { expiresAt });
  await opened.data.open(operatorCaller('ada'), 'moments').setMany({ three: 3 }, { expiresAt });
  for (const key of ['one', 'two', 'three'])
    expect((await data.getEntry(key))?.expiresAt).toBe('2999-01-01T00:00:00.000Z');
});

test('refusals carry the code and the fix of the server', async () => {
  const data = client().data<unknown>('refusals');
  await data.set('k', 1);
  await expect(data.set('k', 2, { ifVersion: 0 })).rejects.toMatchObject({
    code: 'version_conflict',
    fix: expect.stringContaining('again'),
  });
  await expect(data.set('k', 'x'.repeat(1024 * 1024))).rejects.toMatchObject({ code: 'too_large' });
  await expect(client({ token: 'wrong' }).data().get('k')).rejects.toMatchObject({ code: 'unauthenticated' });
  expect(() => new Stoa({ url: 'not a url' })).toThrow(/URL/);
});

test('many updates at once are all counted', async () => {
  const data = client().data<number>('updates');
  await Promise.all(Array.from({ length: 20 }, () => data.update('n', (current) => (current ?? 0) + 1)));
  expect(await data.get('n')).toBe(20);
});

/** Fails the given number of times, then passes to the driver. */
function flaky(
  failures: number,
  failure: () => Response | Error,
): { fetch: typeof fetch; calls: () => number } {
  let calls = 0;
  return {
    calls: () => calls,
    fetch: async (input, init) => {
      calls += 1;
      if (calls > failures) return fetch(input, init);
      const outcome = failure();
      if (outcome instanceof Error) throw outcome;
      return outcome;
    },
  };
}
const broken = () => new TypeError('fetch failed');
const unavailable = () => new Response(JSON.stringify({ code: 'backend_unavailable' }), { status: 503 });
const overloaded = () =>
  new Response(JSON.stringify({ code: 'overloaded' }), { status: 503, headers: { 'retry-after': '0' } });

describe('retries', () => {
  test.each([
    ['a broken connection', broken],
    ['an unreachable database', unavailable],
    ['an overload', overloaded],
  ])('reads, plain writes and batches survive %s', async (_name, failure) => {
    for (const call of [
      (data: ReturnType<Stoa['data']>) => data.get('k'),
      (data: ReturnType<Stoa['data']>) => data.set('k', 1),
      (data: ReturnType<Stoa['data']>) => data.setMany({ k: 1 }),
      (data: ReturnType<Stoa['data']>) => data.listKeys(),
    ]) {
      const { fetch: fake, calls } = flaky(3, failure);
      await call(client({ fetch: fake }).data('retries'));
      expect(calls()).toBe(4);
    }
  });

  test('a request that may have been executed is not repeated', async () => {
    for (const call of [
      (data: ReturnType<Stoa['data']>) => data.increment('n'),
      (data: ReturnType<Stoa['data']>) => data.append('l', [1]),
      (data: ReturnType<Stoa['data']>) => data.set('k', 1, { ifVersion: 3 }),
      (data: ReturnType<Stoa['data']>) => data.delete('k'),
    ]) {
      const { fetch: fake, calls } = flaky(1, broken);
      await expect(call(client({ fetch: fake }).data('retries'))).rejects.toMatchObject({
        code: 'unreachable',
      });
      expect(calls()).toBe(1);
    }
    const { fetch: fake, calls } = flaky(1, overloaded);
    await client({ fetch: fake }).data('retries').increment('refused-before-anything');
    expect(calls()).toBe(2);
  });

  test('retries end, and refusals are not retried', async () => {
    const away = flaky(100, broken);
    await expect(client({ fetch: away.fetch, attemptsMax: 3 }).data().get('k')).rejects.toMatchObject({
      code: 'unreachable',
    });
    expect(away.calls()).toBe(3);
    const refusing = flaky(
      100,
      () => new Response(JSON.stringify({ code: 'forbidden', detail: 'no' }), { status: 403 }),
    );
    await expect(client({ fetch: refusing.fetch }).data().get('k')).rejects.toMatchObject({
      code: 'forbidden',
      message: 'no',
    });
    expect(refusing.calls()).toBe(1);
  });

  test('an abort ends the call and the pauses between attempts with its own reason', async () => {
    const reason = new Error('enough');
    const waiting = new AbortController();
    const { fetch: fake, calls } = flaky(100, broken);
    const call = client({ fetch: fake, retryDelayMs: 60_000, attemptsMax: 9 })
      .data()
      .listKeys({ signal: waiting.signal });
    const ended = expect(call).rejects.toBe(reason);
    // The first attempt has failed; the pause before the second is a minute.
    await until(() => calls() === 1);
    waiting.abort(reason);
    await ended;
    await expect(
      client()
        .data()
        .set('k', 1, { signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason);
    const hanging = client({
      fetch: (_input, init) =>
        new Promise((_resolve, reject) =>
          init?.signal?.addEventListener('abort', () => reject(init.signal?.reason as Error)),
        ),
      timeoutMs: 20,
      attemptsMax: 1,
    });
    await expect(hanging.data().get('k')).rejects.toMatchObject({
      code: 'unreachable',
      message: expect.stringContaining('20 ms'),
    });
  });
});

test('a watch sends changes of its namespace and prefix, also after a lost connection', async () => {
  const end = new AbortController();
  const data = client().data<number>('watched');
  const through = client({ url: gate.url }).data<number>('watched');
  await data.set('seed', 0);
  const since = await opened.changes.newest();
  const seen: string[] = [];
  const watching = (async () => {
    for await (const change of through.watch({ prefix: 'k', since, signal: end.signal })) {
      seen.push(`${change.kind} ${change.key ?? '*'} ${change.version ?? ''}`.trim());
      if (seen.length === 2) {
        await gate.close();
        await gate.open();
      }
      if (seen.length === 4) end.abort();
    }
  })();
  await data.set('k1', 1);
  await data.set('other', 1);
  await data.useNamespace<number>('elsewhere').set('k1', 1);
  await client({ user: 'bob' }).data('watched').set('k1', 1);
  await data.delete('k1');
  await data.set('k2', 1);
  await data.clear();
  await watching;
  expect(seen).toEqual(['set k1 1', 'deleted k1', 'set k2 1', 'cleared *']);
});

test('the client needs nothing that browsers do not have', async () => {
  const source = resolve(dirname(fileURLToPath(import.meta.url)), '../../src');
  const seen = new Set<string>();
  const queue = [join(source, 'client/index.ts')];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    const code = (await readFile(file, 'utf8')).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
    expect([file, /\b(Buffer|process|require|setImmediate|__dirname)[.(]/.exec(code)?.[0]]).toEqual([
      file,
      undefined,
    ]);
    for (const [, type, path = ''] of code.matchAll(/(?:import|export)( type)? [^;]*?from '([^']+)'/g)) {
      // Audited cryptography without dependencies, made for browsers.
      if (type !== undefined || path.startsWith('@noble/')) continue;
      expect(path.startsWith('.')).toBe(true);
      queue.push(resolve(dirname(file), path.replace(/\.js$/, '.ts')));
    }
  }
  expect(seen.size).toBeGreaterThan(4);
});
