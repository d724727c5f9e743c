import { expect, test } from 'vitest';
import { traceContextOf } from '../../src/tracing/trace-context.js';

const trace = '0af7651916cd43dd8448eb211c80319c';
const span = 'b7ad6b7169203331';

test("a traceparent names the trace, the caller's span and whether it is recorded", () => {
  expect(traceContextOf(`00-${trace}-${span}-01`, 'a=1')).toEqual({
    traceId: trace,
    spanId: span,
    sampled: true,
    traceState: 'a=1',
  });
  expect(traceContextOf(`00-${trace}-${span}-00`, undefined)).toEqual({
    traceId: trace,
    spanId: span,
    sampled: false,
    traceState: '',
  });
  expect(traceContextOf(`cc-${trace}-${span}-03-what-comes-later`, undefined)).toMatchObject({
    sampled: true,
  });
});

test.each([
  ['nothing', undefined],
  ['a list', ['x']],
  ['other words', 'hello'],
  ['a version that is forbidden', `ff-${trace}-${span}-01`],
  ['more than its version has', `00-${trace}-${span}-01-more`],
  ['a trace of zeros', `00-${'0'.repeat(32)}-${span}-01`],
  ['a span of zeros', `00-${trace}-${'0'.repeat(16)}-01`],
  ['capitals', `00-${trace.toUpperCase()}-${span}-01`],
])('%s begins a trace of its own', (_what, traceparent) => {
  expect(traceContextOf(traceparent, undefined)).toBeUndefined();
});

test('a tracestate that is too long is left out', () => {
  expect(traceContextOf(`00-${trace}-${span}-01`, 'a'.repeat(513))?.traceState).toBe('');
});
