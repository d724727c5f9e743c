/** PostgreSQL with Redis beside it as the home of one Stoa, shared by any number of servers. */
import type { CommitHome } from '../../commit/home.js';
import { closeAll } from '../../core/close-all.js';
import type { RequestRates } from '../../core/request-rates.js';
import type { MessagingService } from '../../messaging/service.js';
import { Secrets } from '../../secrets/secrets.js';
import type { HomeMove } from '../../transfer/move/port.js';
import type { RecordStore } from '../../transfer/port.js';
import type { Caller } from '../../core/caller.js';
import type { Home, HomeOptions } from '../home.js';
import { checkCaller } from './identity/caller-check.js';
import type { PostgresBase } from './base.js';
import { type OperatorCredentials, operatorTokenHash } from './cluster/operator-token.js';
import { Servers } from './cluster/servers.js';
import { Sweeps } from './cluster/sweeps.js';
import { PostgresCommit } from './commit/commit.js';
import { PostgresDataStore } from './datastore/datastore.js';
import type { PostgresNamespaceSettings } from './datastore/settings.js';
import { PostgresFind } from './find/find.js';
import type { PostgresIdentity } from './identity/identity.js';
import { PostgresMcpSessions } from './identity/mcp-sessions.js';
import type { PostgresLocks } from './locks/locks.js';
import type { PostgresMessaging } from './messaging/messaging.js';
import { PostgresOperations } from './operations.js';
import type { PostgresRegistry } from './registry/registry.js';
import { PostgresStoreNotes } from './store-notes.js';
import { postgresMove } from './transfer/move.js';
import { registryRecords } from './transfer/registry.js';
import type { PostgresWorkspaces } from './workspaces/workspaces.js';

export interface PostgresHomeOptions extends HomeOptions {
  readonly postgres: string;
  /** One URL, or several of a cluster, separated by commas. */
  readonly redis: string;
  /** `STOA_SECRET_KEYS`: every server needs the same. */
  readonly secretKeys: string | undefined;
  /** `STOA_OPERATOR_TOKEN`; made at the first start unless given. */
  readonly operatorToken: string | undefined;
  /** Milliseconds since 1970, instead of the database's clock; for tests. */
  readonly clock?: (() => number) | undefined;
}

/** What `open.ts` has opened. */
export interface HomeParts {
  /** Of what a move holds. */
  readonly releaseDatabase: (() => Promise<void>) | undefined;
  readonly storeId: string;
  readonly registry: PostgresRegistry;
  readonly identity: PostgresIdentity;
  readonly data: PostgresDataStore;
  readonly namespaceSettings: PostgresNamespaceSettings;
  readonly workspaces: PostgresWorkspaces;
  readonly locks: PostgresLocks;
  readonly messaging: PostgresMessaging;
  readonly find: PostgresFind;
  readonly secrets: Secrets;
  readonly servers: Servers;
  readonly credentials: OperatorCredentials;
}

export class PostgresHome implements Home {
  readonly name = 'postgres';
  readonly id: string;
  readonly writer: PostgresBase['writer'];
  readonly feed: PostgresBase['feed'];
  readonly identity: PostgresIdentity;
  readonly registry: PostgresRegistry;
  readonly data: PostgresDataStore;
  readonly namespaceSettings: PostgresNamespaceSettings;
  readonly workspaces: PostgresWorkspaces;
  readonly locks: PostgresLocks;
  readonly messaging: PostgresMessaging;
  readonly find: PostgresFind;
  readonly secrets: Secrets;
  readonly operations: PostgresOperations;
  readonly move: HomeMove;
  readonly storeNotes: PostgresStoreNotes;
  readonly mcpSessions: PostgresMcpSessions;
  readonly requestRates: RequestRates;
  readonly operatorToken: string | null;
  readonly syncWrites = true;
  readonly #base: PostgresBase;
  readonly #servers: Servers;
  readonly #sweeps: Sweeps;
  readonly #options: PostgresHomeOptions;
  readonly #releaseDatabase: HomeParts['releaseDatabase'];
  #commit: PostgresCommit | undefined;

  constructor(base: PostgresBase, parts: HomeParts, options: PostgresHomeOptions) {
    const { sql, writer, feed } = base;
    this.#base = base;
    this.#options = options;
    this.#releaseDatabase = parts.releaseDatabase;
    this.id = parts.storeId;
    this.writer = writer;
    this.feed = feed;
    this.identity = parts.identity;
    this.registry = parts.registry;
    this.data = parts.data;
    this.namespaceSettings = parts.namespaceSettings;
    this.workspaces = parts.workspaces;
    this.locks = parts.locks;
    this.messaging = parts.messaging;
    this.find = parts.find;
    this.requestRates = parts.messaging.requestRates;
    this.secrets = parts.secrets;
    this.operatorToken = parts.credentials.token;
    this.#servers = parts.servers;
    this.operations = new PostgresOperations({
      sql,
      writer,
      feed,
      servers: parts.servers,
      find: parts.find,
      storeId: parts.storeId,
      health: () => parts.messaging.health(),
    });
    this.move = postgresMove({
      sql,
      writer,
      sealer: parts.secrets.sealer,
      servers: parts.servers,
    });
    this.storeNotes = new PostgresStoreNotes(sql, writer);
    this.mcpSessions = new PostgresMcpSessions({ sql, limits: options.limits, onError: options.onError });
    this.#sweeps = new Sweeps({
      sweeps: [
        (isOver) => parts.registry.sweep(writer, isOver),
        (isOver) => parts.locks.sweep(writer, isOver),
        (isOver) => parts.identity.sweep(writer, isOver),
        (isOver) => this.mcpSessions.sweep(isOver),
      ],
      sql,
      intervalMs: options.sweepIntervalMs,
      onError: options.onError,
    });
  }

  checkCaller(caller: Caller): Promise<void> {
    return checkCaller(this.#base.sql, caller, this.nowMs());
  }

  operatorTokenHash(): Promise<string> {
    return operatorTokenHash(this.#base.sql);
  }

  nowMs(): number {
    return this.#base.clock.nowMs();
  }

  commits(messaging: MessagingService): CommitHome {
    const { limits, onError, sweepIntervalMs } = this.#options;
    // Closed by its service, before messaging.
    this.#commit = new PostgresCommit(this.#base, {
      limits,
      messaging,
      openRoom: (work, opening) => this.messaging.openRoom(work, opening),
      redis: this.messaging,
      onError,
      sweepIntervalMs,
    });
    return this.#commit;
  }

  records(): [type: string, store: RecordStore][] {
    const { sql } = this.#base;
    const { writer, registry, workspaces } = this;
    return [
      ...registryRecords({
        sql,
        transact: (body) => writer.transact(body),
        registry,
        holdsClaims: (on, user, holders) => workspaces.holdsClaims(on, user, holders),
      }),
      ...workspaces.records(),
      ...this.messaging.records(),
    ];
  }

  /** Spans of the database's calls come from the calls themselves. */
  onTransact(): void {}

  start(): void {
    this.#commit?.start();
    this.find.start();
    this.#sweeps.start();
  }

  /** The ports are closed before, by `openStoa` and by their services. */
  async close(): Promise<void> {
    await closeAll([
      () => this.find.close(),
      () => this.#sweeps.close(),
      () => this.identity.removals.close(),
      () => this.#servers.close(),
      () => this.#base.close(),
      () => this.#releaseDatabase?.(),
    ]);
  }
}
