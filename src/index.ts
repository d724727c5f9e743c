/** The library: what `openStoa` gives is all that server, CLI and MCP use. */
import { readFile } from 'node:fs/promises';
import { type BackendCall, timedPort } from './open/timed.js';
import { openDataBackend } from './open/datastore.js';
import { DirectoryDataStore } from './homes/directory/datastore/datastore.js';
import { checkFenceFromOutside } from './homes/directory/fence.js';
import { DirectoryIdentity } from './homes/directory/identity/identity.js';
import { directoryArchive } from './homes/directory/archive.js';
import { LeaseCount } from './homes/directory/lease-count.js';
import { embeddedFamilies, embeddedScatteredFamilies } from './homes/directory/families.js';
import { openCommit } from './open/commit.js';
import { openMessagingBackend } from './open/messaging.js';
import { openWorkspaces } from './open/workspaces.js';
import { DirectoryMessaging } from './homes/directory/messaging/messaging.js';
import { DirectoryOutboxGate } from './homes/directory/outbox-gate.js';
import { DirectoryRegistry } from './homes/directory/registry/registry.js';
import { messagingRecords } from './homes/directory/transfer/messaging.js';
import { registryRecords } from './homes/directory/transfer/registry.js';
import { UserVerbs } from './homes/directory/registry/users.js';
import type { PostgresMessaging } from './homes/postgres/messaging/messaging.js';
import type { CommitService } from './commit/service.js';
import { ChangesService } from './feed/service.js';
import type { Documents } from './datastore/port.js';
import { DataService } from './datastore/service.js';
import { messageOf } from './core/errors.js';
import type { Writer } from './core/write.js';
import { DirectoryStoreNotes } from './homes/directory/store-notes.js';
import { DirectoryOperations } from './homes/directory/operations.js';
import { DirectoryWriter } from './homes/directory/writer.js';
import { IdentityLinks } from './messaging/links.js';
import { ensureOperatorToken } from './identity/operator-token.js';
import { IdentityService } from './identity/service.js';
import { newOperatorToken } from './identity/tokens.js';
import { userKey } from './identity/user-key.js';
import type { EngineName, StoreConfig } from './core/settings/store-config.js';
import { type BackupSchedule, BackupScheduler } from './homes/directory/kernel/backup/schedule.js';
import { type Kernel, openKernel } from './homes/directory/kernel/kernel.js';
import type { GroupFacts } from './homes/directory/kernel/store.js';
import type { MessagingPort } from './messaging/port.js';
import type { Change } from './core/change.js';
import { type Limits, limitsWith } from './core/settings/limits.js';
import { MessagingService, type MessagingSettings } from './messaging/service.js';
import { OperationsService } from './operations/service.js';
import { RegistryService } from './registry/service.js';
import { type Secrets, openSecrets } from './secrets/secrets.js';
import { DocumentRecords } from './transfer/documents.js';
import { erased } from './transfer/compare-records.js';
import type { RecordStore } from './transfer/port.js';
import { TransferService } from './transfer/service.js';
import type { WorkspacesService } from './workspaces/service.js';

export { StoaError } from './core/errors.js';
export { type Caller, operatorCaller } from './core/caller.js';
export type { GroupFacts } from './homes/directory/kernel/store.js';

export interface StoaOptions {
  /** The data directory; made when it is not there. */
  data: string;
  engine?: EngineName | undefined;
  shards?: number | undefined;
  /** The URL of the data store's backend; the data directory itself unless given. */
  datastore?: string | null | undefined;
  /** `embedded`, or the URL of the PostgreSQL that workspaces are kept in. */
  workspaces?: string | null | undefined;
  /** What secrets are encrypted with, instead of the key file in the data directory. */
  secretKeys?: string | null | undefined;
  storeConfig?: Partial<Omit<StoreConfig, 'data_dir'>> | undefined;
  limits?: Partial<Limits> | undefined;
  /** The PostgreSQL that keeps messaging, with `redis` beside it; the data directory itself unless given. */
  messaging?: string | null | undefined;
  /** The Redis beside it; several URLs of a cluster are separated by commas. */
  redis?: string | null | undefined;
  /** Who is exempt from messaging's limits, which proxies count, who may delete. */
  messagingSettings?: Partial<MessagingSettings> | undefined;
  /** Milliseconds since 1970; tests pass a clock of their own. */
  clock?: (() => number) | undefined;
  /** Faults that no caller waits for. */
  onError?: ((error: unknown, about: string) => void) | undefined;
  sweepIntervalMs?: number | undefined;
  /** Backups by the clock; none unless given. */
  backups?: BackupSchedule | undefined;
}

