/** A span for each request: its route, its outcome and what kind of caller asked. Never a path, a token or a body. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Span } from '../tracing/span.js';
import { traceContextOf } from '../tracing/trace-context.js';
import type { Tracer } from '../tracing/tracer.js';

export function traceRequests(app: FastifyInstance, tracer: Tracer): void {
  const spans = new WeakMap<FastifyRequest, Span>();
  app.addHook('onRequest', (request, reply, done) => {
    const { traceparent, tracestate } = request.headers;
    const route = request.routeOptions.config.route?.path;
    const span = tracer.begin(
      route === undefined ? request.method : `${request.method} ${route}`,
      traceContextOf(traceparent, tracestate),
    );
    if (span === undefined) return done();
    spans.set(request, span);
    // Also for answers that were cut short, and for streams, which end with their connection.
    reply.raw.once('close', () =>
      tracer.end(span, factsOf(request, reply, route), reply.raw.statusCode >= 500),
    );
    return tracer.run(span, done);
  });
  // A body arrives outside of what the first hook began.
  app.addHook('preHandler', (request, _reply, done) => {
    const span = spans.get(request);
    if (span === undefined) done();
    else tracer.run(span, done);
  });
}

function factsOf(
  request: FastifyRequest,
  { raw }: FastifyReply,
  route: string | undefined,
): Record<string, string | number> {
  return {
    'http.request.method': request.method,
    ...(route !== undefined && { 'http.route': route }),
    'http.response.status_code': raw.statusCode,
    'url.scheme': request.protocol,
    'network.protocol.version': request.raw.httpVersion,
    'stoa.principal': request.caller?.kind ?? 'anyone',
    'stoa.request_id': request.id,
    ...(raw.statusCode >= 500 && { 'error.type': String(raw.statusCode) }),
  };
}
