import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { Running } from '../server/running.js';
import { useRawHttp } from './raw-http.js';

const { stoa, call } = useRawHttp();

test('a document is written, read, changed and deleted, with its version as ETag', async () => {
  const written = await call(
    'PUT',
    '/v1/data/notes/today',
    { value: { mood: 'good' }, metadata: { source: 'test' } },
    { 'stoa-agent': 'writer' },
  );
  expect(written).toMatchObject({
    status: 201,
    headers: { etag: '"1"' },
    body: { key: 'today', version: 1, sizeBytes: 15 },
  });
  const read = await call('GET', '/v1/data/notes/today', undefined, { 'stoa-agent': 'reader' });
  expect(read).toMatchObject({
    status: 200,
    headers: { etag: '"1"' },
    body: {
      _id: 'default:notes:dG9kYXk=',
      userId: 'default',
      value: { mood: 'good' },
      metadata: { source: 'test' },
      createdByAgent: 'writer',
      updatedByAgent: 'writer',
      accessCount: 0,
    },
  });
  expect((await call('GET', '/v1/data/notes/today')).body).toMatchObject({
    accessCount: 1,
    lastAccessedByAgent: 'reader',
    version: 1,
  });
  expect((await call('GET', '/v1/data/notes/today', undefined, { 'if-none-match': '"1"' })).status).toBe(304);
  expect((await call('PUT', '/v1/data/notes/today', { value: 2 }, { 'if-match': '"7"' })).status).toBe(412);
  expect((await call('PUT', '/v1/data/notes/today', { value: 2 }, { 'if-none-match': '*' })).status).toBe(
    412,
  );
  expect(await call('PUT', '/v1/data/notes/today', { value: 2 }, { 'if-match': '"1"' })).toMatchObject({
    status: 200,
    headers: { etag: '"2"' },
  });
  expect((await call('DELETE', '/v1/data/notes/today', undefined, { 'if-match': '"1"' })).status).toBe(412);
  expect((await call('DELETE', '/v1/data/notes/today', undefined, { 'if-match': '*' })).status).toBe(204);
  expect(await call('DELETE', '/v1/data/notes/today')).toMatchObject({
    status: 404,
    body: { code: 'not_found' },
  });
  expect((await call('PUT', '/v1/data/notes/today', { value: 2 }, { 'if-match': '*' })).status).toBe(412);
});

test('numbers are incremented, lists appended to, and objects merged only by their own content type', async () => {
  expect(await call('PATCH', '/v1/data/patch/n', { increment: 5 })).toMatchObject({
    status: 201,
    body: { value: 5, version: 1 },
  });
  expect(await call('PATCH', '/v1/data/patch/n', { increment: -1.5 })).toMatchObject({
    status: 200,
    headers: { etag: '"2"' },
    body: { value: 3.5 },
  });
  expect(await call('PATCH', '/v1/data/patch/l', { append: [1, [2]] })).toMatchObject({
    status: 201,
    body: { value: [1, [2]] },
  });
  await call('PUT', '/v1/data/patch/o', { value: { a: 1, increment: 1 } });
  const merged = await call(
    'PATCH',
    '/v1/data/patch/o',
    { a: null, increment: 2 },
    { 'content-type': 'application/merge-patch+json' },
  );
  expect(merged).toMatchObject({ status: 200, body: { value: { increment: 2 } } });
  expect((await call('PATCH', '/v1/data/patch/o', { a: 1 })).status).toBe(400);
  expect((await call('PATCH', '/v1/data/patch/o', { increment: 1, append: [] })).status).toBe(400);
  expect(await call('PATCH', '/v1/data/patch/o', { increment: 1 })).toMatchObject({
    status: 409,
    body: { code: 'conflict' },
  });
  expect(
    (await call('PATCH', '/v1/data/patch/o', { increment: 1 }, { 'content-type': 'text/plain' })).status,
  ).toBe(415);
});

