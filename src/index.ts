/** The library. The server, the CLI and MCP use only the object that `openStoa` returns. */
import { readFile } from 'node:fs/promises';
import { CommitService } from './commit/service.js';
import { type Closing, closeAll } from './core/close-all.js';
import { StoaError, messageOf } from './core/errors.js';
import { type Limits, limitsWith } from './core/settings/limits.js';
import type { EngineName, StoreConfig } from './core/settings/store-config.js';
import { NamespaceSettingsService } from './datastore/namespace-settings.js';
import type { Documents } from './datastore/port.js';
import { DataService } from './datastore/service.js';
import { FindService } from './find/service.js';
import type { Embedder } from './find/vectors/embedder.js';
import { Embedding } from './find/vectors/embedding.js';
import { noEmbedder } from './find/vectors/search.js';
import { VectorsService } from './find/vectors/service.js';
import { ChangesService } from './feed/service.js';
import { directoryArchive } from './homes/directory/archive.js';
import { openDirectoryHome } from './homes/directory/home.js';
import type { BackupSchedule } from './homes/directory/kernel/backup/schedule.js';
import type { GroupFacts } from './homes/directory/kernel/store-options.js';
import type { BackendCall, Home, HomeOptions } from './homes/home.js';
import { IdentityService } from './identity/service.js';
import { hashToken, newOperatorToken } from './identity/tokens.js';
import { LocksService } from './locks/service.js';
import { IdentityLinks } from './messaging/identities/links.js';
import { MessagingService, type MessagingSettings } from './messaging/service.js';
import { openDataBackend } from './open/datastore.js';
import { backendName } from './open/timed.js';
import { OperationsService } from './operations/service.js';
import { RegistryService } from './registry/service.js';
import type { Secrets } from './secrets/secrets.js';
import { DocumentRecords } from './transfer/documents.js';
import { erased } from './transfer/compare-records.js';
import type { MoveRole } from './transfer/move/port.js';
import { TransferService } from './transfer/service.js';
import { WorkspacesService } from './workspaces/service.js';

export { StoaError } from './core/errors.js';
export type { Embedder } from './find/vectors/embedder.js';
export { type Caller, operatorCaller } from './core/caller.js';
export type { GroupFacts } from './homes/directory/kernel/store-options.js';

export interface StoaOptions {
  /** The data directory, which is created if it does not exist. Not used with `postgres`. */
  data?: string | undefined;
  /** The URL of a PostgreSQL that keeps everything instead of a data directory. */
  postgres?: string | null | undefined;
  /** The Redis beside it; several URLs of a cluster are separated by commas. */
  redis?: string | null | undefined;
  engine?: EngineName | undefined;
  shards?: number | undefined;
  /** The URL of a CouchDB, DynamoDB or Firestore that keeps the documents beside the home. */
  datastore?: string | null | undefined;
  /** Keys that encrypt secrets, instead of the key file in the data directory. Required with PostgreSQL. */
  secretKeys?: string | null | undefined;
  /** The operator's token on PostgreSQL; made at the first start unless given. */
  operatorToken?: string | null | undefined;
  storeConfig?: Partial<Omit<StoreConfig, 'data_dir'>> | undefined;
  limits?: Partial<Limits> | undefined;
  /** Turns texts into vectors, for searches by meaning; without it, searches are by words only. */
  embedder?: Embedder | undefined;
  /** Settings of messaging: exempt addresses, trusted proxies, the admin. */
  messagingSettings?: Partial<MessagingSettings> | undefined;
  /** Milliseconds since 1970; tests pass another clock. */
  clock?: (() => number) | undefined;
  /** Faults that no caller waits for. */
  onError?: ((error: unknown, about: string) => void) | undefined;
  sweepIntervalMs?: number | undefined;
  /** Set where a move reads or fills the home: nothing is swept and no timer runs. */
  move?: MoveRole | undefined;
  /** Scheduled backups; none by default. */
  backups?: BackupSchedule | undefined;
}

export interface Stoa {
  readonly limits: Limits;
  readonly home: Home;
  readonly identity: IdentityService;
  readonly registry: RegistryService;
  readonly data: DataService;
  /** How the search treats the documents of each namespace. */
  readonly namespaceSettings: NamespaceSettingsService;
  readonly workspaces: WorkspacesService;
  readonly locks: LocksService;
  readonly messaging: MessagingService;
  /** Which identity speaks for which agent. */
  readonly links: IdentityLinks;
  readonly secrets: Secrets;
  /** A token of the operator. Where the home keeps only a hash of it, one for this process alone. */
  readonly operatorToken: string;
  readonly changes: ChangesService;
  /** The search over documents, tasks and messages. */
  readonly find: FindService;
  /** The background work that gives documents vectors. */
  readonly vectors: VectorsService;
  readonly commit: CommitService;
  /** Status, repairs, raw rows and backups, for the operator. */
  readonly operations: OperationsService;
  /** Export and import of everything, for the operator. */
  readonly transfer: TransferService;
  /** Calls back for each group of transactions that became durable. Returns a function that stops it. */
  onGroup(listener: (group: GroupFacts) => void): () => void;
  /** Calls back for each call of a database outside this process. Returns a function that stops it. */
  onBackendCall(listener: (call: BackendCall) => void): () => void;
  /** Faults that no caller waits for go here. */
  onError(error: unknown, about: string): void;
  close(): Promise<void>;
}

