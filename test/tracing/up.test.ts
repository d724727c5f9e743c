/** Traces of a real server, as a collector gets them. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useProgram } from '../cli/program.js';
import { sharedPostgres } from '../servers/shared.js';
import { Collector } from './collector.js';

const { stoa, up, path } = useProgram();
const trace = '0af7651916cd43dd8448eb211c80319c';
const parent = 'b7ad6b7169203331';
let collector: Collector;

beforeEach(async () => {
  collector = await Collector.start();
});
afterEach(() => collector.stop());

function environment(more: Record<string, string> = {}): Record<string, string> {
  return { STOA_TRACING: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...more };
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
  test('tells of each request by its route, its status and the kind of its caller, below the trace of the caller', async () => {
    const server = await up(
      path('told'),
      [],
      environment({
        OTEL_SERVICE_NAME: 'plane',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test%20bench',
      }),
    );
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
      resource: { 'service.name': 'plane', 'deployment.environment.name': 'test bench' },
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
      { facts: { 'http.response.status_code': 400 }, status: {} },
    ]);
    const [alive] = collector.named('GET /livez');
    expect(alive).toMatchObject({ facts: { 'stoa.principal': 'anyone', 'http.response.status_code': 200 } });
    expect(alive?.parentSpanId).toBeUndefined();
    expect(alive?.traceId).toMatch(/^[0-9a-f]{32}$/);
    expect(collector.named('GET')).toMatchObject([{ facts: { 'http.response.status_code': 404 } }]);

    for (const secret of [server.token, 'hidden']) expect(collector.text).not.toContain(secret);
    expect(collector.requests[0]).toMatchObject({
      path: '/v1/traces',
      headers: { 'content-type': 'application/json' },
    });
  });

  test('tells of calls to a database outside, below the request', async () => {
    const { url } = await sharedPostgres();
    const server = await up(path('outside'), ['--datastore', url], environment());
    expect((await ask(server, 'PUT', '/v1/data/notes/a', {}, { value: 1 })).ok).toBe(true);
    expect(await server.end('SIGTERM')).toBe(0);
    const [put] = collector.named('PUT /v1/data/{namespace}/{key}');
    const calls = collector.spans.filter(
      ({ parentSpanId, kind }) => parentSpanId === put?.spanId && kind === 3,
    );
    expect(calls.length).toBeGreaterThan(0);
    expect(calls[0]).toMatchObject({
      facts: { 'db.system.name': 'postgres', 'db.operation.name': expect.stringMatching(/^data\./) },
    });
  });

  test('sends headers and compressed batches where it should, and tries again when the collector asks for it', async () => {
    collector.answers.push(503);
    const server = await up(
      path('sent'),
      [],
      environment({
        OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/own/path`,
        OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b',
        OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
        OTEL_BSP_SCHEDULE_DELAY: '10',
      }),
    );
    await fetch(`${server.url}/livez`);
    await expect.poll(() => collector.named('GET /livez').length, { timeout: 20_000 }).toBe(1);
    expect(collector.requests).toMatchObject([
      { path: '/own/path', headers: { 'x-key': 'a b', 'content-encoding': 'gzip' } },
      { path: '/own/path' },
    ]);
    expect(await server.end('SIGTERM')).toBe(0);
  });

  test('leaves out what its caller does not record, and records what it is told to', async () => {
    const follows = await up(path('follows'), [], environment());
    await fetch(`${follows.url}/livez`, { headers: { traceparent: `00-${trace}-${parent}-00` } });
    await fetch(`${follows.url}/readyz`, { headers: { traceparent: `00-${'0'.repeat(32)}-${parent}-01` } });
    expect(await follows.end('SIGTERM')).toBe(0);
    expect(collector.spans.map(({ name }) => name)).toEqual(['GET /readyz']);
    expect(collector.spans[0]?.traceId).not.toBe('0'.repeat(32));

    const never = await up(
      path('never'),
      [],
      environment({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' }),
    );
    await fetch(`${never.url}/livez`, { headers: { traceparent: `00-${trace}-${parent}-01` } });
    expect(await never.end('SIGTERM')).toBe(0);
    expect(collector.spans).toHaveLength(1);
  });

  test('answers all the same when no collector does, says so once, and ends', async () => {
    const server = await up(
      path('alone'),
      [],
      environment({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1', OTEL_BSP_SCHEDULE_DELAY: '1' }),
    );
    const told = () =>
      server
        .stderr()
        .split('\n')
        .filter((line) => line.includes('sending traces'));
    for (let index = 0; index < 5; index += 1) expect((await fetch(`${server.url}/livez`)).status).toBe(200);
    await expect.poll(told, { timeout: 20_000 }).toHaveLength(1);
    for (let index = 0; index < 5; index += 1) expect((await fetch(`${server.url}/livez`)).status).toBe(200);
    expect(await server.end('SIGTERM')).toBe(0);
    expect(told()).toHaveLength(1);
  });
});

describe('a server without traces', () => {
  test.each([
    ['by default', {}],
    ['where OpenTelemetry is switched off', { STOA_TRACING: 'true', OTEL_SDK_DISABLED: 'true' }],
    ['where no exporter is wanted', { STOA_TRACING: 'true', OTEL_TRACES_EXPORTER: 'none' }],
  ])('sends none %s', async (name, more) => {
    const server = await up(path(`off ${name}`), [], { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...more });
    await fetch(`${server.url}/livez`);
    expect(await server.end('SIGTERM')).toBe(0);
    expect(collector.requests).toEqual([]);
  });
});

test.each([
  ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc'],
  ['OTEL_TRACES_EXPORTER', 'zipkin'],
  ['OTEL_TRACES_SAMPLER', 'sometimes'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'localhost:4318'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'nonsense'],
  ['OTEL_BSP_SCHEDULE_DELAY', '-1'],
])('a server that cannot do what %s=%s says does not start', async (variable, value) => {
  const ended = await stoa(['up', '--data', path('refused'), '--port', '0', '--json'], {
    environment: { ...environment(), [variable]: value },
  });
  expect(ended.status).toBe(2);
  expect(ended.error()).toMatchObject({
    code: 'invalid_config',
    detail: expect.stringContaining(variable),
    fix: expect.any(String),
  });
});