export interface Stoa {
  readonly limits: Limits;
  readonly kernel: Kernel;
  readonly identity: IdentityService;
  readonly registry: RegistryService;
  readonly data: DataService;
  readonly workspaces: WorkspacesService;
  readonly messaging: MessagingService;
  /** Which identity speaks for which agent. */
  readonly links: IdentityLinks;
  readonly secrets: Secrets;
  readonly changes: ChangesService;
  readonly commit: CommitService;
  /** Status, repairs, raw rows and backups, for the operator. */
  readonly operations: OperationsService;
  /** Export and import of everything, for the operator. */
  readonly transfer: TransferService;
  /** The operator's own token, as it is in `operator.token`. */
  readonly operatorToken: string;
  /** Leases of agents and tasks in the data directory that are live. */
  readonly liveLeases: () => number;
  /** Calls back for each group of transactions that became durable. Returns the way to stop it. */
  onGroup(listener: (group: GroupFacts) => void): () => void;
  /** Calls back for each call of a database outside this process. Returns the way to stop it. */
  onBackendCall(listener: (call: BackendCall) => void): () => void;
  /** Faults that no caller waits for go here. */
  onError(error: unknown, about: string): void;
  close(): Promise<void>;
}

/**
 * Opens a data directory with everything in it.
 *
 * @example
 * const stoa = await openStoa({ data: './data' });
 * const page = await stoa.changes.read(operatorCaller(), {});
 * await stoa.close();
 */
export async function openStoa(options: StoaOptions): Promise<Stoa> {
  const limits = limitsWith(options.limits);
  const listeners = new Set<(group: GroupFacts) => void>();
  const callListeners = new Set<(call: BackendCall) => void>();
  const onCall = (call: BackendCall): void => {
    for (const listener of callListeners) listener(call);
  };
  const onError = options.onError ?? ((error, about) => process.emitWarning(`${about}: ${messageOf(error)}`));
  const kernel = await openKernel({
    dataDir: options.data,
    engine: options.engine,
    shards: options.shards,
    families: embeddedFamilies,
    scatteredFamilies: embeddedScatteredFamilies,
    limits,
    onError,
    onGroup: (group) => {
      for (const listener of listeners) listener(group);
    },
    ...(options.storeConfig && { storeConfig: options.storeConfig }),
    ...(options.clock && { clock: options.clock }),
    ...(options.sweepIntervalMs !== undefined && { sweepIntervalMs: options.sweepIntervalMs }),
  });
  /** What is open, the newest first. */
  const opened: Closing[] = [() => kernel.close()];
  try {
    const operatorToken =
      kernel.manifest.engine === 'memory' ? newOperatorToken() : await ensureOperatorToken(options.data);
    const writer = new DirectoryWriter(kernel);
    const identityPort = new DirectoryIdentity(kernel, (tokenId) => identity.forget(tokenId));
    const identity = new IdentityService({
      writer,
      port: identityPort,
      limits,
      operatorToken,
      nowMs: () => kernel.nowMs(),
      onError,
    });
    const secrets = await openSecrets({
      dataDir: kernel.manifest.engine === 'memory' ? null : options.data,
      environment: options.secretKeys ?? undefined,
    });
    const registryPort = new DirectoryRegistry(kernel);
    const registry = new RegistryService({ writer, port: registryPort, limits });
    const { users, leases } = registryPort.verbs;
    const {
      service: workspaces,
      records: workspacesRecords,
      releaseClaims,
    } = await openWorkspaces({
      kernel,
      url: options.workspaces ?? 'embedded',
      dataUrl: options.datastore ?? 'embedded',
      sealer: secrets.sealer,
      onOwner: (tx, user) => void users.ensure(tx, user),
      announce: (changes) => announceEach(kernel, users, changes),
      onCall,
      onError: (error) => onError(error, 'background work on workspaces'),
    });
    // A lost agent's claims come back.
    leases.onPresenceLost.push((tx, { record, meta }) =>
      releaseClaims(tx, meta.user, [record.agent_id, record.name]),
    );
    secrets.addHolder({
      name: 'workspaces',
      reseal: (onProgress) => workspaces.port.reseal(onProgress),
      begin: () => workspaces.port.beginReseal(),
    });
    opened.unshift(() => workspaces.close());
    const urls = {
      data: options.datastore ?? 'embedded',
      workspaces: options.workspaces ?? 'embedded',
      messaging: options.messaging ?? 'embedded',
    };
    const data = await openData(kernel, urls.data, identityPort, onCall, onError);
    opened.unshift(
      () => data.close(),
      () => identity.close(),
    );
    const messaging = new MessagingService({
      ...(await openMessaging(kernel, writer, options, onCall, onError)),
      limits,
      sealer: secrets.sealer,
      ...(options.messagingSettings && { settings: options.messagingSettings }),
    });
    opened.unshift(() => messaging.close());
    const resealKept = (sealed: string, owner: string, signal: AbortSignal): string => {
      signal.throwIfAborted();
      return secrets.sealer.reseal(sealed, owner);
    };
    secrets.addHolder({
      name: 'messaging',
      reseal: (_onProgress, signal) =>
        messaging.port.resealKept((sealed, owner) => resealKept(sealed, owner, signal)),
    });
    opened.unshift(() => secrets.close());
    const changes = new ChangesService(kernel.feed, limits);
    const commit = await openCommit({
      kernel,
      writer,
      steps: { data: data.steps, registry: registry.steps, workspaces: workspaces.steps },
      messaging,
      checkName: (caller) => registry.checkOwnName(caller),
      urls,
      onCall,
      onError,
      sweepIntervalMs: options.sweepIntervalMs,
    });
    opened.unshift(() => commit.close());
    const transfer = openTransfer(kernel, registryPort, data, workspacesRecords, messaging);
    const backups =
      options.backups && new BackupScheduler(kernel, options.backups, { onBackup: () => undefined, onError });
    opened.unshift(() => backups?.stop());
    const leaseCounts = new LeaseCount(kernel, onError);
    opened.unshift(() => leaseCounts.stop());
    kernel.start();
    leaseCounts.start();
    backups?.start();
    identity.start();
    secrets.resume(onError);
    data.start();
    let closing: Promise<void> | undefined;
    const stoa: Stoa = {
      limits,
      kernel,
      identity,
      registry,
      data,
      workspaces,
      messaging,
      links: new IdentityLinks({ writer, registry, messaging }),
      secrets,
      changes,
      commit,
      operations: new OperationsService({
        port: new DirectoryOperations(kernel, writer),
        archive: directoryArchive,
        changes,
        commit,
        limits,
        readKey: () => readFile(secrets.ring.fileForCopy()),
        syncWrites: options.storeConfig?.sync_writes !== false,
        keptElsewhere: Object.entries(urls)
          .filter(([, place]) => place !== 'embedded')
          .map(([domain]) => domain),
        onError,
      }),
      transfer,
      operatorToken,
      liveLeases: () => leaseCounts.live,
      onError,
      onGroup: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      onBackendCall: (listener) => {
        callListeners.add(listener);
        return () => callListeners.delete(listener);
      },
      // Once: a part that is closed again would write into a store that is closed.
      close: () => (closing ??= closeAll(opened)),
    };
    return stoa;
  } catch (error) {
    await closeAll(opened).catch((failure: unknown) => onError(failure, 'closing what was opened'));
    throw error;
  }
}

