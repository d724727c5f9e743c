/**
 * The server's metrics for Prometheus. Labels never contain ids, so that the number of series stays small.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Stoa } from '../../index.js';
import type { ServerLoad } from '../../operations/model.js';
import { DurationHistogram } from './duration-histogram.js';
import type { EventStreams } from '../answer/event-stream.js';
import { measureCensus } from './census-metrics.js';
import { measureFind } from './find-metrics.js';
import { measureProcess } from './process-metrics.js';
import { measureTogether } from './shared-gauges.js';

const secondsBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * The minimum time between counts of blocks: Redis scans all keys for a count, and anybody may read the
 * metrics.
 */
const blocksCountedEveryMs = 15_000;

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
    gauge(registers, 'stoa_streams_open', 'Event streams that are open.', () => streams.count);
    this.#measureHome(stoa);
    this.#measureBackends(stoa);
    this.#measureMessaging(stoa);
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

  /** Metrics that only servers with a shared home have. */
  #measureCluster({ operations }: Stoa, onError: (error: unknown) => void): void {
    const facts = (name: string, help: string, of: (load: ServerLoad) => number): void =>
      gauge([this.registry], name, help, () => {
        const { load } = operations.facts();
        return load === null ? 0 : of(load);
      });
    facts('stoa_pool_busy', 'Connections to PostgreSQL that are in use.', ({ pool }) => pool.busy);
    facts(
      'stoa_pool_waiting',
      'Statements that wait for a connection to PostgreSQL.',
      ({ pool }) => pool.waiting,
    );
    facts('stoa_pool_size', 'Connections to PostgreSQL that this server may have.', ({ pool }) => pool.total);
    facts(
      'stoa_feed_tail_lag_commits',
      'Commits of the change feed that this server does not know of.',
      ({ feedLagCommits }) => feedLagCommits,
    );
    facts(
      'stoa_feed_tail_lag_seconds',
      'Age of the oldest commit that this server does not know of.',
      ({ feedLagMs }) => feedLagMs / 1_000,
    );
    measureTogether(this.registry, {
      read: () => operations.servers(),
      onError,
      gauges: [
        { name: 'stoa_servers', help: 'Live servers that share the home.', of: ({ length }) => length },
      ],
    });
  }

  #measureMessaging({ messaging, onError }: Stoa): void {
    const report = (error: unknown) => onError(error, 'counting for /metrics');
    measureTogether(this.registry, {
      read: () => messaging.port.totals(),
      onError: report,
      gauges: [
        { name: 'aicq_agents', help: 'Registered agents.', of: ({ agents }) => agents },
        { name: 'aicq_public_rooms', help: 'Public rooms.', of: ({ publicRooms }) => publicRooms },
        {
          name: 'aicq_messages_posted',
          help: 'Messages ever posted, without those in rooms of users.',
          of: ({ messages }) => messages,
        },
        { name: 'stoa_identities', help: 'Messaging identities.', of: ({ agents }) => agents },
      ],
    });
    let counted = { blocks: 0, atMs: -Infinity };
    const countBlocks = async () => {
      if (performance.now() - counted.atMs < blocksCountedEveryMs) return counted.blocks;
      counted = { ...counted, atMs: performance.now() };
      counted.blocks = await messaging.gate.countBlocks();
      return counted.blocks;
    };
    measureTogether(this.registry, {
      read: countBlocks,
      onError: report,
      gauges: [
        {
          name: 'aicq_blocked_addresses',
          help: 'Addresses that are blocked for exceeding rate limits.',
          of: (blocks) => blocks,
        },
      ],
    });
  }

  #measureHome(stoa: Stoa): void {
    const registers = [this.registry];
    const { operations } = stoa;
    measureGroups(registers, stoa);
    gauge(
      registers,
      'stoa_feed_sequence',
      'Newest number of the change feed, of all shards.',
      () => operations.facts().sequence,
    );
    gauge(
      registers,
      'stoa_feed_bytes',
      'Bytes of the stored change feed.',
      () => operations.facts().feedBytes,
    );
    gauge(
      registers,
      'stoa_expiry_backlog_seconds',
      'Age of the oldest timer that is due and not handled.',
      () => operations.facts().expiryBacklogMs / 1_000,
    );
    const onError = (error: unknown): void => stoa.onError(error, 'counting for /metrics');
    measureCensus(this.registry, stoa);
    measureFind(this.registry, stoa);
    measureTogether(this.registry, {
      read: () => stoa.changes.lagCommits(),
      onError,
      gauges: [
        {
          name: 'stoa_feed_lag_commits',
          help: 'Commits by which the slowest open stream of changes is behind.',
          of: (commits) => commits,
        },
      ],
    });
    if (operations.facts().load !== null) this.#measureCluster(stoa, onError);
    gauge(registers, 'stoa_writes_stopped', 'One while writes are refused after a failed commit.', () =>
      operations.facts().writes === 'stopped' ? 1 : 0,
    );
    gauge(registers, 'stoa_disk_full', 'One while writes are refused because the disk is full.', () =>
      operations.facts().writes === 'disk_full' ? 1 : 0,
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

function gauge(
  registers: Registry[],
  name: string,
  help: string,
  read: () => number | Promise<number>,
): void {
  const metric: Gauge = new Gauge({
    name,
    help,
    registers,
    collect: async (): Promise<void> => metric.set(await read()),
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
