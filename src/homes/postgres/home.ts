/** PostgreSQL with Redis beside it as the home of one Stoa, shared by any number of servers. */
import type { CommitHome } from '../../commit/home.js';
import { type Closing, closeAll } from '../../core/close-all.js';
import { StoaError } from '../../core/errors.js';
import type { RequestRates } from '../../core/request-rates.js';
import { withoutPassword } from '../../core/text/printable-url.js';
import type { MessagingService } from '../../messaging/service.js';
import { type KeyRing, openKeyRing } from '../../secrets/key-ring.js';
import { Secrets } from '../../secrets/secrets.js';
import { type HomeMove, isOnlyRead, refusePartOfMove } from '../../transfer/move/port.js';
import type { RecordStore } from '../../transfer/port.js';
import type { Home, HomeOptions } from '../home.js';
import { type PostgresBase, openPostgresBase } from './base.js';
import { clearFact, readFact, writeFact } from './cluster/facts.js';
import { noteKeys } from './cluster/key-checks.js';
import { checkRequirements } from './cluster/requirements.js';
import {
  type OperatorCredentials,
  checkOperatorToken,
  noCredentials,
  operatorTokenHash,
  operatorCredentials,
} from './cluster/operator-token.js';
import { migrateCluster } from './cluster/schema.js';
import { Servers } from './cluster/servers.js';
import { Sweeps } from './cluster/sweeps.js';
import { PostgresCommit } from './commit/commit.js';
import { migrateCommits } from './commit/schema.js';
import { PostgresDataStore } from './datastore/datastore.js';
import { PostgresFind } from './find/find.js';
import { type PostgresIdentity, openPostgresIdentity } from './identity/identity.js';
import { PostgresMcpSessions } from './identity/mcp-sessions.js';
import { KnownUsers } from './known-users.js';
import { type PostgresLocks, openPostgresLocks } from './locks/locks.js';
import type { PostgresMessaging } from './messaging/messaging.js';
import { openPostgresMessaging } from './messaging/open.js';
import { PostgresOperations } from './operations.js';
import { checkCallerFence } from './registry/fence.js';
import { renameWhileHolding } from '../../registry/refusals.js';
import { type PostgresRegistry, openPostgresRegistry } from './registry/registry.js';
import { identitiesOf } from './registry/links.js';
import { PostgresStoreNotes } from './store-notes.js';
import { factMark, holdDatabase, postgresMove, refuseDuringMove } from './transfer/move.js';
import { registryRecords } from './transfer/registry.js';
import { type PostgresWorkspaces, openPostgresWorkspaces } from './workspaces/workspaces.js';

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

/** Opens the home, or refuses with what to do. What was opened before a refusal is closed again. */
export async function openPostgresHome(options: PostgresHomeOptions): Promise<PostgresHome> {
  const { limits, onError, sweepIntervalMs, clock: given } = options;
  const opened: Closing[] = [];
  const ring = await openRing(options.secretKeys);
  if (options.operatorToken !== undefined) checkOperatorToken(options.operatorToken);
  const plan = await checkRequirements({ ...options, ring });
  const onlyRead = isOnlyRead(options.move);
  if (onlyRead) refuseUnfinished(plan, options.postgres);
  let registry: PostgresRegistry | undefined;
  try {
    const releaseDatabase =
      options.move === 'from' || options.move === 'to'
        ? await holdDatabase(options.postgres, limits)
        : undefined;
    if (releaseDatabase !== undefined) opened.unshift(releaseDatabase);
    const base = await openPostgresBase(new URL(options.postgres), {
      limits,
      onError,
      checkFence: (work, caller) => checkCallerFence(work, caller, given),
      // No request is written before the registry is open.
      agents: {
        isFresh: (agent, nowMs, untilMs) => registry?.callerAgents.isFresh(agent, nowMs, untilMs) ?? true,
        called: async (work, agent, untilMs) => registry?.callerAgents.called(work, agent, untilMs),
      },
      onCall: (verb, milliseconds, failed) =>
        options.onCall({ domain: 'home', backend: 'postgres', verb, milliseconds, failed }),
      isOnlyRead: onlyRead,
      ...(given && { skewMs: () => given() - Date.now() }),
    });
    opened.unshift(() => base.close());
    const { sql, beats, clock, writer, feed } = base;
    const nowMs = (): number => clock.nowMs();
    await migrateCluster(sql);
    if (options.move === undefined) await refuseDuringMove(sql, options.postgres);
    else await refusePartOfMove(factMark(sql), withoutPassword(options.postgres), options.move);
    const storeId = (await readFact(sql, 'store_id')) ?? '';
    if (!onlyRead) await noteKeys(sql, ring);
    const { secrets, servers } = openSharedSecrets(base, ring, onError);
    const credentials =
      options.move === undefined
        ? await operatorCredentials(sql, options.operatorToken, (warning) =>
            onError(warning, 'the token of the operator was replaced'),
          )
        : noCredentials;
    const opening = await openPostgresRegistry({ sql, limits, ...(given && { clock: given }) });
    registry = opening;
    const users = new KnownUsers((work, user) => opening.ensureUser(work, user));
    const identity = await openPostgresIdentity({
      sql,
      beats,
      limits,
      ...(given && { clock: given }),
      onRemoved: options.onTokenRemoved,
      onMissed: options.onTokensMissed,
      onError: (error) => onError(error, 'listening for removed tokens'),
    });
    opened.unshift(async () => identity.removals.close());
    const data = new PostgresDataStore(sql, writer, { limits, nowMs, users, onError });
    opened.unshift(() => data.close());
    const workspaces = await openPostgresWorkspaces(sql, writer, {
      limits,
      clock,
      sealer: secrets.sealer,
      users,
      onError,
      sweepIntervalMs,
      isMoved: options.move !== undefined,
    });
    opened.unshift(() => workspaces.close());
    // A lost agent's claims come back.
    opening.onPresenceEnded.push((work, { meta, record }) =>
      workspaces.releaseClaims(work, meta.user, [record.agent_id, record.name]),
    );
    opening.onRename.push(async (work, { meta, record }) => {
      if (await workspaces.holdsClaims(work, meta.user, [record.agent_id, record.name]))
        throw renameWhileHolding(record.name);
    });
    const locks = await openPostgresLocks({ sql, limits, users, nowMs });
    opening.onPresenceEnded.push((work, { meta, record }) =>
      locks.releaseHeldBy(work, meta.user, [record.agent_id, record.name]),
    );
    opening.onRename.push((work, { meta, record }, name) =>
      locks.renameHolder(work, meta.user, record.name, name),
    );
    const messaging = await openPostgresMessaging({
      sql,
      beats,
      writer,
      feed,
      redis: options.redis,
      storeId,
      limits,
      nowMs,
      onError,
      agents: opening,
      isOnlyRead: onlyRead,
    });
    opened.unshift(() => messaging.close());
    opening.onRename.push(async (work, { record }, name) => {
      const linked = await identitiesOf(work.sql, record.user_id, record.agent_id);
      await messaging.renameAgent(work, record.agent_id, name, linked);
    });
    opening.onRemoved.push((work, { record }) => messaging.forgetKept(work, record.agent_id));
    await migrateCommits(sql);
    const find = new PostgresFind({
      sql,
      writer,
      limits,
      nowMs,
      messages: messaging.searched(),
      onError,
      intervalMs: sweepIntervalMs,
      isOnlyRead: onlyRead,
    });
    opened.unshift(() => find.close());
    base.limitStatements();
    if (options.move === undefined) {
      opened.unshift(() => servers.close());
      await servers.start();
      // A move that started in the meantime has seen this server, or is seen by it here.
      await refuseDuringMove(sql, options.postgres);
    }
    const parts: Parts = {
      releaseDatabase,
      storeId,
      registry: opening,
      identity,
      data,
      workspaces,
      locks,
      messaging,
      find,
      secrets,
      servers,
      credentials,
    };
    return new PostgresHome(base, parts, options);
  } catch (error) {
    await closeAll(opened).catch((failure: unknown) => onError(failure, 'closing what was opened'));
    throw error;
  }
}

