import { afterAll, beforeAll, expect, test } from 'vitest';
import { Running } from '../running.js';

let running: Running;
let path: string;
beforeAll(async () => {
  running = await Running.start();
  const { json } = await running.ask('POST', '/v1/agents', {
    as: running.alice,
    body: { name: 'versioned' },
  });
  path = `/v1/agents/${json.agent_id}`;
});
afterAll(() => running.stop());

function patch(headers: Record<string, string>, labels = { n: String(Math.random()) }) {
  return running.ask('PATCH', path, { as: running.alice, body: { labels }, headers });
}

function putAbsent(headers: Record<string, string>) {
  return running.ask('PUT', '/v1/data/notes/absent', { as: running.alice, body: { value: 1 }, headers });
}

test('the ETag is the quoted version and grows with each change', async () => {
  const before = await running.ask('GET', path, { as: running.alice });
  expect(before.headers.get('etag')).toBe(`"${before.json.version}"`);
  const after = await patch({});
  expect(after.headers.get('etag')).toBe(`"${before.json.version + 1}"`);
});

test('If-Match lets a write through only on the current version', async () => {
  const { json, headers } = await running.ask('GET', path, { as: running.alice });
  const stale = await patch({ 'if-match': `"${json.version - 1}"` });
  expect(stale.json).toMatchObject({ code: 'version_conflict', status: 412 });
  expect((await patch({ 'if-match': headers.get('etag') ?? '' })).status).toBe(200);
  expect((await patch({ 'if-match': headers.get('etag') ?? '' })).status).toBe(412);
  expect((await patch({ 'if-match': '*' })).status).toBe(200);
});

test.each([
  ['"abc"', 412],
  ['W/"1"', 412],
  ['"0"', 412],
  ['"01"', 412],
  ['1', 400],
  ['"1", "2"', 400],
  ['', 400],
])('If-Match: %s is %i', async (tag, status) => {
  expect((await patch({ 'if-match': tag })).status).toBe(status);
});

test('If-Match: "0" creates nothing; only If-None-Match: * requires that the document is missing', async () => {
  expect((await putAbsent({ 'if-match': '"0"' })).json).toMatchObject({
    code: 'version_conflict',
    status: 412,
  });
  expect((await putAbsent({ 'if-none-match': '*' })).status).toBe(201);
});

test('another spelling of the current version does not match', async () => {
  const { json } = await running.ask('GET', path, { as: running.alice });
  expect((await patch({ 'if-match': `"0${json.version}"` })).status).toBe(412);
});

test('If-Match and If-None-Match exclude each other', async () => {
  expect((await patch({ 'if-match': '"1"', 'if-none-match': '*' })).status).toBe(400);
});

test('If-None-Match: * refuses to write what exists', async () => {
  expect((await patch({ 'if-none-match': '*' })).status).toBe(412);
});

test('a reader that has the version gets 304 and no body', async () => {
  const { headers } = await running.ask('GET', path, { as: running.alice });
  const again = await running.ask('GET', path, {
    as: running.alice,
    headers: { 'if-none-match': headers.get('etag') ?? '' },
  });
  expect(again.status).toBe(304);
  expect(again.text).toBe('');
  expect(
    (await running.ask('GET', path, { as: running.alice, headers: { 'if-none-match': '"0"' } })).status,
  ).toBe(200);
});

test('of concurrent writers with the same version, one succeeds', async () => {
  const { headers } = await running.ask('GET', path, { as: running.alice });
  const replies = await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      patch({ 'if-match': headers.get('etag') ?? '' }, { n: `race ${index}` }),
    ),
  );
  expect(replies.map(({ status }) => status).toSorted()).toEqual([
    200,
    ...Array.from({ length: 9 }, () => 412),
  ]);
});

test('a heartbeat changes neither the version nor the time of change', async () => {
  await running.ask('POST', `${path}/start`, { as: running.alice });
  const before = await running.ask('GET', path, { as: running.alice });
  const beat = await running.ask('POST', `${path}/heartbeat`, { as: running.alice, body: {} });
  expect(beat.json.lease).toMatchObject({ fence: expect.any(Number), expires_at: expect.any(String) });
  const after = await running.ask('GET', path, { as: running.alice });
  expect(after.headers.get('etag')).toBe(before.headers.get('etag'));
  expect(after.json.updated_at).toBe(before.json.updated_at);
});

test("a fence below the lease's is refused", async () => {
  const { json } = await running.ask('POST', `${path}/heartbeat`, { as: running.alice, body: {} });
  const late = await running.ask('PATCH', path, {
    as: running.alice,
    body: { labels: { late: '1' } },
    headers: { 'stoa-fence': String(json.lease.fence - 1) },
  });
  expect(late.json).toMatchObject({ code: 'fenced', status: 409 });
});

test.each([
  ['POST', '/v1/agents', { name: 'conditional' }],
  ['POST', '/v1/data/conditional', { set: { a: 1 } }],
  ['DELETE', '/v1/data/conditional', undefined],
])('%s %s refuses an If-Match that it could only overlook', async (method, path, body) => {
  const reply = await running.ask(method, path, {
    as: running.alice,
    headers: { 'if-match': '"3"' },
    ...(body !== undefined && { body }),
  });
  expect(reply.status, reply.text).toBe(400);
  expect(reply.json.detail).toMatch(/has If-Match, which this route does not support/);
});

test.each([
  ['POST', '/v1/data/conditional', { set: { a: 1 } }],
  ['DELETE', '/v1/data/conditional', undefined],
  ['POST', '/v1/commit', { operations: [{ op: 'data.set', key: 'a', value: 1 }] }],
])('%s %s refuses an If-None-Match that it could only overlook', async (method, path, body) => {
  const reply = await running.ask(method, path, {
    as: running.alice,
    headers: { 'if-none-match': '*' },
    ...(body !== undefined && { body }),
  });
  expect(reply.status, reply.text).toBe(400);
  expect(reply.json.detail).toMatch(/has If-None-Match, which this route does not support/);
});

test('a creation accepts If-None-Match: *', async () => {
  expect(
    (
      await running.ask('POST', '/v1/agents', {
        as: running.alice,
        headers: { 'if-none-match': '*' },
        body: { name: 'new under a condition' },
      })
    ).status,
  ).toBe(201);
});

test('a body with an unsupported Content-Encoding is refused', async () => {
  const headers = { 'content-encoding': 'gzip' };
  const reply = await running.ask('POST', '/v1/agents', {
    as: running.alice,
    headers,
    body: { name: 'packed' },
  });
  expect(reply.status, reply.text).toBe(415);
  expect(reply.json.fix).toBe('Send the body without encoding.');
});
