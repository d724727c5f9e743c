import { context, trace } from '@opentelemetry/api';
import { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-node';
import { expect, test } from 'vitest';
import { openStoa } from '../../src/index.js';
import { createApp } from '../../src/server/app.js';
import { loadTracing } from '../../src/server/telemetry/tracing.js';

test('if the program already has a span for the request, that span is the parent, not the header', async () => {
  const exporter = new InMemorySpanExporter();
  const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.register();
  const stoa = await openStoa({ data: '', engine: 'memory' });
  const app = createApp(stoa, { tracing: await loadTracing() });

  const outer = trace.getTracer('test').startSpan('outer');
  const headers = { host: '127.0.0.1', traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01` };
  await context.with(trace.setSpan(context.active(), outer), async () =>
    expect((await app.inject({ url: '/livez', headers })).statusCode).toBe(200),
  );
  await expect.poll(() => exporter.getFinishedSpans()).toHaveLength(1);
  const [span] = exporter.getFinishedSpans();
  expect(span?.name).toBe('GET /livez');
  expect(span?.parentSpanContext).toMatchObject({
    traceId: outer.spanContext().traceId,
    spanId: outer.spanContext().spanId,
  });
  await app.close();
  await stoa.close();
  await provider.shutdown();
});
