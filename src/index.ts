/** The library: what `openStoa` gives is all that server, CLI and MCP use. */
import { type BackendCall, backendName, timedPort } from './backends/timed.js';
import { openDataBackend } from './backends/open-datastore.js';
import { EmbeddedDataStore } from './backends/embedded/datastore.js';
import { EmbeddedIdentity } from './backends/embedded/identity.js';
import { LeaseCount } from './backends/embedded/lease-count.js';
import {
  embeddedFamilies,
  embeddedHotFamilies,
  embeddedMigrations,
  embeddedScatteredFamilies,
} from './backends/embedded/families.js';
import { openCommit } from './backends/open-commit.js';
import { fencedServices } from './backends/open-fenced.js';
import { openMessagingBackend } from './backends/open-messaging.js';
import { EmbeddedMessaging } from './backends/embedded/messaging.js';
import { EmbeddedOutboxGate } from './backends/embedded/outbox-gate.js';
import { EmbeddedRegistry } from './backends/embedded/registry.js';
import { messagingRecords } from './backends/embedded/transfer-messaging.js';
import { registryRecords } from './backends/embedded/transfer-registry.js';
import { workspacesRecords } from './backends/embedded/transfer-workspaces.js';
import { UserVerbs } from './backends/embedded/registry-users.js';
import { EmbeddedWorkspaces, openEmbeddedWorkspaces } from './backends/embedded/workspaces.js';
import type { PostgresMessaging } from './backends/postgres/messaging.js';
import type { PostgresWorkspaces } from './backends/postgres/workspaces.js';
import type { CommitService } from './commit/service.js';
import { ChangesService } from './changes/service.js';
import type { Announce } from './datastore/port.js';
import { DataService, type DataServiceOptions } from './datastore/service.js';
import { messageOf } from './errors.js';
import type { Caller } from './identity/caller.js';
import { ensureOperatorToken } from './identity/operator-token.js';
import { IdentityService } from './identity/service.js';
import { newOperatorToken } from './identity/tokens.js';
import { userKey } from './identity/user-key.js';
import type { EngineName, StoreConfig } from './kernel/engine.js';
import { type BackupSchedule, BackupScheduler } from './kernel/backup-schedule.js';
import { type Kernel, openKernel } from './kernel/kernel.js';
import { onceAround } from './kernel/once.js';
import type { MigrationProgress } from './kernel/migrations.js';
import type { GroupFacts } from './kernel/store.js';
import type { MessagingPort } from './messaging/port.js';
import type { Change } from './kernel/transaction.js';
import { type Limits, limitsWith } from './limits.js';
import { MessagingService, type MessagingSettings } from './messaging/service.js';
import { RegistryService } from './registry/service.js';
import { type Secrets, openSecrets } from './secrets/secrets.js';
import { DocumentRecords } from './transfer/documents.js';
import { erased } from './transfer/judging.js';
import { TransferService } from './transfer/service.js';
import { WorkspacesService } from './workspaces/service.js';

