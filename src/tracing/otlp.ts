/** Spans in the JSON of OTLP. */
import { type Fact, type Span, spanKinds } from './span.js';

export interface OtlpScope {
  resource: Readonly<Record<string, Fact>>;
  version: string;
}

/** The body of one request to a collector. */
export function otlpBody(spans: readonly Span[], { resource, version }: OtlpScope): string {
  const scopeSpans = [{ scope: { name: 'stoa', version }, spans: spans.map(otlpSpan) }];
  return JSON.stringify({
    resourceSpans: [{ resource: { attributes: attributesOf(resource) }, scopeSpans }],
  });
}

function otlpSpan(span: Span): object {
  return {
    traceId: span.traceId,
    spanId: span.id,
    ...(span.parentId !== null && { parentSpanId: span.parentId }),
    ...(span.traceState !== '' && { traceState: span.traceState }),
    // The bit of "sampled": only such spans are sent.
    flags: 1,
    name: span.name,
    kind: spanKinds[span.kind],
    startTimeUnixNano: String(span.startedNs),
    endTimeUnixNano: String(span.endedNs ?? span.startedNs),
    attributes: attributesOf(span.facts),
    status: span.failed ? { code: 2 } : {},
  };
}

function attributesOf(facts: Readonly<Record<string, Fact>>): object[] {
  return Object.entries(facts).map(([key, value]) => ({ key, value: valueOf(value) }));
}

function valueOf(value: Fact): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
