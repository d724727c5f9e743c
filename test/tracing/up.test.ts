/** Traces of a real server, with OpenTelemetry's own SDK registered as docs/operations.md shows. */
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { useProgram } from '../cli/program.js';
import { sharedHome } from '../servers/shared.js';
import { Collector } from './collector.js';

const { stoa, up, path } = useProgram();
const trace = '0af7651916cd43dd8448eb211c80319c';
const parent = 'b7ad6b7169203331';
let collector: Collector;

beforeAll(async () => {
  const page = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const [, code = ''] = /^### Traces$.*?^```js$(.*?)^```$/ms.exec(page) ?? [];
  expect(code).toContain('provider.register()');
  await writeFile(path('tracing.mjs'), code);
  await symlink(new URL('../node_modules', import.meta.url), path('node_modules'));
});
beforeEach(async () => {
  collector = await Collector.start();
});
afterEach(() => collector.stop());

function environment(more: Record<string, string> = {}): Record<string, string> {
  return {
    STOA_TRACING: 'true',
    NODE_OPTIONS: '--import ./tracing.mjs',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    ...more,
  };
}

function ask(
  server: { url: string; token: string },
  method: string,
  route: string,
  headers: Record<string, string> = {},
  body?: unknown,
): Promise<Response> {
  return fetch(server.url + route, {
    method,
    headers: {
      authorization: `Bearer ${server.token}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

describe('a server with traces', () => {
  test('reports each request by its route, its status and the kind of its caller, below the trace of the caller', async () => {
    const server = await up(path('reported'), [], environment());
    await ask(
      server,
      'PUT',
      '/v1/data/hidden-space/hidden-key',
      { traceparent: `00-${trace}-${parent}-01`, tracestate: 'other=1', 'stoa-user': 'hidden-user' },
      { value: 'hidden-value' },
    );
    await ask(server, 'GET', '/v1/agents/00', { 'stoa-agent': 'hidden-agent' });
    await fetch(`${server.url}/livez`);
    await fetch(`${server.url}/nothing/hidden-path?hidden=query`);
    expect(await server.end('SIGTERM')).toBe(0);

    const [put] = collector.named('PUT /v1/data/{namespace}/{key}');
    expect(put).toMatchObject({
      traceId: trace,
      parentSpanId: parent,
      traceState: 'other=1',
      kind: 2,
      status: {},
      facts: {
        'http.request.method': 'PUT',
        'http.route': '/v1/data/{namespace}/{key}',
        'stoa.principal': 'operator',
        'url.scheme': 'http',
      },
      resource: { 'service.name': 'stoa' },
    });
    expect([200, 201]).toContain(put?.facts['http.response.status_code']);
    expect(BigInt(put?.endTimeUnixNano ?? 0)).toBeGreaterThan(BigInt(put?.startTimeUnixNano ?? 0));

    const below = collector.spans.filter(({ parentSpanId }) => parentSpanId === put?.spanId);
    expect(below.length).toBeGreaterThan(0);
    expect(below).toContainEqual(
      expect.objectContaining({
        name: 'kernel.transact',
        traceId: trace,
        kind: 1,
        facts: expect.objectContaining({
          'stoa.shard': 0,
          'stoa.engine': 'lmdb',
          'stoa.group.transactions': expect.any(Number),
        }),
      }),
    );

    expect(collector.named('GET /v1/agents/{agent_id}')).toMatchObject([
      { facts: { 'http.response.status_code': 404 }, status: {} },
    ]);
    const [alive] = collector.named('GET /livez');
    expect(alive).toMatchObject({ facts: { 'stoa.principal': 'anyone', 'http.response.status_code': 200 } });
    expect(alive?.parentSpanId).toBeUndefined();
    expect(alive?.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(collector.named('GET')).toMatchObject([{ facts: { 'http.response.status_code': 404 } }]);

    for (const secret of [server.token, 'hidden']) expect(collector.text).not.toContain(secret);
  });

  test('reports calls to a database outside, below the request', async () => {
    const home = await sharedHome();
    const server = await up(path('outside'), home.args, { ...environment(), ...home.environment });
    expect((await ask(server, 'PUT', '/v1/data/notes/a', {}, { value: 1 })).ok).toBe(true);
    expect(await server.end('SIGTERM')).toBe(0);
    const [put] = collector.named('PUT /v1/data/{namespace}/{key}');
    const calls = collector.spans.filter(
      ({ parentSpanId, kind }) => parentSpanId === put?.spanId && kind === 3,
    );
    expect(calls.length).toBeGreaterThan(0);
    expect(calls[0]).toMatchObject({
      facts: { 'db.system.name': 'postgres', 'db.operation.name': expect.stringMatching(/^home\./) },
    });
  });

  test('does not record a trace that the caller does not sample', async () => {
    const follows = await up(path('follows'), [], environment());
    await fetch(`${follows.url}/livez`, { headers: { traceparent: `00-${trace}-${parent}-00` } });
    await fetch(`${follows.url}/readyz`, { headers: { traceparent: `00-${'0'.repeat(32)}-${parent}-01` } });
    expect(await follows.end('SIGTERM')).toBe(0);
    expect(collector.spans.map(({ name }) => name)).toEqual(['GET /readyz']);
    expect(collector.spans[0]?.traceId).not.toBe('0'.repeat(32));
  });

  test('marks transactions that failed by the code of the error', async () => {
    const server = await up(path('failed'), [], environment());
    const post = () => ask(server, 'POST', '/v1/workspaces', {}, { name: 'twice' });
    await post();
    expect((await post()).status).toBe(409);
    expect(await server.end('SIGTERM')).toBe(0);
    expect(
      collector.named('kernel.transact').filter(({ facts }) => facts['error.type'] === 'already_exists'),
    ).toMatchObject([{ status: { code: 2 } }]);
  });

  test('serves requests and stops while no collector answers', async () => {
    const server = await up(
      path('alone'),
      [],
      environment({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_BSP_SCHEDULE_DELAY: '1' }),
    );
    for (let index = 0; index < 5; index += 1) expect((await fetch(`${server.url}/livez`)).status).toBe(200);
    expect(await server.end('SIGTERM')).toBe(0);
  });
});

test('a server without the setting makes no spans', async () => {
  const server = await up(path('off'), [], environment({ STOA_TRACING: 'false' }));
  await fetch(`${server.url}/livez`);
  expect(await server.end('SIGTERM')).toBe(0);
  expect(collector.spans).toEqual([]);
});

test('a server with the setting and without a registered SDK does not start', async () => {
  const ended = await stoa(['up', '--data', path('refused'), '--port', '0', '--json'], {
    environment: environment({ NODE_OPTIONS: '' }),
  });
  expect(ended.status).toBe(2);
  expect(ended.error()).toMatchObject({
    code: 'invalid_config',
    detail: 'The setting tracing is on, but no OpenTelemetry SDK is registered.',
    fix: expect.stringContaining('NODE_OPTIONS="--import ./tracing.mjs"'),
  });
});