test.each([
  ['{"incremnt":1}', /incremnt is unknown/],
  ['{"increment":"1"}', /increment must be a number, got text/],
  ['{"append":1}', /append must be a list, got a number/],
  ['{"increment":1,"append":[1]}', /either increment or append/],
  ['{}', /either increment or append/],
])('the refusal of the change %s names what is wrong', async (body, detail) => {
  expect(await call('PATCH', '/v1/data/patch/wrong', body)).toMatchObject({
    status: 400,
    body: { code: 'invalid_request', detail: expect.stringMatching(detail) as string },
  });
});

test('a batch answers what became of each key, and a repeat with the same Idempotency-Key answers the same', async () => {
  const body = {
    set: { a: 1, b: { c: null } },
    delete: ['missing'],
    get: ['b', 'missing'],
    metadata: { m: 1 },
  };
  const first = await call('POST', '/v1/data/batch', body, { 'idempotency-key': 'once' });
  expect(first).toMatchObject({
    status: 200,
    body: { set: { a: { version: 1 }, b: { version: 1 } }, values: { b: { c: null } }, deleted: 0 },
  });
  expect((await call('POST', '/v1/data/batch', body, { 'idempotency-key': 'once' })).body).toEqual(
    first.body,
  );
  expect((await call('GET', '/v1/data/batch/a')).body).toMatchObject({ version: 1, metadata: { m: 1 } });
  expect(
    (await call('POST', '/v1/data/batch', { set: { a: 2 } }, { 'idempotency-key': 'once' })).status,
  ).toBe(422);
  expect(
    (
      await call('POST', '/v1/data/batch', {
        set: Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [`k${index}`, 1])),
      })
    ).status,
  ).toBe(413);
  expect((await call('POST', '/v1/data/batch', { sets: {} })).body).toMatchObject({
    status: 400,
    code: 'invalid_request',
  });
});

test('namespaces and keys are listed in pages, with values on request', async () => {
  await call('POST', '/v1/data/list', { set: { '～': 1, '😀': 2, a: 3, 'a/b': 4 } });
  const first = await call('GET', '/v1/data/list?limit=2');
  expect((first.body['items'] as { key: string }[]).map(({ key }) => key)).toEqual(['a', 'a/b']);
  const second = await call('GET', `/v1/data/list?limit=5&cursor=${String(first.body['next_cursor'])}`);
  expect(second.body).toMatchObject({ items: [{ key: '～' }, { key: '😀' }], next_cursor: null });
  expect(Object.keys((second.body['items'] as object[])[0] ?? {})).toEqual([
    'key',
    'version',
    'sizeBytes',
    'updatedAt',
  ]);
  const values = await call('GET', '/v1/data/list?values=1&prefix=a%2F');
  expect(values.body).toMatchObject({
    items: [{ key: 'a/b', value: 4, _id: 'default:list:YS9i' }],
    next_cursor: null,
  });
  const namespaces = await call('GET', '/v1/data');
  expect(
    (namespaces.body['items'] as { namespace: string }[]).find(({ namespace }) => namespace === 'list'),
  ).toMatchObject({ count: 4, sizeBytes: 4, agents: [] });
  expect((await call('GET', '/v1/data/list?limit=0')).status).toBe(400);
  expect((await call('GET', '/v1/data/list?cursor=zzzz')).body).toMatchObject({
    status: 400,
    code: 'invalid_cursor',
  });
  expect((await call('GET', '/v1/data/list?unknown=1')).status).toBe(400);
  expect((await call('DELETE', '/v1/data/list')).body).toEqual({ deleted: 4 });
});

test('bad values, names, times and sizes are 400 or 413, and nothing is stored', async () => {
  for (const body of [
    '{"value":1e999}',
    '{"value":"\\ud800"}',
    '{"metadata":{}}',
    '{"value":1,"extra":2}',
    '{"value":1,"ttl":-1}',
    '{"value":1,"metadata":[]}',
    '[]',
    '{',
    '',
  ]) {
    const reply = await call('PUT', '/v1/data/bad/k', body);
    expect([body, reply.status]).toEqual([body, 400]);
  }
  expect((await call('PUT', '/v1/data/bad/k', { value: 'x'.repeat(1024 * 1024) })).status).toBe(413);
  expect((await call('PUT', `/v1/data/bad/${'x'.repeat(1025)}`, { value: 1 })).status).toBe(400);
  expect((await call('PUT', '/v1/data/bad/%00', { value: 1 })).status).toBe(400);
  expect((await call('PUT', '/v1/data/bad/~_w', { value: 1 })).status).toBe(400);
  expect((await call('PUT', '/v1/data/bad/%ff', { value: 1 })).status).toBe(400);
  expect((await call('GET', '/v1/data/bad')).body).toEqual({ items: [], next_cursor: null });
});

