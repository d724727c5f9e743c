/**
 * What PostgreSQL and Redis can do for the operator of a Stoa: state and sizes; backups are the database's
 * own.
 */
import type { Caller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import type { HealthCheck } from '../../messaging/port.js';
import { LongWork } from '../../operations/long-work.js';
import type { ExaminedFinding, OnProgress } from '../../operations/model.js';
import { Paced } from '../../core/waiting/paced.js';
import type { Census } from '../../operations/census.js';
import type { OperationsPort } from '../../operations/port.js';
import { type PostgresSql, query } from './database/connection.js';
import type { Servers } from './cluster/servers.js';
import { takeCensus } from './census.js';
import { examine } from './doctor/doctor.js';
import type { PostgresFind } from './find/find.js';
import type { PostgresFeed } from './feed/feed.js';
import { PostgresStep } from './write/step.js';
import type { PostgresWriter } from './write/writer.js';

export interface PostgresOperationsOptions {
  readonly sql: PostgresSql;
  readonly writer: PostgresWriter;
  readonly feed: PostgresFeed;
  readonly servers: Servers;
  readonly find: PostgresFind;
  readonly storeId: string;
  /** PostgreSQL and Redis, by name. */
  readonly health: () => Promise<Readonly<Record<string, HealthCheck>>>;
}

/** The schemas of a Stoa, and its tables in the schema of the connection, where the seeds have theirs. */
const ownTables = `n.nspname IN ('cluster', 'feed', 'find', 'locks', 'messaging', 'registry', 'workspaces')
  OR (n.nspname = current_schema() AND c.relname IN ('agents', 'rooms', 'agent_data_store',
    'agent_data_store_agents', 'agent_data_store_counts', 'kept_answers', 'commit_outbox', 'commit_bytes', 'sweep_turns',
    'stoa_migrations'))`;

export class PostgresOperations implements OperationsPort {
  readonly backupDirectory = '';
  readonly #options: PostgresOperationsOptions;
  readonly #longWork: LongWork;
  readonly #census: Paced<Census>;

  constructor(options: PostgresOperationsOptions) {
    this.#options = options;
    this.#census = new Paced(() => takeCensus(options.sql));
    this.#longWork = new LongWork(options.writer, (result) => new PostgresStep([], async () => result));
  }

  readonly facts: OperationsPort['facts'] = () => {
    const { storeId, feed, servers } = this.#options;
    return {
      storeId,
      engine: 'postgres',
      shards: 1,
      writes: 'ok',
      sequence: feed.lastSeq,
      feedBytes: feed.sizeBytes,
      directory: null,
      expiryBacklogMs: 0,
      load: servers.load(),
    };
  };

  readonly readiness: OperationsPort['readiness'] = async () => {
    const { postgres, ...others } = await this.#options.health();
    const refused = postgres?.readOnly === true ? 'stopped' : 'unavailable';
    const failed = Object.entries(others).filter(([, { status }]) => status === 'fail');
    return {
      writes: postgres?.status === 'fail' ? refused : 'ok',
      degraded: Object.fromEntries(failed.map(([name, { message = '' }]) => [name, message])),
    };
  };

  readonly check: OperationsPort['check'] = async () => {
    await query(this.#options.sql, 'SELECT 1');
  };

  readonly servers: OperationsPort['servers'] = () => this.#options.servers.live();

  /** Rows as the planner estimates them: counting millions would take minutes. */
  readonly measure: OperationsPort['measure'] = async () => {
    const rows = await query<{ family: string; entries: string; size_bytes: string }>(
      this.#options.sql,
      `SELECT n.nspname || '.' || c.relname AS family, greatest(c.reltuples, 0)::bigint AS entries,
        pg_total_relation_size(c.oid) AS size_bytes
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r'
          AND (${ownTables})`,
    );
    return {
      sizeBytes: rows.reduce((sum, { size_bytes }) => sum + Number(size_bytes), 0),
      families: new Map(
        rows.map(({ family, entries, size_bytes }) => [
          family,
          { entries: Number(entries), size_bytes: Number(size_bytes), estimated: true },
        ]),
      ),
    };
  };

  readonly census: OperationsPort['census'] = () => this.#census.read();

  async *examine(repair: boolean, onProgress?: OnProgress): AsyncGenerator<ExaminedFinding> {
    yield* examine(this.#options.sql, repair, onProgress);
    // After the records, which it follows from.
    yield* this.#options.find.examine(repair, onProgress);
  }

  readonly entries: OperationsPort['entries'] = () => {
    throw new StoaError(
      'unsupported',
      'stoa inspect shows the rows of a data directory, and this Stoa is on PostgreSQL.',
      {
        fix: 'Read the tables with psql.',
      },
    );
  };

  readonly backup: OperationsPort['backup'] = () => {
    throw new StoaError(
      'unsupported',
      'stoa backup copies a data directory, and this Stoa is on PostgreSQL.',
      {
        fix:
          'Use pg_dump, or a base backup with archived logs for point-in-time recovery. Redis needs ' +
          '"appendonly yes". See docs/cluster.md.',
      },
    );
  };

  once<Result>(
    caller: Caller,
    idempotency: Idempotency | null,
    work: () => Promise<Result>,
  ): Promise<Result> {
    return this.#longWork.once(caller, idempotency, work);
  }

  readonly announce: OperationsPort['announce'] = (url) => this.#options.servers.listensAt(url);
}