export { StoaError } from './errors.js';
export { type Caller, operatorCaller } from './identity/caller.js';

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
  /** Called while the data of an older program is brought to this one's format. */
  onMigration?: ((progress: MigrationProgress) => void) | undefined;
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
  readonly secrets: Secrets;
  readonly changes: ChangesService;
  readonly commit: CommitService;
  /** Export and import of everything, for the operator. */
  readonly transfer: TransferService;
  /**
   * The same for the writes of a signed agent that shows a fencing number: they are refused once the
   * lease has passed on, also when that happens while they are under way.
   */
  fenced(caller: Pick<Caller, 'user' | 'agentId' | 'fence'>): Stoa;
  /** The operator's own token, as it is in `operator.token`. */
  readonly operatorToken: string;
  /** Leases of agents and tasks in the data directory that are live. */
  readonly liveLeases: () => number;
  /** False: acknowledged writes may be lost with the machine. */
  readonly syncWrites: boolean;
  /** The domains that other databases keep: backups of the data directory do not hold them. */
  readonly keptElsewhere: readonly string[];
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
 * const page = stoa.changes.read(operatorCaller(), {});
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
    hotFamilies: embeddedHotFamilies,
    limits,
    onError,
    migration: { migrations: embeddedMigrations, onProgress: options.onMigration },
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
    const port = new EmbeddedIdentity(kernel, (tokenId) => identity.forget(tokenId));
    const identity = new IdentityService({
      port,
      limits,
      operatorToken,
      nowMs: () => kernel.nowMs(),
      onError,
    });
    const secrets = await openSecrets({
      dataDir: kernel.manifest.engine === 'memory' ? null : options.data,
      environment: options.secretKeys ?? undefined,
    });
    const registryPort = new EmbeddedRegistry(kernel);
    const registry = new RegistryService({ port: registryPort, limits });
    const workspaces = await openWorkspaces(
      kernel,
      options.workspaces ?? 'embedded',
      registryPort,
      secrets,
      onCall,
      onError,
    );
    opened.unshift(() => workspaces.close());
    const urls = {
      data: options.datastore ?? 'embedded',
      workspaces: options.workspaces ?? 'embedded',
      messaging: options.messaging ?? 'embedded',
    };
    const data = await openData(kernel, urls.data, identity, onCall, onError);
    opened.unshift(
      () => data.close(),
      () => identity.close(),
    );
    const messaging = new MessagingService({
      port: await openMessaging(kernel, options, onCall, onError),
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
      data,
      workspaces,
      messaging,
      checkName: (caller) => registry.checkOwnName(caller),
      sealer: secrets.sealer,
      urls,
      onCall,
      onError,
      sweepIntervalMs: options.sweepIntervalMs,
    });
    opened.unshift(() => commit.close());
    const transfer = openTransfer(kernel, registryPort, data, workspaces, messaging, secrets);
    const backups =
      options.backups && new BackupScheduler(kernel, options.backups, { onBackup: () => undefined, onError });
    opened.unshift(() => backups?.stop());
    const leases = new LeaseCount(kernel, onError);
    opened.unshift(() => leases.stop());
    kernel.start();
    leases.start();
    backups?.start();
    identity.start();
    secrets.resume(onError);
    data.start();
    const stoa: Stoa = {
      limits,
      kernel,
      identity,
      registry,
      data,
      workspaces,
      messaging,
      secrets,
      changes,
      commit,
      transfer,
      fenced: (caller) => ({
        ...stoa,
        ...fencedServices(kernel, secrets.sealer, { data, workspaces, messaging }, caller),
      }),
      operatorToken,
      liveLeases: () => leases.live,
      syncWrites: options.storeConfig?.sync_writes !== false,
      keptElsewhere: Object.entries(urls)
        .filter(([, place]) => place !== 'embedded')
        .map(([domain]) => domain),
      onError,
      onGroup: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      onBackendCall: (listener) => {
        callListeners.add(listener);
        return () => callListeners.delete(listener);
      },
      close: () => closeAll(opened),
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
  options: StoaOptions,
  onCall: OnCall,
  onError: (error: unknown, about: string) => void,
): Promise<MessagingPort> {
  const port = await openMessagingBackend({
    kernel,
    postgres: options.messaging ?? null,
    redis: options.redis ?? null,
    onError,
  });
  return port instanceof EmbeddedMessaging ? port : timedPort(port, 'messaging', 'postgres+redis', onCall);
}

