/** Begins and ends spans, and knows which one is under way wherever a request has got to. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import type { Sampler } from './environment.js';
import { type Fact, Span, type SpanOptions } from './span.js';
import type { TraceContext } from './trace-context.js';

export interface TracerOptions {
  sampler: Sampler;
  /** Takes spans that have ended. */
  onEnd: (span: Span) => void;
  close: () => Promise<void>;
}

export class Tracer {
  readonly #options: TracerOptions;
  readonly #active = new AsyncLocalStorage<Span>();

  constructor(options: TracerOptions) {
    this.#options = options;
  }

  /** The span of a request, or undefined where its trace is not recorded. */
  begin(name: string, caller: TraceContext | undefined): Span | undefined {
    const traceId = caller?.traceId ?? randomBytes(16).toString('hex');
    if (!this.#isSampled(traceId, caller)) return undefined;
    return new Span({
      name,
      kind: 'server',
      traceId,
      parentId: caller?.spanId ?? null,
      traceState: caller?.traceState ?? '',
    });
  }

  /** A span below the one that is under way; undefined where none is. */
  beginChild(name: string, options: Pick<SpanOptions, 'kind' | 'facts' | 'agoMs'>): Span | undefined {
    const parent = this.#active.getStore();
    return parent === undefined || parent.endedNs !== undefined
      ? undefined
      : new Span({
          ...options,
          name,
          traceId: parent.traceId,
          parentId: parent.id,
          traceState: parent.traceState,
        });
  }

  /** Everything that `body` starts is below the span. */
  run<T>(span: Span, body: () => T): T {
    return this.#active.run(span, body);
  }

  end(span: Span, facts: Readonly<Record<string, Fact>> = {}, failed = false): void {
    if (span.endedNs !== undefined) return;
    Object.assign(span.facts, facts);
    span.failed = failed;
    span.end();
    this.#options.onEnd(span);
  }

  /** Sends what waits. */
  close(): Promise<void> {
    return this.#options.close();
  }

  #isSampled(traceId: string, caller: TraceContext | undefined): boolean {
    const { followsParent, ratio } = this.#options.sampler;
    if (followsParent && caller !== undefined) return caller.sampled;
    // By the id, so that every system on the way of a trace decides alike.
    return ratio >= 1 || Number.parseInt(traceId.slice(-8), 16) < ratio * 0x1_0000_0000;
  }
}