type Closing = () => Promise<void> | undefined;

/** One after the other. A database that is gone must not keep the rest open; what failed first is thrown at the end. */
async function closeAll(steps: readonly Closing[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

type OnCall = (call: BackendCall) => void;

async function openMessaging(
  kernel: Kernel,
  writer: Writer,
  options: StoaOptions,
  onCall: OnCall,
  onError: (error: unknown, about: string) => void,
): Promise<{ writer: Writer; port: MessagingPort }> {
  const backend = await openMessagingBackend({
    kernel,
    writer,
    postgres: options.messaging ?? null,
    redis: options.redis ?? null,
    onError,
  });
  if (backend.port instanceof DirectoryMessaging) return backend;
  const timed = <T extends object>(one: T): T => timedPort(one, 'messaging', 'postgres+redis', onCall);
  return { writer: timed(backend.writer), port: timed(backend.port) };
}

/** Puts changes of another database into this directory's feed, each in the shard of its user. */
async function announceEach(kernel: Kernel, users: UserVerbs, changes: readonly Change[]): Promise<void> {
  await Promise.all(
    changes.map((change) => {
      const { user } = change;
      if (user === null) return undefined;
      return kernel.storeOf(userKey(user)).transact((tx) => {
        users.ensure(tx, user);
        tx.change(change);
      });
    }),
  );
}

/** The data store on its backend. What happens in another database is told in this directory's feed: through its outbox where it has one, else right after each write. */
async function openData(
  kernel: Kernel,
  url: string,
  identity: DirectoryIdentity,
  onCall: OnCall,
  onError: (error: unknown, about: string) => void,
): Promise<DataService> {
  const { limits, feed } = kernel;
  const nowMs = (): number => kernel.nowMs();
  const users = new UserVerbs(limits);
  const documents: Documents =
    url === 'embedded'
      ? {
          port: new DirectoryDataStore({
            kernel,
            ensureUser: (tx, user) => void users.ensure(tx, user),
            checkUser: (user) => identity.checkUser(user),
          }),
          writer: new DirectoryWriter(kernel),
        }
      : await openDataBackend(url, {
          limits,
          nowMs,
          gate: new DirectoryOutboxGate(kernel),
          notes: new DirectoryStoreNotes(kernel),
          checkFence: (caller) => checkFenceFromOutside(kernel, caller),
          onCall,
          onError: (error) => onError(error, 'announcing changes of the data store'),
        });
  return new DataService({ ...documents, limits, nowMs, feed, onError });
}

/** Every kind of record, wherever it is kept. */
function openTransfer(
  kernel: Kernel,
  registry: DirectoryRegistry,
  data: DataService,
  workspacesRecords: readonly [type: string, store: RecordStore][],
  messaging: MessagingService,
): TransferService {
  const { limits } = kernel;
  const stores = new Map([
    ...registryRecords(kernel, registry),
    ['data.document', erased(new DocumentRecords(data))] as const,
    ...workspacesRecords,
    ...(messaging.port instanceof DirectoryMessaging
      ? messagingRecords(kernel)
      : (messaging.port as PostgresMessaging).records()),
  ]);
  return new TransferService({
    stores,
    storeId: kernel.manifest.id,
    limits,
    nowMs: () => kernel.nowMs(),
    flush: () => data.tracker.flush(),
  });
}
