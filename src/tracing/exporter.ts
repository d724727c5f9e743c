/** Sends spans to a collector in batches. A collector that is away costs spans, never requests. */
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { StoaError, messageOf } from '../core/errors.js';
import type { TracingConfig } from './environment.js';
import { otlpBody } from './otlp.js';
import type { Span } from './span.js';

const compress = promisify(gzip);
/** Answers that ask for another try. */
const retried: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const attemptsMax = 3;
const pauseMs = 500;
const pauseMsMax = 10_000;

export interface ExporterOptions {
  config: TracingConfig;
  version: string;
  /** Told when a batch is lost, and not again until one has arrived. */
  onError: (error: unknown, about: string) => void;
}

export class Exporter {
  readonly #options: ExporterOptions;
  readonly #closed = new AbortController();
  #queue: Span[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #lost = 0;
  #isAway = false;

  constructor(options: ExporterOptions) {
    this.#options = options;
  }

  /** Keeps the span for the next batch; drops it where too many wait. */
  add(span: Span): void {
    const { queueMax, batchMax, delayMs } = this.#options.config;
    if (this.#queue.length >= queueMax) {
      this.#lost += 1;
      return;
    }
    this.#queue.push(span);
    if (this.#queue.length >= batchMax) this.#send();
    else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => this.#send(), delayMs);
      this.#timer.unref();
    }
  }

  /** Sends what waits, and gives up on a collector that does not answer in time. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#sending;
    this.#send();
    await this.#sending;
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // One at a time: what comes meanwhile waits.
    if (this.#sending !== undefined || this.#queue.length === 0) return;
    this.#sending = this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
  }

  async #sendAll(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, this.#options.config.batchMax);
      try {
        await this.#post(batch);
        this.#isAway = false;
      } catch (error) {
        this.#lost += batch.length;
        this.#tell(error);
      }
    }
  }

  #tell(error: unknown): void {
    if (!this.#isAway) this.#options.onError(error, `sending traces (${this.#lost} spans lost so far)`);
    this.#isAway = true;
  }

  async #post(batch: readonly Span[]): Promise<void> {
    const { config, version } = this.#options;
    const text = otlpBody(batch, { resource: config.resource, version });
    const body = config.gzip ? new Uint8Array(await compress(text)) : text;
    const headers = {
      ...config.headers,
      'content-type': 'application/json',
      ...(config.gzip && { 'content-encoding': 'gzip' }),
    };
    for (let attempt = 1; ; attempt += 1) {
      const { answer, failure } = await this.#try(headers, body);
      if (answer?.ok === true) return;
      const isLast =
        attempt === attemptsMax ||
        this.#closed.signal.aborted ||
        (answer !== undefined && !retried.has(answer.status));
      if (isLast)
        throw (
          failure ??
          new StoaError('backend_unavailable', `The collector answered ${answer?.status}.`, {
            fix: 'Look at OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS.',
          })
        );
      const wishedMs = Number(answer?.headers.get('retry-after') ?? 0) * 1_000;
      await this.#pause(Math.min(pauseMsMax, wishedMs > 0 ? wishedMs : pauseMs * 2 ** (attempt - 1)));
    }
  }

  /** Cut short by the close: then one try is left. */
  async #pause(ms: number): Promise<void> {
    const { signal } = this.#closed;
    try {
      await pause(ms, undefined, { ref: false, signal });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #try(
    headers: Record<string, string>,
    body: string | Uint8Array<ArrayBuffer>,
  ): Promise<{ answer?: Response; failure?: StoaError }> {
    const { url, timeoutMs } = this.#options.config;
    try {
      const answer = await fetch(url, {
        method: 'POST',
        headers,
        body,
        signal: AbortSignal.timeout(timeoutMs),
      });
      // Read to its end, so that the connection can be used again.
      await answer.arrayBuffer();
      return { answer };
    } catch (error) {
      return {
        failure: new StoaError(
          'backend_unavailable',
          `No collector answers at ${new URL(url).origin}: ${messageOf(error)}.`,
          { cause: error, fix: 'Look at OTEL_EXPORTER_OTLP_ENDPOINT.' },
        ),
      };
    }
  }
}
