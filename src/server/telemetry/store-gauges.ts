/** Gauges of the store: what is in it, what waits, and how it stands with the other servers. */
import type { Registry } from 'prom-client';
import { Paced } from '../../core/waiting/paced.js';
import type { Stoa } from '../../index.js';
import { agentStates } from '../../registry/model.js';
import { taskStatuses } from '../../workspaces/model.js';
import { type GaugeRow, measureTogether } from './shared-gauges.js';

/**
 * The minimum time between counts of blocks: Redis scans all keys for a count, and anybody may read the
 * metrics.
 */
const blocksCountedEveryMs = 15_000;

/** Registers gauges that share one read. */
type Measure = <T>(read: () => T | Promise<T>, rows: readonly GaugeRow<T>[], about?: string) => void;

export function measureStore(registry: Registry, stoa: Stoa): void {
  const measure: Measure = (read, rows, about = 'counting for /metrics') =>
    measureTogether(registry, read, (error) => stoa.onError(error, about), rows);
  measureHome(measure, stoa);
  measureMessaging(measure, stoa);
  measureWaiting(measure, stoa);
  measureEmbedding(measure, stoa);
  if (stoa.home.operations.facts().load !== null) measureCluster(measure, stoa);
}

function measureHome(measure: Measure, { home, changes }: Stoa): void {
  measure(
    () => home.operations.facts(),
    [
      ['stoa_feed_sequence', 'Newest number of the change feed, of all shards.', (facts) => facts.sequence],
      ['stoa_feed_bytes', 'Bytes of the stored change feed.', ({ feedBytes }) => feedBytes],
      [
        'stoa_expiry_backlog_seconds',
        'Age of the oldest timer that is due and not handled.',
        ({ expiryBacklogMs }) => expiryBacklogMs / 1_000,
      ],
      [
        'stoa_writes_stopped',
        'One while writes are refused after a failed commit.',
        ({ writes }) => Number(writes === 'stopped'),
      ],
      [
        'stoa_disk_full',
        'One while writes are refused because the disk is full.',
        ({ writes }) => Number(writes === 'disk_full'),
      ],
    ],
  );
  measure(
    () => home.operations.census(),
    [
      ['stoa_documents', 'Documents of all users.', ({ documents }) => documents],
      [
        'stoa_agents',
        'Agents of all users, by state.',
        (census) => withZeros(agentStates, census.agents),
        'state',
      ],
      [
        'stoa_tasks',
        'Tasks of all users, by status.',
        (census) => withZeros(taskStatuses, census.tasks),
        'status',
      ],
      [
        'stoa_messages_posted',
        'Messages ever posted in the rooms that exist, of all users.',
        ({ messages }) => messages,
      ],
      ['stoa_leases', 'Leases of agents and tasks that have not expired.', ({ leases }) => leases],
    ],
  );
  measure(
    () => changes.lagCommits(),
    [
      [
        'stoa_feed_lag_commits',
        'Commits by which the slowest open stream of changes is behind.',
        (commits) => commits,
      ],
    ],
  );
}

function measureMessaging(measure: Measure, { messaging }: Stoa): void {
  measure(
    () => messaging.port.totals(),
    [
      ['aicq_agents', 'Registered agents.', ({ agents }) => agents],
      ['aicq_public_rooms', 'Public rooms.', ({ publicRooms }) => publicRooms],
      [
        'aicq_messages_posted',
        'Messages ever posted, without those in rooms of users.',
        ({ messages }) => messages,
      ],
      ['stoa_identities', 'Messaging identities.', ({ agents }) => agents],
    ],
  );
  const blocks = new Paced(() => messaging.gate.countBlocks(), blocksCountedEveryMs);
  measure(
    () => blocks.read(),
    [['aicq_blocked_addresses', 'Addresses that are blocked for exceeding rate limits.', (count) => count]],
  );
}

/** What waits for work in the background. */
function measureWaiting(measure: Measure, { commit, find }: Stoa): void {
  measure(
    () => commit.outbox(),
    [
      [
        'stoa_commit_outbox_oldest_seconds',
        'Age of the oldest message of a commit that waits for its delivery.',
        ({ oldestWaitingSeconds }) => oldestWaitingSeconds,
      ],
      [
        'stoa_commit_outbox_undeliverable',
        'Messages of commits that are undeliverable and still stored.',
        ({ undeliverable }) => undeliverable,
      ],
      [
        'stoa_commit_outbox_waiting',
        'Messages of commits that wait for their delivery.',
        ({ waiting }) => waiting,
      ],
    ],
    'counting the outbox for /metrics',
  );
  // Measuring reads the store, so scrapes that follow each other share one measurement.
  const size = new Paced(() => find.port.size());
  measure(
    () => size.read(),
    [
      [
        'stoa_find_waiting',
        'Documents, tasks and messages that wait to be filed into the search index. Searches find them too.',
        ({ waiting }) => waiting,
      ],
      ['stoa_find_segments', 'Segments of the search index.', ({ segments }) => segments],
      ['stoa_find_bytes', 'Bytes of the search index on disk.', ({ bytes }) => bytes],
    ],
    'measuring the search index for /metrics',
  );
}

function measureEmbedding(measure: Measure, { vectors }: Stoa): void {
  measure(
    () => vectors.measure(),
    [
      ['stoa_embedding_waiting', 'Documents that wait for a vector.', ({ waiting }) => waiting],
      [
        'stoa_embedding_oldest_seconds',
        'Age of the oldest document that waits for a vector.',
        ({ oldestWaitingSeconds }) => oldestWaitingSeconds,
      ],
      [
        'stoa_embedding_embedded',
        'Texts that this server has embedded since its start.',
        ({ embedded }) => embedded,
      ],
      [
        'stoa_embedding_refused',
        'Texts that the embedder refused since the start of this server.',
        ({ refused }) => refused,
      ],
      ['stoa_embedding_failing', '1 while the embedder fails, else 0.', ({ isFailing }) => Number(isFailing)],
    ],
    'counting waiting documents for /metrics',
  );
}

/** Only servers with a shared home have these. */
function measureCluster(measure: Measure, { home }: Stoa): void {
  measure(
    () => home.operations.facts().load ?? undefined,
    [
      ['stoa_pool_busy', 'Connections to PostgreSQL that are in use.', (load) => load?.pool.busy ?? 0],
      [
        'stoa_pool_waiting',
        'Statements that wait for a connection to PostgreSQL.',
        (load) => load?.pool.waiting ?? 0,
      ],
      [
        'stoa_pool_size',
        'Connections to PostgreSQL that this server may have.',
        (load) => load?.pool.total ?? 0,
      ],
      [
        'stoa_feed_tail_lag_commits',
        'Commits of the change feed that this server does not know of.',
        (load) => load?.feedLagCommits ?? 0,
      ],
      [
        'stoa_feed_tail_lag_seconds',
        'Age of the oldest commit that this server does not know of.',
        (load) => (load?.feedLagMs ?? 0) / 1_000,
      ],
    ],
  );
  measure(
    () => home.operations.servers(),
    [['stoa_servers', 'Live servers that share the home.', ({ length }) => length]],
  );
}

/** A state that became empty shows 0, not its last number. */
function withZeros<Name extends string>(
  names: readonly Name[],
  counts: Readonly<Partial<Record<Name, number>>>,
): Record<string, number> {
  return Object.fromEntries(names.map((name) => [name, counts[name] ?? 0]));
}
