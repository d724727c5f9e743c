import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Running } from '../running.js';
import { rawRequest } from './raw-request.js';

let running: Running;
let impatient: Running;

beforeAll(async () => {
  impatient = await Running.start({ limits: { requestSecondsMax: 0.2 } });
  running = await Running.start({ limits: { headerBytesMax: 16_384 } });
});
afterAll(() => Promise.all([running.stop(), impatient.stop()]));

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
    const answer = await running.bytes(rawRequest(running, `GET ${path} HTTP/1.1`, []));
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
      const answer = await running.bytes(
        rawRequest(running, 'GET /v1/agents HTTP/1.1', [`${name}: 1`, `${name}: 2`]),
      );
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer).toContain(`The request has more than one ${name} header.`);
    },
  );

  test('headers beyond the limit are 431', async () => {
    const answer = await running.bytes(
      rawRequest(running, 'GET /v1/agents HTTP/1.1', [`X-Large: ${'a'.repeat(20_000)}`]),
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
          running,
          'PUT /v1/data/headers/last HTTP/1.1',
          [...many, 'Content-Type: application/json', 'Content-Length: 11', condition],
          '{"value":1}',
        ),
      );
    expect(await put('If-Match: "7"')).toMatch(/^HTTP\/1\.1 412 /);
    expect(await put('If-None-Match: *')).toMatch(/^HTTP\/1\.1 201 /);
  });

  test('an unknown Expect header is ignored', async () => {
    const answer = await running.bytes(rawRequest(running, 'GET /v1/agents HTTP/1.1', ['Expect: miracles']));
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
        running,
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

test('the server still works after all of these requests', async () => {
  expect((await running.ask('GET', '/readyz')).status).toBe(200);
});