/** The longest interval that a timer takes. */
const neverMs = 2 ** 31 - 1;

/**
 * Opens a Stoa with everything in it.
 *
 * @example
 * const stoa = await openStoa({ data: './data' });
 * const page = await stoa.changes.read(operatorCaller(), {});
 * await stoa.close();
 */
export async function openStoa(options: StoaOptions): Promise<Stoa> {
  const limits = limitsWith(options.limits);
  const onError = options.onError ?? ((error, about) => process.emitWarning(`${about}: ${messageOf(error)}`));
  const groups = new Listeners<GroupFacts>();
  const calls = new Listeners<BackendCall>();
  let identity: IdentityService | undefined;
  const home = await openHome(options, {
    limits,
    onError,
    onCall: (call) => calls.tell(call),
    onTokenRemoved: (id) => identity?.forget(id),
    onTokensMissed: () => identity?.forgetAll(),
    onGroup: (group) => groups.tell(group),
    sweepIntervalMs: options.move === undefined ? options.sweepIntervalMs : neverMs,
    move: options.move,
  });
  /** What is open, the newest first. A service may fail to open, so the port of messaging does not depend on it. */
  const opened: Closing[] = [() => home.messaging.close(), () => home.close()];
  try {
    const { writer, secrets, feed } = home;
    const operatorToken = home.operatorToken ?? newOperatorToken();
    // Where the home has only a hash, this process uses a token that no other process knows.
    const ownHashes = home.operatorToken === null ? [hashToken(operatorToken)] : [];
    const nowMs = (): number => home.nowMs();
    identity = new IdentityService({
      writer,
      port: home.identity,
      limits,
      operatorTokenHashes: async () => [await home.operatorTokenHash(), ...ownHashes],
      nowMs,
      onError,
    });
    const { sealer } = secrets;
    const registry = new RegistryService({ writer, port: home.registry, limits });
    const workspaces = new WorkspacesService({ writer, port: home.workspaces, limits, sealer });
    opened.unshift(() => workspaces.close());
    const locks = new LocksService({ writer, port: home.locks, limits, feed });
    const data = await openData(home, limits, options.datastore ?? null, calls, onError);
    opened.unshift(
      () => data.close(),
      () => identity?.close(),
    );
    const messaging = new MessagingService({
      writer,
      port: home.messaging,
      limits,
      sealer,
      agents: registry.agents,
      ...(options.messagingSettings && { settings: options.messagingSettings }),
    });
    opened.unshift(async () => messaging.close());
    holdSecrets(secrets, workspaces, messaging);
    opened.unshift(() => secrets.close());
    const changes = new ChangesService(feed, limits);
    const embedding = options.embedder === undefined ? null : new Embedding(options.embedder, limits);
    const vectors = new VectorsService({
      port: home.find.vectors,
      embedding,
      limits,
      nowMs,
      onError,
      intervalMs: options.sweepIntervalMs,
    });
    opened.unshift(() => vectors.close());
    const namespaceSettings = new NamespaceSettingsService({
      port: home.namespaceSettings,
      writer,
      limits,
      checkEmbeds: () => checkEmbeds(embedding, storeName(options.datastore)),
    });
    const find = new FindService({
      port: home.find,
      embedding,
      namespaceSettings: home.namespaceSettings,
      data: data.port,
      workspaces: home.workspaces,
      messaging: home.messaging,
      limits,
      nowMs,
      findRoom: async (caller, room) => (await messaging.rooms.find(caller, room)).id,
    });
    const commit = new CommitService({
      steps: { data: data.steps, registry: registry.steps, workspaces: workspaces.steps, locks: locks.steps },
      home: home.commits(messaging),
      store: storeName(options.datastore),
      limits,
      position: () => feed.newest(),
      agents: registry.agents,
      projects: workspaces.references,
    });
    // Before messaging: a delivery that is under way needs it.
    opened.unshift(() => commit.close());
    const transfer = new TransferService({
      stores: new Map([...home.records(), ['data.document', erased(new DocumentRecords(data))]]),
      storeId: home.id,
      limits,
      nowMs,
      flush: () => data.tracker.flush(),
    });
    let closing: Promise<void> | undefined;
    const stoa: Stoa = {
      limits,
      home,
      identity,
      registry,
      data,
      namespaceSettings,
      workspaces,
      locks,
      messaging,
      links: new IdentityLinks({ writer, registry, messaging }),
      secrets,
      operatorToken,
      changes,
      find,
      vectors,
      commit,
      operations: new OperationsService({
        port: home.operations,
        archive: directoryArchive,
        changes,
        commit,
        vectors,
        limits,
        readKey: () => readFile(secrets.ring.fileForCopy()),
        syncWrites: home.syncWrites,
        keptElsewhere: storeName(options.datastore) === null ? [] : ['data'],
        onError,
      }),
      transfer,
      onError,
      onGroup: (listener) => groups.add(listener),
      onBackendCall: (listener) => calls.add(listener),
      // Once: a part that is closed again would write into a store that is closed.
      close: () => (closing ??= closeAll(opened)),
    };
    if (options.move !== undefined) return stoa;
    home.start();
    identity.start();
    secrets.resume(onError);
    data.start();
    vectors.start();
    return stoa;
  } catch (error) {
    await closeAll(opened).catch((failure: unknown) => onError(failure, 'closing what was opened'));
    throw error;
  }
}

