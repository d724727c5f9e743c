import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Running } from '../running.js';
import { rawRequest } from './raw-request.js';

let running: Running;
let floodable: Running;
let terse: Running;

beforeAll(async () => {
  terse = await Running.start({ limits: { fieldErrorsMax: 2 } });
  floodable = await Running.start();
  running = await Running.start({ limits: { bodyBytesMax: 100_000, jsonDepthMax: 50 } });
});
afterAll(() => Promise.all([running.stop(), floodable.stop(), terse.stop()]));

const json = { 'content-type': 'application/json' };

async function post(raw: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = json) {
  return running.ask('POST', '/v1/agents', { as: running.alice, raw, headers });
}

const put = (value: string) =>
  floodable.ask('PUT', '/v1/data/n/k', { as: floodable.alice, raw: `{"value":${value}}`, headers: json });

describe('bodies with very many values', () => {
  test.each([
    ['operations of a commit', 'POST', '/v1/commit', (list: string) => `{"operations":${list}}`],
    [
      'dependencies of a task in a commit',
      'POST',
      '/v1/commit',
      (list: string) => `{"operations":[{"op":"task.create","depends_on":${list}}]}`,
    ],
    ['documents of an import', 'POST', '/v1/documents', (list: string) => `{"documents":${list}}`],
    ['keys of a batch', 'POST', '/v1/data/n', (list: string) => `{"get":${list}}`],
  ])('%s are counted before each is checked', async (_name, method, path, bodyOf) => {
    const raw = bodyOf(`[${'0,'.repeat(20_000)}0]`);
    const reply = await floodable.ask(method, path, { as: floodable.alice, raw, headers: json });
    expect([reply.status, reply.json.details.listItemsMax]).toEqual([400, 10_000]);
    expect(reply.json.detail).toContain('has 20,001 items, which exceeds 10,000 (listItemsMax)');
  });

  test('as many as the setting says', async () => {
    const small = await Running.start({ limits: { listItemsMax: 5 } });
    try {
      const body = { operations: Array.from({ length: 6 }, () => ({ op: 'data.increment', key: 'k' })) };
      const reply = await small.ask('POST', '/v1/commit', { as: small.alice, body });
      expect([reply.status, reply.json.details.listItemsMax]).toEqual([400, 5]);
    } finally {
      await small.stop();
    }
  });

  test('a tool of MCP counts them too', async () => {
    const raw = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"commit","arguments":{"operations":[${'0,'.repeat(20_000)}0]}}}`;
    const reply = await floodable.ask('POST', '/mcp', { as: floodable.alice, raw, headers: json });
    expect(reply.text).toContain('(listItemsMax)');
  });

  test('more of them than the limit are refused before they are parsed', async () => {
    for (const value of [
      `[${'0,'.repeat(1_000_000)}0]`,
      `[${'{},'.repeat(250_000)}0]`,
      `{${'"a":0,'.repeat(250_000)}"a":0}`,
    ])
      expect((await put(value)).json).toMatchObject({
        code: 'too_large',
        details: { jsonValuesMax: 1_000_000 },
      });
    // Commas within text are text, and a list as long as a value may be is stored.
    expect((await put(JSON.stringify(','.repeat(1_000_000)))).status).toBe(201);
    expect((await put(`[${'0,'.repeat(500_000)}0]`)).status).toBe(200);
  });
});

describe('bodies', () => {
  test.each([
    ['text that is not JSON', 'not json'],
    ['JSON that ends early', '{"name": "a"'],
    ['two values', '{"name":"a"}{"name":"b"}'],
    ['a list', '[]'],
    ['a number', '1'],
    ['null', 'null'],
    ['a name that is a number', '{"name": 1}'],
    ['a name that is an object', '{"name": {"$gt": ""}}'],
    ['labels that are a list', '{"name": "a", "labels": ["x"]}'],
    ['a label that is null', '{"name": "a", "labels": {"x": null}}'],
    ['__proto__', '{"name": "a", "__proto__": {"admin": true}}'],
    ['__proto__ deep inside', '{"name": "a", "labels": {"__proto__": "x"}}'],
    ['__proto__ with an escape', '{"name": "a", "labels": {"\\u005f_proto__": "x"}}'],
    ['__proto__ with an escaped letter', '{"name": "a", "labels": {"__\\u0070roto__": "x"}}'],
    ['constructor', '{"name": "a", "constructor": {"prototype": {"admin": true}}}'],
    ['nothing at all', ''],
    ['a number too large', '{"name": "a", "spec": {"memory_mb": 1e999}}'],
    ['a fraction where a whole number belongs', '{"name": "a", "spec": {"memory_mb": 1.5}}'],
    ['nesting without end', `{"name": ${'['.repeat(40_000)}`],
    ['nesting beyond the limit', `{"name": "a", "labels": ${'{"a":'.repeat(60)}1${'}'.repeat(60)}}`],
  ])('%s is a 400 that says why', async (_name, body) => {
    const reply = await post(body);
    expect(reply.status, reply.text).toBe(400);
    expect(reply.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
    expect(reply.json).toMatchObject({
      code: 'invalid_request',
      status: 400,
      request_id: reply.headers.get('request-id'),
    });
    expect(reply.json.detail.length).toBeGreaterThan(5);
  });

  test('bytes that are not UTF-8 are a 400', async () => {
    const reply = await post(
      new Uint8Array([...Buffer.from('{"name": "'), 0xff, 0xfe, ...Buffer.from('"}')]),
    );
    expect(reply.status).toBe(400);
    expect(reply.json.detail).toContain('UTF-8');
  });

  test('every unknown field is named', async () => {
    const reply = await post('{"name": "a", "colour": 1, "spec": {"gpu": 2}}');
    expect(reply.status).toBe(400);
    expect(reply.json.errors.map(({ field }: { field: string }) => field).toSorted()).toEqual([
      'body.colour',
      'body.spec.gpu',
    ]);
  });

  test('very many unknown fields are refused, and the first of them are named', async () => {
    const flood = `{"name": "a", ${Array.from({ length: 190_000 }, (_, index) => `"field${index}": 1`).join(', ')}}`;
    const reply = await floodable.ask('POST', '/v1/agents', {
      as: floodable.alice,
      raw: flood,
      headers: json,
    });
    expect(reply.status).toBe(400);
    expect(reply.json.errors).toHaveLength(100);
    expect(reply.json.errors[0]).toEqual({ field: 'body.field0', message: 'is unknown' });
    const long = await post(`{"name": "a", "${'x'.repeat(50_000)}": 1}`);
    expect(long.status).toBe(400);
    expect(long.text.length).toBeLessThan(2_000);
  });

  test('an error names as many invalid fields as the limit allows, at every depth', async () => {
    const reply = await terse.ask('POST', '/v1/agents?x=1', {
      as: terse.alice,
      body: { a: 1, b: 1, c: 1 },
    });
    expect(reply.json.errors.map(({ field }: { field: string }) => field)).toEqual(['query.x', 'body.name']);
  });

  test('no prototype was changed by these requests', () => {
    expect(({} as Record<string, unknown>)['admin']).toBeUndefined();
  });

  test('a body above the limit is 413, with or without Content-Length', async () => {
    const large = JSON.stringify({ name: 'a'.repeat(200_000) });
    expect((await post(large)).json).toMatchObject({
      code: 'too_large',
      status: 413,
      detail: 'The request body exceeds 100,000 bytes (bodyBytesMax).',
      fix: 'Send several smaller requests.',
      details: { bodyBytesMax: 100_000 },
    });
    expect((await running.ask('POST', '/v1/nothing', { raw: large, headers: json })).json).toMatchObject({
      code: 'not_found',
    });
    const chunked = await running.bytes(
      rawRequest(
        running,
        'POST /v1/agents HTTP/1.1',
        ['Content-Type: application/json', 'Transfer-Encoding: chunked'],
        `30d40\r\n${'a'.repeat(200_000)}\r\n0\r\n\r\n`,
      ),
    );
    expect(chunked).toMatch(/^HTTP\/1\.1 413 /);
    expect(chunked).toContain('"code":"too_large"');
  });

  test('a body in chunks is read like any other', async () => {
    const body = '{"name": "chunked"}';
    const answer = await running.bytes(
      rawRequest(
        running,
        'POST /v1/agents HTTP/1.1',
        ['Content-Type: application/json', 'Transfer-Encoding: chunked'],
        `5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`,
      ),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 201 /);
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/jsonx',
    '',
  ])('the content type "%s" is 415', async (type) => {
    const reply = await running.bytes(
      rawRequest(
        running,
        'POST /v1/agents HTTP/1.1',
        [...(type === '' ? [] : [`Content-Type: ${type}`]), 'Content-Length: 12'],
        '{"name":"a"}',
      ),
    );
    expect(reply).toMatch(/^HTTP\/1\.1 415 /);
    expect(reply).toContain('application/problem+json');
  });

  test('a route without a body refuses a body, and accepts {}', async () => {
    const { json: agent } = await post('{"name": "bodiless"}');
    expect(
      (
        await running.ask('POST', `/v1/agents/${agent.agent_id}/start`, {
          as: running.alice,
          body: { force: true },
        })
      ).status,
    ).toBe(400);
    expect(
      (await running.ask('POST', `/v1/agents/${agent.agent_id}/start`, { as: running.alice, body: {} }))
        .status,
    ).toBe(200);
  });
});

test('brackets inside a string do not count as nesting, also after an escaped quote', async () => {
  const value = `"${'['.repeat(300)}\\"`;
  const reply = await running.ask('PUT', '/v1/data/notes/brackets', { as: running.alice, body: { value } });
  expect(reply.status).toBe(201);
  expect((await running.ask('GET', '/v1/data/notes/brackets', { as: running.alice })).json.value).toBe(value);
});

test('the server still works after all of these requests', async () => {
  expect((await running.ask('GET', '/readyz')).status).toBe(200);
});
