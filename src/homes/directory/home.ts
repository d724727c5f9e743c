/** A data directory as the home of one Stoa. */
import type { CommitHome } from '../../commit/home.js';
import { OwnRequestRates } from '../../core/request-rates.js';
import type { EngineName, StoreConfig } from '../../core/settings/store-config.js';
import { MemoryMcpSessions } from '../../identity/mcp-sessions/memory.js';
import { ensureOperatorToken } from '../../identity/operator-token.js';
import { hashToken, newOperatorToken } from '../../identity/tokens.js';
import type { MessagingService } from '../../messaging/service.js';
import { type Secrets, openSecrets } from '../../secrets/secrets.js';
import { type HomeMove, refusePartOfMove } from '../../transfer/move/port.js';
import type { RecordStore } from '../../transfer/port.js';
import type { Home, HomeOptions, OnTransact } from '../home.js';
import { DirectoryDataStore } from './datastore/datastore.js';
import { DirectoryNamespaceSettings } from './datastore/settings.js';
import { directoryFamilies, directoryScatteredFamilies } from './families.js';
import { DirectoryIdentity } from './identity/identity.js';
import { type BackupSchedule, BackupScheduler } from './kernel/backup/schedule.js';
import { openKernel } from './kernel/open-kernel.js';
import type { Caller } from '../../core/caller.js';
import { checkCaller } from './identity/caller-check.js';
import { type Kernel } from './kernel/kernel.js';
import type { GroupFacts } from './kernel/store-options.js';
import type { DirectoryFind } from './find/find.js';
import { openDirectoryFind } from './find/open.js';
import { RoomRows } from './messaging/rooms/stored-rooms.js';
import { DirectoryLocks } from './locks/locks.js';
import type { DirectoryMessaging } from './messaging/messaging.js';
import { openDirectoryMessaging } from './messaging/open.js';
import { DirectoryOperations } from './operations.js';
import { renameWhileHolding } from '../../registry/refusals.js';
import { idBytes } from '../../registry/ids.js';
import { forgetKept, renameAgent } from './messaging/identities/identities.js';
import { linkedIdentities } from './registry/links/links.js';
import { DirectoryRegistry } from './registry/registry.js';
import type { RegistryVerbs } from './registry/verbs.js';
import { DirectoryStoreNotes } from './store-notes.js';
import { messagingRecords } from './transfer/messaging.js';
import { directoryMove, fileMark } from './transfer/move.js';
import { registryRecords } from './transfer/registry.js';
import { workspacesRecords } from './transfer/workspaces.js';
import { openDirectoryWorkspaces } from './workspaces/open.js';
import type { DirectoryWorkspaces } from './workspaces/workspaces.js';
import { DirectoryWriter } from './writer.js';

export interface DirectoryHomeOptions extends HomeOptions {
  /** Created if it does not exist. */
  readonly data: string;
  readonly engine?: EngineName | undefined;
  readonly shards?: number | undefined;
  readonly storeConfig?: Partial<Omit<StoreConfig, 'data_dir'>> | undefined;
  /** The key for secrets, instead of the key file in the directory. */
  readonly secretKeys?: string | undefined;
  readonly clock?: (() => number) | undefined;
  /** Scheduled backups; none by default. */
  readonly backups?: BackupSchedule | undefined;
  /** Called for each group of transactions that became durable. */
  readonly onGroup: (group: GroupFacts) => void;
}

export async function openDirectoryHome(options: DirectoryHomeOptions): Promise<DirectoryHome> {
  const { data, engine, shards, storeConfig, clock, limits, onError, sweepIntervalMs } = options;
  if (engine !== 'memory') await refusePartOfMove(fileMark(data), data, options.move);
  const kernel = await openKernel({
    dataDir: data,
    engine,
    shards,
    families: directoryFamilies,
    scatteredFamilies: directoryScatteredFamilies,
    limits,
    onError,
    onGroup: options.onGroup,
    ...(storeConfig && { storeConfig }),
    ...(clock && { clock }),
    ...(sweepIntervalMs !== undefined && { sweepIntervalMs }),
  });
  try {
    const isKept = kernel.manifest.engine !== 'memory';
    const operatorToken = isKept ? await ensureOperatorToken(data) : newOperatorToken();
    const secrets = await openSecrets({ dataDir: isKept ? data : null, environment: options.secretKeys });
    const registry = new DirectoryRegistry(kernel);
    const { users } = registry.verbs;
    const workspaces = await openDirectoryWorkspaces(kernel, {
      sealer: secrets.sealer,
      onOwner: (tx, user) => void users.ensure(tx, user),
      onError: (error) => onError(error, 'background work on workspaces'),
    });
    const locks = new DirectoryLocks(kernel, { onOwner: (tx, user) => void users.ensure(tx, user) });
    followAgents(registry.verbs, workspaces, locks);
    const rooms = new RoomRows(kernel.root);
    const find = openDirectoryFind(kernel, rooms, onError);
    const index = find.messages;
    const messaging = await openDirectoryMessaging({ kernel, agents: registry, rooms, index, onError });
    return new DirectoryHome(
      kernel,
      { registry, workspaces, locks, messaging, find, secrets, operatorToken },
      options,
    );
  } catch (error) {
    await kernel.close();
    throw error;
  }
}

