/**
 * The server's metrics for Prometheus. Labels never contain ids, so that the number of series stays small.
 */
import { Counter, Histogram, Registry } from 'prom-client';
import type { Stoa } from '../../index.js';
import { DurationHistogram } from './duration-histogram.js';
import type { EventStreams } from '../answer/event-stream.js';
import { measureProcess } from './process-metrics.js';
import { measureTogether } from './shared-gauges.js';
import { measureStore } from './store-gauges.js';

const secondsBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Log lines that could not be written. */
export interface DroppedLines {
  readonly dropped: number;
}

interface Pending {
  labels: { method: string; route: string; status: string };
  count: number;
}

export class Metrics {
  readonly registry = new Registry();
  readonly #requests: Counter<'method' | 'route' | 'status'>;
  /** The same counter under the name that AICQ's dashboards use. */
  readonly #aicqRequests: Counter<'method' | 'route' | 'status'>;
  readonly #requestSeconds: DurationHistogram;
  /**
   * Requests since the last scrape. They are summed here, because a labelled counter costs as much as a small
   * request.
   */
  readonly #pending = new Map<string, Map<string, Map<number, Pending>>>();

  constructor(stoa: Stoa, streams: EventStreams, log: DroppedLines = { dropped: 0 }) {
    const registers = [this.registry];
    counter(
      registers,
      'stoa_log_lines_dropped_total',
      'Log lines that were dropped because they could not be written at once.',
      () => log.dropped,
    );
    this.#requests = new Counter({
      name: 'stoa_http_requests_total',
      help: 'Requests answered.',
      labelNames: ['method', 'route', 'status'],
      registers,
      collect: () => this.#addPending(),
    });
    this.#aicqRequests = new Counter({
      name: 'aicq_http_requests_total',
      help: 'Requests answered.',
      labelNames: ['method', 'route', 'status'],
      registers,
    });
    this.#requestSeconds = new DurationHistogram({
      name: 'stoa_http_request_seconds',
      help: 'Time from the headers of a request until its answer was written to the socket.',
      buckets: secondsBuckets,
      registers,
    });
    const onError = (error: unknown): void => stoa.onError(error, 'counting for /metrics');
    measureTogether(this.registry, () => streams.count, onError, [
      ['stoa_streams_open', 'Event streams that are open.', (count) => count],
    ]);
    this.#measureBackends(stoa);
    measureGroups(registers, stoa);
    measureStore(this.registry, stoa);
    measureProcess(this.registry, stoa);
  }

  /** Counts an answered request. `route` is the pattern, never the path. */
  answered(method: string, route: string, status: number, ms: number): void {
    // Nested maps: a joined name would have to be built and hashed for each request.
    const byMethod = within(this.#pending, route);
    const byStatus = within(byMethod, method);
    const found = byStatus.get(status);
    if (found === undefined)
      byStatus.set(status, { labels: { method, route, status: String(status) }, count: 1 });
    else found.count += 1;
    this.#requestSeconds.add(ms / 1_000);
  }

  #addPending(): void {
    const entries = Array.from(this.#pending.values(), (byMethod) =>
      Array.from(byMethod.values(), (byStatus) => [...byStatus.values()]),
    );
    for (const entry of entries.flat(2)) {
      if (entry.count > 0) {
        this.#requests.inc(entry.labels, entry.count);
        this.#aicqRequests.inc(entry.labels, entry.count);
      }
      entry.count = 0;
    }
  }

  #measureBackends(stoa: Stoa): void {
    const seconds = new Histogram({
      name: 'stoa_backend_seconds',
      help: 'Time of a call to a database outside this process.',
      labelNames: ['domain', 'backend', 'verb'],
      buckets: secondsBuckets,
      registers: [this.registry],
    });
    stoa.onBackendCall(({ domain, backend, verb, milliseconds }) =>
      seconds.observe({ domain, backend, verb }, milliseconds / 1_000),
    );
  }
}

function measureGroups(registers: Registry[], stoa: Stoa): void {
  const commits = new Counter({
    name: 'stoa_commits_total',
    help: 'Transactions made durable.',
    registers,
  });
  const groups = new Counter({
    name: 'stoa_commit_groups_total',
    help: 'Groups of transactions that shared one sync.',
    registers,
  });
  const groupSize = new Histogram({
    name: 'stoa_commit_group_size',
    help: 'Transactions in one group.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
    registers,
  });
  const syncSeconds = new Histogram({
    name: 'stoa_fsync_seconds',
    help: 'Time from passing a group to the engine until it was on disk.',
    buckets: secondsBuckets,
    registers,
  });
  stoa.onGroup((group) => {
    commits.inc(group.transactions);
    groups.inc();
    groupSize.observe(group.transactions);
    syncSeconds.observe(group.commitMs / 1_000);
  });
}

/** A counter whose number is counted elsewhere. */
function counter(registers: Registry[], name: string, help: string, read: () => number): void {
  const metric: Counter = new Counter({
    name,
    help,
    registers,
    collect: (): void => {
      metric.reset();
      metric.inc(read());
    },
  });
}

/** The map under a name, created if it does not exist. */
function within<Key, Value>(maps: Map<string, Map<Key, Value>>, name: string): Map<Key, Value> {
  let found = maps.get(name);
  if (found === undefined) {
    found = new Map();
    maps.set(name, found);
  }
  return found;
}
