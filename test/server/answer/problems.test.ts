import { afterAll, beforeAll, expect, test } from 'vitest';
import { StoaError, errorKinds } from '../../../src/core/errors.js';
import type { RouteGroup } from '../../../src/server/group.js';
import { problemSchema } from '../../../src/server/answer/problem.js';
import { anyone } from '../../../src/api/operation.js';
import { answer, routesOf } from '../../../src/server/route.js';
import { routeGroups } from '../../../src/server/routes/index.js';
import { z } from 'zod';
import { Running } from '../running.js';

const codes = Object.keys(errorKinds) as (keyof typeof errorKinds)[];

const faults: RouteGroup = {
  routes: routesOf(
    'test',
    {
      fail: { method: 'GET', path: '/fault/{code}', summary: 'Throws', principals: anyone },
      undeclared: {
        method: 'GET',
        path: '/undeclared',
        summary: 'Answers a status that it does not declare',
        principals: anyone,
      },
    },
    {
      fail: { params: z.object({ code: z.string() }), answers: { 200: z.object({}) } },
      undeclared: { answers: { 200: z.object({}) } },
    },
    {
      fail: ({ params: { code } }) => {
        if (code === 'bug') throw new TypeError('secret internals');
        throw new StoaError(code as keyof typeof errorKinds, 'A sentence.', {
          fix: 'A fix.',
          details: { from: 'a', to: 'b' },
        });
      },
      undeclared: () => answer(202, {}),
    },
  ),
};

/** Answers in a different shape, as messaging does. */
const plain: RouteGroup = {
  owns: (path) => path.startsWith('/plain'),
  writeError: (error, _request, reply) => reply.code(error.status).send({ error: error.message }),
  onRequest: (_request, reply) => void reply.header('access-control-allow-origin', '*'),
  routes: routesOf(
    'plain',
    { name: { method: 'POST', path: '/plain', summary: 'Takes a name', principals: anyone } },
    { name: { body: z.object({ name: z.string() }), answers: { 200: z.object({}) } } },
    { name: () => ({}) },
  ),
};

let running: Running;
beforeAll(async () => {
  running = await Running.start({}, { groups: [...routeGroups, faults, plain] });
});
afterAll(() => running.stop());

test.each(codes)('the code %s has its status, title, detail and fix on the wire', async (code) => {
  const reply = await running.ask('GET', `/fault/${code}`);
  expect(reply.status).toBe(errorKinds[code].status);
  expect(reply.headers.get('content-type')).toBe('application/problem+json; charset=utf-8');
  expect(problemSchema.strict().parse(reply.json)).toEqual({
    type: `/reference#${code}`,
    title: errorKinds[code].title,
    status: errorKinds[code].status,
    code,
    detail: 'A sentence.',
    fix: 'A fix.',
    details: { from: 'a', to: 'b' },
    request_id: reply.headers.get('request-id'),
  });
});

test('an internal error does not reveal its cause', async () => {
  const reply = await running.ask('GET', '/fault/bug');
  expect(reply.status).toBe(500);
  expect(reply.json.code).toBe('internal');
  expect(reply.text).not.toContain('secret internals');
});

test('a temporary error has Retry-After', async () => {
  for (const code of codes) {
    const { status, headers } = await running.ask('GET', `/fault/${code}`);
    expect([code, headers.get('retry-after')]).toEqual([code, status === 503 ? '1' : null]);
  }
});

test('a status that the route does not declare is a fault, not an answer', async () => {
  expect((await running.ask('GET', '/undeclared')).status).toBe(500);
});

test('an unknown path is 404, a wrong method 405 with Allow', async () => {
  expect((await running.ask('GET', '/v1/nothing')).json).toMatchObject({ code: 'not_found', status: 404 });
  const wrong = await running.ask('DELETE', '/v1/status', { as: running.operator });
  expect(wrong.json).toMatchObject({ code: 'method_not_allowed', status: 405, fix: 'Use GET, HEAD.' });
  expect(wrong.headers.get('allow')).toBe('GET, HEAD');
});

