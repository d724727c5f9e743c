import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Running } from '../running.js';

let running: Running;
let floodable: Running;
let impatient: Running;

beforeAll(async () => {
  impatient = await Running.start({ limits: { requestSecondsMax: 0.2, fieldErrorsMax: 2 } });
  floodable = await Running.start();
  running = await Running.start({
    limits: { bodyBytesMax: 100_000, headerBytesMax: 16_384, jsonDepthMax: 50 },
  });
});
afterAll(() => Promise.all([running.stop(), floodable.stop(), impatient.stop()]));

const json = { 'content-type': 'application/json' };

async function post(raw: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = json) {
  return running.ask('POST', '/v1/agents', { as: running.alice, raw, headers });
}

/** A request on a bare connection; the server closes it after the answer. */
function rawRequest(line: string, headers: string[], body = ''): string {
  return [
    line,
    `Host: 127.0.0.1:${running.port}`,
    `Authorization: Bearer ${running.alice}`,
    ...headers,
    'Connection: close',
    '',
    body,
  ].join('\r\n');
}

const put = (value: string) =>
  floodable.ask('PUT', '/v1/data/n/k', { as: floodable.alice, raw: `{"value":${value}}`, headers: json });

describe('bodies with very many values', () => {
  test.each([
    ['operations of a commit', 'POST', '/v1/commit', (list: string) => `{"operations":${list}}`],
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
    const reply = await impatient.ask('POST', '/v1/agents?x=1', {
      as: impatient.alice,
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
      code: 'too_large',
      details: { bodyBytesMax: 100_000 },
    });
    const chunked = await running.bytes(
      rawRequest(
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

describe('percent-encoding', () => {
  // A lone surrogate, no UTF-8 at all, an overlong form, one that ends early, and no encoding.
  const broken = ['%ed%a0%80', '%ff', '%c0%80', '%e2%82', '%zz', '%'];

  test.each(broken)('that is not UTF-8 in a query is a 400 that names the parameter: %s', async (text) => {
    const queries = {
      '/v1/data/notes?values=1&prefix=': 'prefix',
      '/v1/agents?name=': 'name',
      '/v1/changes?topics=': 'topics',
      '/v1/workspaces?limit=2&cursor=': 'cursor',
    };
    for (const [path, name] of Object.entries(queries)) {
      const reply = await running.ask('GET', path + text, { as: running.alice });
      expect(reply.json, path).toMatchObject({
        status: 400,
        code: 'invalid_request',
        errors: [{ field: `query.${name}`, message: expect.stringContaining('not percent-encoded UTF-8') }],
      });
    }
    expect((await running.ask('GET', `/v1/agents?${text}=1`, { as: running.alice })).status).toBe(400);
    expect((await running.ask('GET', `/find?q=${text}`)).json).toEqual({
      error: expect.stringContaining('query.q is not percent-encoded UTF-8'),
    });
  });

  test.each(broken)('that is not UTF-8 in a path is a 400 that shows the segment: %s', async (text) => {
    for (const path of [
      `/v1/data/notes/${text}`,
      `/v1/data/${text}/key?prefix=%C3%A9`,
      `/v1/agents/${text}/sessions`,
    ]) {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const reply = await running.ask(method, path, { as: running.alice });
        expect(reply.json, `${method} ${path}`).toMatchObject({
          status: 400,
          code: 'invalid_request',
          errors: [{ field: 'path', message: expect.stringContaining(`"${text}"`) }],
        });
      }
    }
  });

  test('of any text comes through', async () => {
    for (const key of ['é', '100%', '日本', '🎉', 'a b+c&d=e']) {
      const path = `/v1/data/encoded/${encodeURIComponent(key)}`;
      expect((await running.ask('PUT', path, { as: running.alice, body: { value: key } })).status).toBe(201);
      const { json } = await running.ask('GET', `/v1/data/encoded?prefix=${encodeURIComponent(key)}`, {
        as: running.alice,
      });
      expect(json.items.map((item: { key: string }) => item.key)).toEqual([key]);
    }
  });
});

describe('paths', () => {
  test.each([
    ['/v1/agents/%zz', 400],
    ['/v1/agents/%ff%fe', 400],
    ['/v1/agents/abc', 404],
    [`/v1/agents/${'g'.repeat(64)}`, 404],
    [`/v1/agents/${'0'.repeat(64)}`, 404],
    [`/v1/agents/${'0'.repeat(63)}%00`, 400],
    ['/v1/agents/..%2f..%2fmetrics', 404],
    ['/v1/agents/%2e%2e%2f%2e%2e%2fmetrics', 404],
    ['/v1/agents//', 404],
    ['/v1//agents', 404],
    ['/v1/agents/', 400],
    ['/v1/agents?limit=0', 400],
    ['/v1/agents?limit=-1', 400],
    ['/v1/agents?limit=1e3', 400],
    ['/v1/agents?limit=9007199254740993000', 400],
    ['/v1/agents?limit=10&limit=20', 400],
    ['/v1/agents?cursor=nonsense', 400],
    ['/v1/agents?unknown=1', 400],
    ['/v1/agents?__proto__=1', 400],
    ['/v1/agents?status=asleep', 400],
    ['/v1/agents?name=', 400],
    ['/v1/agents?name=%00', 400],
    [`/v1/agents?name=${'x'.repeat(3_000)}`, 400],
    ['/v1/agents?label=', 400],
    ['/v1/agents?label==x', 400],
    ['/v1/agents?label=a%00', 400],
    [`/v1/agents?label=a=${'x'.repeat(3_000)}`, 400],
    ['/v1/workspaces?name=%00', 400],
    ['/v1/workspaces?path=%00', 400],
    ['/v1/changes?since=abc', 400],
    ['/v1/changes?since=999999999', 400],
    ['/v1/changes?since=0123456789ab-999999999', 410],
    ['/v1/changes?topics=DROP%20TABLE', 400],
    [`/v1/users/${'a'.repeat(9_000)}`, 400],
    ['/v1/users/~!!!', 400],
    ['/v1/users/~', 400],
  ])('GET %s is %i', async (path, status) => {
    const answer = await running.bytes(rawRequest(`GET ${path} HTTP/1.1`, []));
    expect(answer.split('\r\n', 1)[0]).toContain(` ${status} `);
    expect(answer.toLowerCase()).toContain('content-type: application/problem+json');
    expect(answer.toLowerCase()).toContain('request-id: ');
  });

  test('a cursor whose key no list could have written is a 400', async () => {
    const list = '/v1/users/alice/tokens';
    const { json: page } = await running.ask('GET', `${list}?limit=1`, { as: running.operator });
    const tag = Buffer.from(page.next_cursor, 'base64url').subarray(0, 4);
    for (const length of [1, 9, 11, 3_000]) {
      const forged = Buffer.concat([tag, Buffer.alloc(length)]).toString('base64url');
      expect(
        (await running.ask('GET', `${list}?cursor=${forged}`, { as: running.operator })).json,
      ).toMatchObject({ code: 'invalid_cursor', status: 400 });
    }
    expect(
      (await running.ask('GET', `/v1/inspect/agents?prefix=${'00'.repeat(2_500)}`, { as: running.operator }))
        .status,
    ).toBe(400);
  });

  test('a limit above the largest is clamped, not refused', async () => {
    expect((await running.ask('GET', '/v1/agents?limit=100000', { as: running.alice })).status).toBe(200);
  });

  test.each(['a/b', '..', '.', '~tilde', 'a b', 'ä/ö', '%2F', 'a?b#c', 'tokens', '../status'])(
    'a user named %j reaches its own route and no other',
    async (user) => {
      const segment = `~${Buffer.from(user).toString('base64url')}`;
      const put = await running.ask('PUT', `/v1/users/${segment}`, {
        as: running.operator,
        body: { email: 'x@example.org' },
      });
      expect(put.status, put.text).toBe(200);
      expect(put.json.user).toBe(user);
      if (/^[^.~]/.test(user))
        expect(
          (await running.ask('GET', `/v1/users/${encodeURIComponent(user)}`, { as: running.operator })).json
            .user,
        ).toBe(user);
    },
  );
});

describe('headers', () => {
  test.each([
    ['Stoa-User', '%zz'],
    ['Stoa-User', '%ff'],
    ['Stoa-User', '%00'],
    ['Stoa-User', 'a'.repeat(300)],
    ['Stoa-Agent', '%0a'],
    ['Stoa-Agent', 'a'.repeat(300)],
    ['Stoa-Fence', '-1'],
    ['Stoa-Fence', '1.5'],
    ['Stoa-Fence', 'abc'],
  ])('%s: %s is a 400', async (name, value) => {
    const reply = await running.ask('GET', '/v1/agents', {
      as: running.operator,
      headers: { [name]: value },
    });
    expect(reply.status).toBe(400);
  });

  test('the agent and the user are percent-encoded UTF-8', async () => {
    const reply = await running.ask('POST', '/v1/agents', {
      as: running.operator,
      body: { name: 'x' },
      headers: { 'stoa-user': encodeURIComponent('zoë/1'), 'stoa-agent': encodeURIComponent('späher') },
    });
    expect(reply.status).toBe(201);
    expect(reply.json.user).toBe('zoë/1');
  });

  test.each(['Stoa-User', 'Stoa-Agent', 'Stoa-Fence'])(
    '%s given twice is a 400, not a third name',
    async (name) => {
      const answer = await running.bytes(rawRequest('GET /v1/agents HTTP/1.1', [`${name}: 1`, `${name}: 2`]));
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer).toContain(`The request has more than one ${name} header.`);
    },
  );

  test('headers beyond the limit are 431', async () => {
    const answer = await running.bytes(
      rawRequest('GET /v1/agents HTTP/1.1', [`X-Large: ${'a'.repeat(20_000)}`]),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
    expect(answer).toContain('"code":"headers_too_large"');
    expect(answer).toContain('exceeds 16,384 bytes (headerBytesMax).');
  });

  test('the last of very many headers counts like the first', async () => {
    const many = Array.from({ length: 3_000 }, () => 'a:');
    const put = (condition: string) =>
      running.bytes(
        rawRequest(
          'PUT /v1/data/headers/last HTTP/1.1',
          [...many, 'Content-Type: application/json', 'Content-Length: 11', condition],
          '{"value":1}',
        ),
      );
    expect(await put('If-Match: "7"')).toMatch(/^HTTP\/1\.1 412 /);
    expect(await put('If-None-Match: *')).toMatch(/^HTTP\/1\.1 201 /);
  });

  test('an unknown Expect header is ignored', async () => {
    const answer = await running.bytes(rawRequest('GET /v1/agents HTTP/1.1', ['Expect: miracles']));
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer.toLowerCase()).toContain('request-id: ');
  });

  test('a request that arrives too slowly is a 408, soon after the limit', async () => {
    const answer = await impatient.bytes('GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(answer).toContain('seconds (requestSecondsMax).');
  });

  test('bytes that are not HTTP get a 400, and the connection is closed', async () => {
    const answer = await running.bytes('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n');
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('application/problem+json');
  });

  test('two lengths that differ are refused', async () => {
    const answer = await running.bytes(
      rawRequest(
        'POST /v1/agents HTTP/1.1',
        ['Content-Type: application/json', 'Content-Length: 12', 'Content-Length: 13'],
        '{"name":"a"}',
      ),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  });

  test('two bearer tokens in one header count as none', async () => {
    const reply = await running.ask('GET', '/v1/agents', {
      headers: { authorization: `Bearer ${running.alice}, Bearer ${running.bob}` },
    });
    expect(reply.status).toBe(401);
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