/** Workspaces on their backend, joined with the registry: an owner exists from its first workspace, and a lost agent's claims come back. */
async function openWorkspaces(
  kernel: Kernel,
  url: string,
  registry: EmbeddedRegistry,
  secrets: Secrets,
  onCall: OnCall,
  onError: (error: unknown, about: string) => void,
): Promise<WorkspacesService> {
  const { limits } = kernel;
  const { users, leases } = registry.verbs;
  const { sealer } = secrets;
  const report = (error: unknown): void => onError(error, 'background work on workspaces');
  const open = async (): Promise<EmbeddedWorkspaces | PostgresWorkspaces> => {
    if (url === 'embedded')
      return openEmbeddedWorkspaces(kernel, {
        sealer,
        onOwner: (tx, user) => void users.ensure(tx, user),
        onError: report,
      });
    // Loaded only when it is chosen: most directories need no database server.
    const { openPostgresWorkspaces } = await import('./backends/postgres/workspaces.js');
    const postgres = await openPostgresWorkspaces(new URL(url), {
      limits,
      sealer,
      onError: report,
      announce: (changes) => announceEach(kernel, users, changes),
    });
    return timedPort(postgres, 'workspaces', backendName(url), onCall);
  };
  const port = await open();
  leases.onPresenceLost.push((tx, { record, meta }) => {
    const names = [record.agent_id, record.name];
    if ('tasks' in port) port.tasks.releaseClaims(tx, meta.user, names);
    else port.releaseClaims(meta.user, names);
  });
  secrets.addHolder({
    name: 'workspaces',
    reseal: (onProgress) => port.reseal(onProgress),
    begin: () => port.beginReseal(),
  });
  return new WorkspacesService({ port, limits, sealer });
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

/** Puts changes of one user's documents into this directory's feed. */
function announceFor(kernel: Kernel): Announce {
  const users = new UserVerbs(kernel.limits);
  return async (changes) => {
    const user = changes[0]?.user ?? null;
    if (user === null) return;
    await kernel.storeOf(userKey(user)).transact((tx) => {
      users.ensure(tx, user);
      for (const change of changes) tx.change(change);
    });
  };
}

/** The data store on its backend. What happens in another database is told in this directory's feed: through its outbox where it has one, else right after each write. */
async function openData(
  kernel: Kernel,
  url: string,
  identity: IdentityService,
  onCall: OnCall,
  onError: (error: unknown, about: string) => void,
): Promise<DataService> {
  const { limits, feed } = kernel;
  const nowMs = (): number => kernel.nowMs();
  const users = new UserVerbs(limits);
  if (url === 'embedded') {
    const port = new EmbeddedDataStore({
      kernel,
      ensureUser: (tx, user) => void users.ensure(tx, user),
      checkUser: (user) => identity.checkUser(user),
    });
    return new DataService({ port, limits, nowMs, feed, onError });
  }
  const once: DataServiceOptions['once'] = (user, idempotency, work) =>
    onceAround(kernel.storeOf(userKey(user)), idempotency, work);
  const backend = await openDataBackend(url, {
    limits,
    nowMs,
    gate: new EmbeddedOutboxGate(kernel),
    onError: (error) => onError(error, 'telling of changes in the data store'),
  });
  const announce = backend.capabilities.changes === 'outbox' ? null : announceFor(kernel);
  return new DataService({
    port: timedPort(backend, 'data', backendName(url), onCall),
    limits,
    nowMs,
    feed,
    onError,
    announce,
    once,
  });
}

/** Every kind of record, wherever it is kept. */
function openTransfer(
  kernel: Kernel,
  registry: EmbeddedRegistry,
  data: DataService,
  workspaces: WorkspacesService,
  messaging: MessagingService,
  { sealer }: Secrets,
): TransferService {
  const { users } = registry.verbs;
  const { limits } = kernel;
  const stores = new Map([
    ...registryRecords(kernel, registry),
    ['data.document', erased(new DocumentRecords(data))] as const,
    ...(workspaces.port instanceof EmbeddedWorkspaces
      ? workspacesRecords(kernel, {
          sealer,
          waiters: workspaces.port.waiters,
          onOwner: (tx, user) => void users.ensure(tx, user),
        })
      : // The other port that workspaces are opened with.
        (workspaces.port as PostgresWorkspaces).records()),
    ...(messaging.port instanceof EmbeddedMessaging
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