test('401 names the scheme', async () => {
  const reply = await running.ask('GET', '/v1/status');
  expect(reply.status).toBe(401);
  expect(reply.headers.get('www-authenticate')).toBe('Bearer realm="stoa"');
  expect(reply.json.fix).toContain('operator.token');
});

test('every answer carries the headers that keep browsers careful', async () => {
  for (const path of ['/livez', '/v1/status', '/nothing', '/metrics', '/reference']) {
    const { headers } = await running.ask('GET', path);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(headers.get('request-id')).toBeTruthy();
  }
});

test('a browser neither reinterprets nor renders the JSON of /v1', async () => {
  const { status, headers } = await running.ask('GET', '/v1/agents', { as: running.alice });
  expect(status).toBe(200);
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('content-security-policy')).toBe("default-src 'none'; frame-ancestors 'none'");
  expect(headers.get('request-id')).toBeTruthy();
});

test.each([
  ['POST', '/plain', 'not json', 400],
  ['POST', '/plain', '{"nam":1}', 400],
  ['GET', '/plain', undefined, 405],
  ['GET', '/plain/other', undefined, 404],
])('a group with a shape of its own keeps it for %s %s %s', async (method, path, raw, status) => {
  const reply = await running.ask(method, path, {
    ...(raw === undefined ? {} : { raw }),
    headers: { 'content-type': 'application/json' },
  });
  expect(reply.status).toBe(status);
  expect(Object.keys(reply.json)).toEqual(['error']);
  expect(reply.headers.get('access-control-allow-origin')).toBe('*');
  expect(reply.headers.get('request-id')).toBeTruthy();
});

test.each(['/livez', '/reference', '/v1/export'])(
  'HEAD of %s answers like GET, without the body',
  async (path) => {
    const [head, get] = [
      await running.ask('HEAD', path, { as: running.operator }),
      await running.ask('GET', path, { as: running.operator }),
    ];
    expect(get.text).not.toBe('');
    expect(head.text).toBe('');
    expect(head.status).toBe(200);
    for (const name of ['content-type', 'content-length', 'x-content-type-options'])
      expect(head.headers.get(name)).toBe(get.headers.get(name));
  },
);

test.each([
  ['PUT', '/v1/data/default/k', 'body.value'],
  ['POST', '/v1/workspaces', 'body.name'],
  ['POST', '/v1/tasks/task_00000000-0000-7000-8000-000000000000/complete', 'body.fence'],
] as const)('%s %s without what it needs says what is missing', async (method, path, field) => {
  const reply = await running.ask(method, path, { as: running.operator, body: {} });
  expect(reply.json).toMatchObject({
    status: 400,
    detail: `${field} is missing.`,
    errors: [{ field, message: 'is missing' }],
  });
});

test.each([
  [
    'GET',
    '/v1/agents?status=gone',
    undefined,
    'query.status must be provisioning, running, idle, hibernating, stopping, stopped or error, got "gone".',
  ],
  ['POST', '/v1/workspaces', { name: 7 }, 'body.name must be text, got a number.'],
  ['POST', '/v1/find', { q: '' }, 'body.q must have 1 or more characters, got 0.'],
  ['POST', '/v1/users/ada/tokens', { expires_in: 0 }, 'body.expires_in must be 1 or more, got 0.'],
  [
    'POST',
    '/v1/workspaces',
    { name: 'w', claude_key: ['sk-secret'] },
    'body.claude_key must be text, got a list.',
  ],
] as const)('%s %s with %j says the rule and what it got', async (method, path, body, detail) => {
  const reply = await running.ask(method, path, { as: running.operator, ...(body && { body }) });
  expect(reply.json).toMatchObject({ status: 400, detail });
});