test('users do not see each other, and a read-only token does not write', async () => {
  await call('PUT', '/v1/data/own/k', { value: 'alice' }, { 'stoa-user': 'alice' });
  expect((await call('GET', '/v1/data/own/k', undefined, { 'stoa-user': 'bob' })).status).toBe(404);
  expect((await call('GET', '/v1/data', undefined, { 'stoa-user': 'bob' })).body).toEqual({
    items: [],
    next_cursor: null,
  });
  expect((await call('GET', '/v1/data/own/k', undefined, { authorization: 'Bearer wrong' })).status).toBe(
    401,
  );
});

test('a token for some namespaces is refused in others, also with nothing to do there', async () => {
  const { token } = (
    await call('POST', '/v1/users/alice/tokens', {
      name: 'narrow',
      scopes: { write: true, namespaces: ['mine'] },
    })
  ).body;
  const narrow = { authorization: `Bearer ${String(token)}` };
  expect((await call('POST', '/v1/data/mine', {}, narrow)).status).toBe(200);
  expect((await call('POST', '/v1/data/own', {}, narrow)).status).toBe(403);
  expect((await call('POST', '/v1/data/own', { get: ['k'] }, narrow)).status).toBe(403);
});

describe('an import', () => {
  const stock = {
    userId: 'importer',
    namespace: 'imported',
    key: 'k',
    value: 1,
    createdAt: '2026-02-05T10:00:00Z',
  };
  const asUser = { 'stoa-user': 'importer', 'stoa-agent': 'reader' };

  test.each([
    ['a time that four digits for the year cannot spell', { lastAccessedAt: '9999-12-31T23:59:59-05:00' }],
    ['the version that stands for no document', { version: 0 }],
    ['a version that could not grow', { version: Number.MAX_SAFE_INTEGER }],
    ['a count that could not grow', { accessCount: Number.MAX_SAFE_INTEGER }],
    ["a lone surrogate in an agent's name", { createdByAgent: '\ud800' }],
    ["control characters in an agent's name", { lastAccessedByAgent: 'a\nb' }],
    ["an agent's name that is too long", { createdByAgent: 'a'.repeat(257) }],
  ])('refuses %s, and nothing is stored', async (_about, fields) => {
    const good = { ...stock, key: 'good' };
    expect(
      await call('POST', '/v1/documents', { documents: [good, { ...stock, ...fields }] }, asUser),
    ).toMatchObject({ status: 400, body: { code: 'invalid_request', details: { index: 1 } } });
    expect((await call('GET', '/v1/data', undefined, asUser)).body).toEqual({ items: [], next_cursor: null });
    expect((await call('GET', '/v1/documents')).status).toBe(200);
  });

  test('accepts a document that expired long ago, which is then invisible', async () => {
    expect(
      (
        await call(
          'POST',
          '/v1/documents',
          { documents: [{ ...stock, expiresAt: '1970-01-01T00:00:00Z' }] },
          asUser,
        )
      ).status,
    ).toBe(200);
    expect((await call('GET', '/v1/data/imported/k', undefined, asUser)).status).toBe(404);
  });
});

test.each(['{', '{"a":1}', '[1,2]', 'null', '["n",7]'])(
  'an export with the forged cursor %s is refused as such',
  async (place) => {
    const tag = createHash('sha256')
      .update(JSON.stringify(['data', 'export', 'forger']))
      .digest()
      .subarray(0, 4);
    const cursor = Buffer.concat([tag, Buffer.from(place)]).toString('base64url');
    expect(
      await call('GET', `/v1/documents?cursor=${cursor}`, undefined, { 'stoa-user': 'forger' }),
    ).toMatchObject({ status: 400, body: { code: 'invalid_cursor' } });
  },
);