async function openHome(
  options: StoaOptions,
  common: HomeOptions & { readonly onGroup: (group: GroupFacts) => void },
): Promise<Home> {
  const { data, postgres, redis, engine, shards, storeConfig, secretKeys, clock, backups } = options;
  if (typeof postgres === 'string') {
    if (typeof redis !== 'string')
      throw new StoaError(
        'invalid_config',
        'The URL of Redis is missing. A Stoa on PostgreSQL needs a Redis beside it.',
        {
          fix: 'Set --redis to its redis:// URL.',
        },
      );
    const { openPostgresHome } = await import('./homes/postgres/open.js');
    return openPostgresHome({
      ...common,
      postgres,
      redis,
      secretKeys: secretKeys ?? undefined,
      operatorToken: options.operatorToken ?? undefined,
      clock,
    });
  }
  if (data === undefined)
    throw new StoaError(
      'invalid_config',
      'There is no home: neither a data directory nor PostgreSQL is given.',
      {
        fix: 'Set `data` to a directory, or `postgres` and `redis` to their URLs.',
      },
    );
  return openDirectoryHome({
    ...common,
    data,
    engine,
    shards,
    storeConfig,
    secretKeys: secretKeys ?? undefined,
    clock,
    backups,
  });
}

/** The documents of the home, or of a store beside it. */
async function openData(
  home: Home,
  limits: Limits,
  url: string | null,
  calls: Listeners<BackendCall>,
  onError: Stoa['onError'],
): Promise<DataService> {
  const nowMs = (): number => home.nowMs();
  const service = (documents: Documents): DataService =>
    new DataService({ ...documents, limits, nowMs, feed: home.feed, onError });
  if (url === null) return service({ port: home.data, writer: home.writer });
  const { current, ...documents } = await openDataBackend(url, {
    limits,
    nowMs,
    notes: home.storeNotes,
    onCall: (call) => calls.tell(call),
    onError: (error) => onError(error, 'background work on the data store'),
  });
  if (current !== null) home.find.useStore(current);
  return service(documents);
}

/** Throws if a namespace cannot ask for vectors here. */
function checkEmbeds(embedding: Embedding | null, store: string | null): void {
  if (embedding === null) throw noEmbedder();
  if (store !== null)
    throw new StoaError('unsupported', `Documents in ${store} cannot have vectors.`, {
      fix: 'Keep the documents in the home, or search them with mode=text.',
    });
}

/** Null if the home keeps the documents. */
function storeName(url: string | null | undefined): string | null {
  return url === null || url === undefined ? null : backendName(url);
}

/** Both re-encrypt their secrets when the key changes. */
function holdSecrets(secrets: Secrets, workspaces: WorkspacesService, messaging: MessagingService): void {
  secrets.addHolder({
    name: 'workspaces',
    reseal: (onProgress) => workspaces.port.reseal(onProgress),
    begin: () => workspaces.port.beginReseal(),
  });
  secrets.addHolder({
    name: 'messaging',
    reseal: (_onProgress, signal) =>
      messaging.port.resealKept((sealed, id) => {
        signal.throwIfAborted();
        return secrets.sealer.reseal(sealed, id);
      }),
  });
}

class Listeners<Told> {
  readonly #listeners = new Set<(told: Told) => void>();

  /** Returns a function that stops it. */
  add(listener: (told: Told) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(told: Told): void {
    for (const listener of this.#listeners) listener(told);
  }
}
