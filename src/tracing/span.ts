/** One piece of work in a trace: from when to when, under which name, with what facts. */
import { randomBytes } from 'node:crypto';

export type Fact = string | number | boolean;
/** As OTLP numbers them. */
export const spanKinds = { internal: 1, server: 2, client: 3 } as const;

export interface SpanOptions {
  traceId: string;
  parentId: string | null;
  traceState: string;
  name: string;
  kind: keyof typeof spanKinds;
  facts?: Readonly<Record<string, Fact>>;
  /** Milliseconds ago that it began, for work that is told of when it is done. */
  agoMs?: number;
}

export class Span {
  readonly id = randomBytes(8).toString('hex');
  readonly traceId: string;
  readonly parentId: string | null;
  readonly traceState: string;
  readonly kind: keyof typeof spanKinds;
  readonly startedNs: bigint;
  readonly facts: Record<string, Fact>;
  readonly startedMs: number;
  name: string;
  endedNs: bigint | undefined;
  failed = false;

  constructor({ traceId, parentId, traceState, name, kind, facts, agoMs = 0 }: SpanOptions) {
    this.traceId = traceId;
    this.parentId = parentId;
    this.traceState = traceState;
    this.name = name;
    this.kind = kind;
    this.facts = { ...facts };
    this.startedMs = performance.now() - agoMs;
    this.startedNs = nanoseconds(Date.now()) - nanoseconds(agoMs);
  }

  /** The clock of the process says how long it took: the wall clock may be set meanwhile. */
  end(): void {
    this.endedNs ??= this.startedNs + nanoseconds(performance.now() - this.startedMs);
  }
}

function nanoseconds(ms: number): bigint {
  return BigInt(Math.max(0, Math.round(ms * 1e6)));
}