test('a document shows the last write, and one caller cannot change what others read', async () => {
  const path = '/v1/data/kept/plan';
  const operator = operatorCaller('default', 'scout');
  for (const round of [1, 2, 3]) {
    await call('PUT', path, { value: { round }, metadata: { round, by: ['scout'] } });
    for (const again of [1, 2])
      expect((await call('GET', path)).body, `read ${again}`).toMatchObject({
        value: { round },
        version: round,
        metadata: { round },
      });
    const entry = await stoa().data.getEntry(operator, 'kept', 'plan');
    Object.assign(entry?.metadata ?? {}, { round: 'spoilt' });
    expect((await call('GET', path)).body).toMatchObject({ metadata: { round }, accessCount: round });
  }
  await call('DELETE', path);
  expect((await call('GET', path)).status).toBe(404);
});

const key = (name: string) => ({ 'idempotency-key': `retried-${name}` });

test('a write of one document that is sent again with its Idempotency-Key gets the first answer', async () => {
  const path = '/v1/data/retried/doc';
  const put = () => call('PUT', path, { value: [] }, key('put'));
  const [created, again] = [await put(), await put()];
  expect(created.status).toBe(201);
  expect([again.status, again.body]).toEqual([201, created.body]);
  const append = (headers: Record<string, string> = {}) =>
    call('PATCH', path, { append: ['x'] }, { ...key('append'), ...headers });
  expect((await append()).body).toMatchObject({ version: 2, value: ['x'] });
  expect((await append()).body).toMatchObject({ version: 2, value: ['x'] });
  expect((await append({ 'if-match': '"2"' })).status).toBe(422);
  expect((await append({ 'content-type': 'application/merge-patch+json' })).status).toBe(422);
  const remove = () => call('DELETE', path, undefined, key('delete'));
  expect([(await remove()).status, (await remove()).status]).toEqual([204, 204]);
  expect((await call('DELETE', path)).status).toBe(404);
});

test('the OpenAPI document says which routes of the data store take an Idempotency-Key', async () => {
  const { body } = await call('GET', '/openapi.json');
  const paths = body['paths'] as Record<string, Record<string, { parameters?: { name: string }[] }>>;
  const taking = Object.entries(paths)
    .filter(([path]) => path.startsWith('/v1/data'))
    .flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { parameters = [] }]) => parameters.some(({ name }) => name === 'Idempotency-Key'))
        .map(([method]) => `${method} ${path}`),
    );
  expect(taking.toSorted()).toEqual([
    'delete /v1/data/{namespace}/{key}',
    'patch /v1/data/{namespace}/{key}',
    'post /v1/data/{namespace}',
    'put /v1/data/{namespace}/{key}',
  ]);
});

test('a page of whole documents ends at its byte limit, for one user and for all users', async () => {
  const dataPageBytesMax = 2 * 1024 * 1024;
  const bounded = await Running.start({ limits: { dataPageBytesMax } });
  try {
    const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
    for (const key of keys)
      await bounded.stoa.data.set(operatorCaller('alice'), 'large', key, 'x'.repeat(200_000));
    for (const as of [bounded.alice, bounded.operator]) {
      const found: string[] = [];
      for (let cursor: string | null = ''; cursor !== null;) {
        const path = `/v1/documents?limit=1000${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
        const { text, json } = await bounded.ask('GET', path, { as });
        // One step may begin just before the limit.
        expect(text.length).toBeLessThan(dataPageBytesMax + 1.5 * 1024 * 1024);
        const page = json as unknown as { items: { key: string }[]; next_cursor: string | null };
        found.push(...page.items.map(({ key }) => key));
        cursor = page.next_cursor;
      }
      expect(found.toSorted()).toEqual(keys.toSorted());
    }
  } finally {
    await bounded.stop();
  }
});
