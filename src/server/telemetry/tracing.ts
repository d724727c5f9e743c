/**
 * Spans through OpenTelemetry's API: one for each request, with child spans for its transactions and database
 * calls. The SDK that the process registered decides which spans are recorded and where they are sent.
 */
import type { Context, Span } from '@opentelemetry/api';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';
import { importOptional } from '../../core/optional-package.js';
import type { GroupFacts, Stoa } from '../../index.js';
import { version } from '../../version.js';

export type OpenTelemetry = typeof import('@opentelemetry/api');

/** The API, after a check that an SDK receives the spans. */
export async function loadTracing(): Promise<OpenTelemetry> {
  // If there are two copies, the SDK's is used: the API ignores an SDK that was registered with an older copy
  // than itself.
  const api = await importOptional<OpenTelemetry>('@opentelemetry/api', 1, 'program');
  const provider = api.trace.getTracerProvider();
  if (provider instanceof api.ProxyTracerProvider && provider.getDelegateTracer('stoa') === undefined)
    throw new StoaError(
      'invalid_config',
      'The setting tracing is on, but no OpenTelemetry SDK is registered.',
      {
        fix: 'Start with NODE_OPTIONS="--import ./tracing.mjs", as docs/operations.md shows, and check that "npm ls @opentelemetry/api" lists one version.',
      },
    );
  return api;
}

/** Adds the spans. Without this call requests and transactions have no cost for tracing. */
export function addTracing(app: FastifyInstance, stoa: Stoa, api: OpenTelemetry): void {
  traceRequests(app, api);
  traceStores(stoa, api);
}

/** The route, the outcome and the kind of caller. Never a path, a token or a body. */
function traceRequests(app: FastifyInstance, api: OpenTelemetry): void {
  const tracer = api.trace.getTracer('stoa', version);
  const contexts = new WeakMap<FastifyRequest, Context>();
  app.addHook('onRequest', (request, reply, done) => {
    const outer = api.context.active();
    // An instrumentation of node:http has already read the caller's headers, and its span is active.
    const parent =
      api.trace.getSpan(outer) === undefined ? api.propagation.extract(outer, request.headers) : outer;
    const route = request.routeOptions.config.route?.path;
    const name = route === undefined ? request.method : `${request.method} ${route}`;
    const span = tracer.startSpan(name, { kind: api.SpanKind.SERVER }, parent);
    // Also for answers that were cut off, and for streams, which end with their connection.
    reply.raw.once('close', () => {
      span.setAttributes(attributesOf(request, reply, route));
      if (reply.raw.statusCode >= 500) fail(api, span, String(reply.raw.statusCode));
      span.end();
    });
    const context = api.trace.setSpan(parent, span);
    contexts.set(request, context);
    api.context.with(context, done);
  });
  // A body arrives outside of the context that the first hook set.
  app.addHook('preHandler', (request, _reply, done) => {
    const context = contexts.get(request);
    if (context === undefined) done();
    else api.context.with(context, done);
  });
}

function attributesOf(request: FastifyRequest, { raw }: FastifyReply, route: string | undefined) {
  return {
    'http.request.method': request.method,
    ...(route !== undefined && { 'http.route': route }),
    'http.response.status_code': raw.statusCode,
    'url.scheme': request.protocol,
    'network.protocol.version': request.raw.httpVersion,
    'stoa.principal': request.caller?.kind ?? 'anyone',
    'stoa.request_id': request.id,
  };
}

function traceStores(stoa: Stoa, api: OpenTelemetry): void {
  const tracer = api.trace.getTracer('stoa', version);
  const isTraced = () => api.trace.getActiveSpan()?.isRecording() === true;
  let last: { group: GroupFacts; atMs: number } | undefined;
  stoa.onGroup((group) => {
    last = { group, atMs: performance.now() };
  });
  stoa.home.onTransact((attributes) => {
    if (!isTraced()) return undefined;
    const startedMs = performance.now();
    const span = tracer.startSpan('kernel.transact', { attributes });
    return (failure) => {
      // With several shards the shard of the last group is unknown.
      if (last !== undefined && last.atMs >= startedMs && stoa.home.operations.facts().shards === 1)
        span.setAttributes({
          'stoa.group.transactions': last.group.transactions,
          'stoa.group.bytes': last.group.sizeBytes,
          'stoa.group.commit_ms': last.group.commitMs,
        });
      if (failure !== undefined) fail(api, span, codeOf(failure));
      span.end();
    };
  });
  stoa.onBackendCall(({ domain, backend, verb, milliseconds, failed }) => {
    if (!isTraced()) return;
    const span = tracer.startSpan(`${backend} ${domain}.${verb}`, {
      kind: api.SpanKind.CLIENT,
      startTime: Date.now() - milliseconds,
      attributes: { 'db.system.name': backend, 'db.operation.name': `${domain}.${verb}` },
    });
    if (failed) span.setStatus({ code: api.SpanStatusCode.ERROR });
    span.end();
  });
}

function fail(api: OpenTelemetry, span: Span, type: string): void {
  span.setAttribute('error.type', type).setStatus({ code: api.SpanStatusCode.ERROR });
}

/** The code of an error, because its sentence may contain keys. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'internal';
}