/** A move makes no tables in what it only reads. */
function refuseUnfinished(plan: readonly string[], url: string): void {
  if (plan.length > 0)
    throw new StoaError(
      'conflict',
      `A start on ${withoutPassword(url)} would change it, and a move only reads it: ${plan.join(' ')}`,
      { fix: 'Start one server of this version on it and stop it, then move.' },
    );
}

/** Refuses to start without a key ring: with a new ring, this server could not read the secrets of the others. */
function openRing(secretKeys: string | undefined): Promise<KeyRing> {
  if (secretKeys === undefined || secretKeys.trim() === '')
    throw new StoaError(
      'invalid_config',
      'A Stoa on PostgreSQL has no key ring: STOA_SECRET_KEYS is not set.',
      {
        fix: 'Make a key with "openssl rand -hex 32", and set STOA_SECRET_KEYS to it on every server.',
      },
    );
  return openKeyRing({ file: null, environment: secretKeys });
}

/** What a start on these databases adds, in sentences, or its refusal. Nothing is changed. */
export async function planPostgresHome(
  options: Pick<PostgresHomeOptions, 'postgres' | 'redis' | 'secretKeys' | 'limits' | 'onError' | 'move'>,
): Promise<string[]> {
  return checkRequirements({ ...options, ring: await openRing(options.secretKeys) });
}

/** The key ring of all servers. */
function openSharedSecrets(
  { sql, beats, feed }: PostgresBase,
  ring: KeyRing,
  onError: PostgresHomeOptions['onError'],
): { secrets: Secrets; servers: Servers } {
  const servers = new Servers({
    pool: sql,
    sql: beats,
    keyIds: () => ring.keyIds,
    feedSeq: () => feed.reachedSeq,
    onError,
  });
  const mark = {
    read: () => readFact(sql, 'rekeying'),
    write: (keyId: string) => writeFact(sql, 'rekeying', keyId),
    clear: (keyId: string) => clearFact(sql, 'rekeying', keyId),
  };
  const secrets = new Secrets(ring, mark, async (keyId) => {
    const without = await servers.withoutKey(keyId);
    if (without.length > 0)
      throw new StoaError(
        'conflict',
        `These servers do not have the key ${keyId} yet: ${without.join(', ')}.`,
        {
          fix: 'Add the key to STOA_SECRET_KEYS on every server and restart them, then re-key.',
        },
      );
  });
  return { secrets, servers };
}

interface Parts {
  /** Of what a move holds. */
  readonly releaseDatabase: (() => Promise<void>) | undefined;
  readonly storeId: string;
  readonly registry: PostgresRegistry;
  readonly identity: PostgresIdentity;
  readonly data: PostgresDataStore;
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
  readonly #releaseDatabase: Parts['releaseDatabase'];
  #commit: PostgresCommit | undefined;

  constructor(base: PostgresBase, parts: Parts, options: PostgresHomeOptions) {
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
    const { writer, registry } = this;
    return [
      ...registryRecords({ sql, transact: (body) => writer.transact(body), registry }),
      ...this.workspaces.records(),
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
      async () => this.identity.removals.close(),
      () => this.#servers.close(),
      () => this.#base.close(),
      () => this.#releaseDatabase?.(),
    ]);
  }
}
