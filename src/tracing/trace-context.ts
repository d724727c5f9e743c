/** W3C Trace Context: which trace a request belongs to, as its caller says. */

export interface TraceContext {
  traceId: string;
  spanId: string;
  sampled: boolean;
  /** What other systems along the way have noted; handed on as it came. */
  traceState: string;
}

const shape = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const traceStateCharactersMax = 512;

/** Undefined where there is none, or one that makes no sense: then a trace begins here. */
export function traceContextOf(traceparent: unknown, tracestate: unknown): TraceContext | undefined {
  const parts = typeof traceparent === 'string' ? shape.exec(traceparent) : null;
  if (parts === null) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = parts;
  if (
    version === 'ff' ||
    (version === '00' && more !== undefined) ||
    /^0+$/.test(traceId) ||
    /^0+$/.test(spanId)
  )
    return undefined;
  const traceState =
    typeof tracestate === 'string' && tracestate.length <= traceStateCharactersMax ? tracestate : '';
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1, traceState };
}