/** What the other domains do when an agent is lost, renamed or removed, in the same transaction. */
function followAgents(
  { agents, leases }: RegistryVerbs,
  { tasks }: DirectoryWorkspaces,
  locks: DirectoryLocks,
): void {
  leases.onPresenceLost = (tx, { record, meta }) => {
    const holders = [record.agent_id, record.name];
    tasks.releaseClaims(tx, meta.user, holders);
    locks.releaseHeldBy(tx, meta.user, holders);
  };
  agents.onRename = (tx, root, { record, meta }, name) => {
    if (tasks.holdsClaims(tx, meta.user, [record.agent_id, record.name]))
      throw renameWhileHolding(record.name);
    const linked = Array.from(linkedIdentities(tx, idBytes(record.agent_id), null), String);
    renameAgent(root, record.agent_id, name, linked);
    locks.renameHolder(tx, meta.user, record.name, name);
  };
  agents.onRemoved = (root, { record }) => forgetKept(root, record.agent_id);
}

interface Parts {
  readonly registry: DirectoryRegistry;
  readonly workspaces: DirectoryWorkspaces;
  readonly locks: DirectoryLocks;
  readonly messaging: DirectoryMessaging;
  readonly find: DirectoryFind;
  readonly secrets: Secrets;
  readonly operatorToken: string;
}

export class DirectoryHome implements Home {
  readonly name = 'directory';
  readonly kernel: Kernel;
  readonly writer: DirectoryWriter;
  readonly identity: DirectoryIdentity;
  readonly registry: DirectoryRegistry;
  readonly data: DirectoryDataStore;
  readonly workspaces: DirectoryWorkspaces;
  readonly locks: DirectoryLocks;
  readonly messaging: DirectoryMessaging;
  readonly namespaceSettings: DirectoryNamespaceSettings;
  readonly find: DirectoryFind;
  readonly secrets: Secrets;
  readonly operations: DirectoryOperations;
  readonly move: HomeMove;
  readonly storeNotes: DirectoryStoreNotes;
  readonly mcpSessions: MemoryMcpSessions;
  readonly requestRates: OwnRequestRates;
  readonly operatorToken: string;
  readonly syncWrites: boolean;
  readonly #backups: BackupScheduler | undefined;

  constructor(kernel: Kernel, parts: Parts, options: DirectoryHomeOptions) {
    const { backups, limits, onTokenRemoved, onError, storeConfig } = options;
    this.kernel = kernel;
    this.registry = parts.registry;
    this.workspaces = parts.workspaces;
    this.locks = parts.locks;
    this.messaging = parts.messaging;
    this.requestRates = new OwnRequestRates(limits.requestsPerMinuteMax);
    this.secrets = parts.secrets;
    this.operatorToken = parts.operatorToken;
    this.syncWrites = storeConfig?.sync_writes !== false;
    this.writer = new DirectoryWriter(kernel, parts.registry.callers);
    parts.registry.forgetAbsent(this.writer, onError);
    this.identity = new DirectoryIdentity(kernel, onTokenRemoved);
    const { users } = parts.registry.verbs;
    this.data = new DirectoryDataStore({
      kernel,
      ensureUser: (tx, user) => void users.ensure(tx, user),
      checkUser: (user) => this.identity.checkUser(user),
    });
    this.namespaceSettings = new DirectoryNamespaceSettings({
      kernel,
      ensureUser: (tx, user) => void users.ensure(tx, user),
    });
    this.find = parts.find;
    this.operations = new DirectoryOperations(kernel, this.writer, this.find);
    this.move = directoryMove(kernel, { ...parts, sealer: parts.secrets.sealer });
    this.storeNotes = new DirectoryStoreNotes(kernel);
    this.mcpSessions = new MemoryMcpSessions(limits);
    this.#backups = backups && new BackupScheduler(kernel, backups, { onBackup: () => undefined, onError });
  }

  get id(): string {
    return this.kernel.manifest.id;
  }

  get feed(): Kernel['feed'] {
    return this.kernel.feed;
  }

  async checkCaller(caller: Caller): Promise<void> {
    checkCaller(this.kernel, caller, this.nowMs(), this.registry.callers.identitiesOf);
  }

  operatorTokenHash(): string {
    return hashToken(this.operatorToken);
  }

  nowMs(): number {
    return this.kernel.nowMs();
  }

  commits(messaging: MessagingService): CommitHome {
    return {
      writer: this.writer,
      messages: (caller) => messaging.steps.postInCommit(caller),
    };
  }

  records(): [type: string, store: RecordStore][] {
    const { kernel, registry, workspaces, secrets } = this;
    const { users } = registry.verbs;
    return [
      ...registryRecords(kernel, registry, (reader, user, holders) =>
        workspaces.tasks.holdsClaims(reader, user, holders),
      ),
      ...workspacesRecords(kernel, {
        sealer: secrets.sealer,
        context: workspaces.context,
        onOwner: (tx, user) => void users.ensure(tx, user),
      }),
      ...messagingRecords(kernel),
    ];
  }

  onTransact(listener: OnTransact): void {
    for (const [shard, store] of this.kernel.stores.entries()) {
      const facts = { 'stoa.shard': shard, 'stoa.engine': this.kernel.manifest.engine };
      store.onTransact = () => listener(facts);
    }
  }

  start(): void {
    this.kernel.start();
    this.find.start();
    this.#backups?.start();
  }

  async close(): Promise<void> {
    await this.#backups?.stop();
    await this.registry.forgetting;
    await this.find.close();
    await this.kernel.close();
  }
}
