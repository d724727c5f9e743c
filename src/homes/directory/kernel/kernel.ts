/** An open data directory: its lock, its manifest, its shards, its feed and its background work. */
import { StoaError, messageOf } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { ChangeFeed } from './feed/changes.js';
import { type EngineName, type StoreConfig } from '../../../core/settings/store-config.js';
import { type Engine } from './engine.js';
import { kernelFamilies } from './families.js';
import { DurableNote } from './directory/durable-note.js';
import type { BackupDescription } from './backup/description.js';
import { type DirectoryLock } from './directory/lock.js';
import { backedUpLsn, keepRedoAfterBackup, putBackupMark, putBackupName } from './backup/marks.js';
import { type Manifest, feedEpoch, shardOf } from './directory/manifest.js';
import { type Outage } from '../../../core/outages.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import { closedMark, outagesMark, outagesWith, readOutages } from './outages.js';
import { ShardPairs } from './shards/pairs.js';
import { Store } from './store.js';
import type { GroupFacts } from './store-options.js';
import { Sweeper, type TimerHandler } from './timers/sweeper.js';
import type { Reader, Transaction } from './transaction.js';
import { trimLogs } from './feed/trim.js';

export interface KernelOptions {
  dataDir: string;
  /** The engine of a new directory. An existing directory must have been created with the same engine. */
  engine?: EngineName | undefined;
  /** Fixed at creation. Undefined uses the number of an existing directory, or one. */
  shards?: number | undefined;
  families: readonly string[];
  /** Families whose rows are read one at a time and at random. */
  scatteredFamilies?: readonly string[];
  limits: Limits;
  storeConfig?: Partial<Omit<StoreConfig, 'data_dir'>>;
  clock?: () => number;
  /** Faults that no caller waits for: a failing timer, a failing trim. */
  onError?: (error: unknown, about: string) => void;
  onGroup?: (group: GroupFacts) => void;
  /** Wraps each engine after it is opened; tests inject faults here. */
  wrapEngine?: (engine: Engine, shard: number) => Engine;
  sweepIntervalMs?: number;
}

const trimIntervalMs = 60_000;
/**
 * How often the newest durable transactions are recorded beside the databases, and the free space is checked.
 */
const watchIntervalMs = 1_000;

function lockLost(dataDir: string): StoaError {
  return new StoaError(
    'writes_stopped',
    `Another process took over ${dataDir}, because this process did not renew its lock in time.`,
    { fix: 'Stop this server. The other process serves the data now.' },
  );
}

export class Kernel {
  readonly dataDir: string;
  readonly manifest: Manifest;
  readonly limits: Limits;
  readonly stores: readonly Store[];
  /** Shard 00, which stores everything that does not belong to one user. */
  readonly root: Store;
  readonly feed: ChangeFeed;
  readonly lock: DirectoryLock | undefined;
  readonly #sweepers: readonly Sweeper[];
  readonly #onError: (error: unknown, about: string) => void;
  readonly #pairs: ShardPairs;
  #outages: readonly Outage[] = [];
  readonly #syncsWrites: boolean;
  #note: DurableNote | undefined;
  readonly #watching: Periodic;
  readonly #trimming: Periodic;
  #closing: Promise<void> | undefined;

  constructor(
    options: KernelOptions,
    manifest: Manifest,
    stores: readonly Store[],
    lock: DirectoryLock | undefined,
  ) {
    this.dataDir = options.dataDir;
    this.manifest = manifest;
    this.#syncsWrites = options.storeConfig?.sync_writes !== false;
    this.limits = options.limits;
    this.stores = stores;
    this.root = stores[0] as Store;
    this.feed = new ChangeFeed(stores, feedEpoch(manifest.id));
    this.lock = lock;
    this.#onError =
      options.onError ?? ((error, about) => process.emitWarning(`${about}: ${messageOf(error)}`));
    this.#sweepers = stores.map(
      (store) =>
        new Sweeper({
          store,
          ...(options.sweepIntervalMs !== undefined && { intervalMs: options.sweepIntervalMs }),
          onError: (error, timer) => this.#onError(error, `timer ${timer.kind}`),
        }),
    );
    this.#watching = new Periodic({
      everyMs: watchIntervalMs,
      run: () => this.#watch(),
      onError: (error) => this.#onError(error, 'maintaining the data directory'),
    });
    // `trim` reports the errors of each shard itself.
    this.#trimming = new Periodic({
      everyMs: trimIntervalMs,
      run: () => this.trim(),
      onError: () => undefined,
    });
    keepRedoAfterBackup(stores);
    this.#pairs = new ShardPairs(stores, (error) => this.#onError(error, 'clearing a finished write'));
  }

  /**
   * Times in which no server ran on this directory, oldest first: leases do not expire during these times.
   */
  get outages(): readonly Outage[] {
    const nowMs = this.nowMs();
    // An outage that ends in the future was recorded before the clock was set back. It would keep leases
    // alive until then.
    return (this.#outages.at(-1)?.toMs ?? 0) <= nowMs
      ? this.#outages
      : this.#outages.filter(({ toMs }) => toMs <= nowMs);
  }

  nowMs(): number {
    return this.root.nowMs();
  }

  storeOf(userKey: Buffer): Store {
    if (this.stores.length === 1) return this.root;
    return this.stores[shardOf(userKey, this.stores.length)] as Store;
  }

  /** The store of the record with this id, or undefined for an unknown id. */
  locate(id: string): Store | undefined {
    if (this.stores.length === 1) return this.root;
    const owner = this.root.get(kernelFamilies.directory, Buffer.from(id));
    return owner === undefined ? undefined : this.storeOf(owner);
  }

  /**
   * Runs `body` as one transaction over the shard of a user and shard 00. Both shards keep its writes, or
   * neither.
   */
  transactBoth<T>(own: Store, body: (own: Transaction, root: Transaction) => T): Promise<T> {
    return this.#pairs.transact(own, body);
  }

  /** Calls `take` while no write over two shards is unfinished. */
  betweenPairs<T>(take: () => Promise<T>): Promise<T> {
    return this.#pairs.between(take);
  }

  /**
   * The user who owns the record with this id, from shard 00. Undefined for an unknown id, and always with
   * one shard.
   */
  ownerIn(root: Reader, id: string): Buffer | undefined {
    return this.stores.length > 1 ? root.get(kernelFamilies.directory, Buffer.from(id)) : undefined;
  }

  /**
   * Enters an id into the directory of ids, in the transaction of shard 00 that belongs to the write of the
   * record.
   */
  enterIn(root: Transaction, id: string, userKey: Buffer): void {
    if (this.stores.length > 1 && this.ownerIn(root, id)?.equals(userKey) !== true)
      root.put(kernelFamilies.directory, Buffer.from(id), userKey);
  }

  /** Removes an id whose record is removed by the same write. */
  leaveIn(root: Transaction, id: string): void {
    if (this.stores.length > 1) root.delete(kernelFamilies.directory, Buffer.from(id));
  }

  handleTimer(kind: string, handler: TimerHandler): void {
    for (const sweeper of this.#sweepers) sweeper.handle(kind, handler);
  }

  /** The newest durable transaction of each shard. */
  get lsns(): number[] {
    return this.stores.map((store) => store.lsn);
  }

  /** Whether writes are accepted. `disk_full` ends when there is space again, `stopped` with a restart. */
  get writes(): 'ok' | 'disk_full' | 'stopped' {
    if (this.stores.some((store) => store.stopped !== undefined)) return 'stopped';
    return this.stores.some((store) => store.full !== undefined) ? 'disk_full' : 'ok';
  }

  /** Starts to record the newest durable transactions in a file beside the databases. */
  async beginNote(): Promise<void> {
    this.#note = await DurableNote.begin(this.dataDir, this.manifest, this.lsns);
  }

  /** Another process has the directory now. Two writers would damage the data. */
  loseDirectory(): void {
    for (const store of this.stores) store.stop(lockLost(this.dataDir));
    const note = this.#note;
    this.#note = undefined;
    note?.close().catch((error: unknown) => this.#onError(error, 'closing stoa.durable'));
  }

  /** Starts the background work: sweeping and trimming. Call it when every timer has its handler. */
  start(): void {
    for (const sweeper of this.#sweepers) sweeper.start();
    this.#trimming.start();
    if (this.lock !== undefined) this.#watching.start();
  }

  async #watch(): Promise<void> {
    for (const store of this.stores)
      if (store.full !== undefined || !store.engine.hasRoom()) await store.tryWriting();
    // Without syncs an acknowledged transaction may not be on disk yet; then only a clean stop is recorded.
    if (this.#syncsWrites) await this.#note?.write(this.lsns);
  }

  /** Runs everything that is due now. Tests call it instead of waiting. */
  async sweep(): Promise<number> {
    let handled = 0;
    for (const sweeper of this.#sweepers) handled += await sweeper.sweep();
    return handled;
  }

  expiryBacklogMs(): number {
    return Math.max(...this.#sweepers.map((sweeper) => sweeper.backlogMs()));
  }

  async trim(): Promise<void> {
    for (const [shard, store] of this.stores.entries()) {
      try {
        await trimLogs(store, backedUpLsn(this.root, shard));
      } catch (error) {
        this.#onError(error, 'trimming the logs');
      }
    }
  }

  /** From now on every commit is also written to the redo log: a full backup begins, and increments may follow. */
  keepRedo(): void {
    for (const store of this.stores) store.keepRedo();
  }

  /**
   * Records a backup, and the position up to which an increment has the redo log, which may then be trimmed.
   * A store that refuses writes can still be backed up; then the next backup must be a full one.
   */
  async rememberBackup({ name, kind, shards }: BackupDescription, directory: string): Promise<void> {
    try {
      await this.root.transact((tx) => {
        putBackupName(tx, name);
        if (kind === 'incremental')
          putBackupMark(
            tx,
            directory,
            shards.map(({ lsn }) => lsn),
          );
      });
    } catch (error) {
      this.#onError(error, 'noting a backup');
    }
  }

  /** Reports an error that no caller waits for. */
  reportFault(error: unknown, about: string): void {
    this.#onError(error, about);
  }

  /** Records the time since the last sign of life of this directory as an outage. Zero for a new directory. */
  async recordOutage(fromMs: number): Promise<void> {
    const nowMs = this.nowMs();
    const known = readOutages(this.root);
    this.#outages = fromMs === 0 ? known : outagesWith(known, { fromMs, toMs: nowMs });
    if (this.#outages === known) return;
    const { family, key, value } = outagesMark(this.#outages);
    await this.root.transact((tx) => tx.put(family, key, value));
  }

  close(): Promise<void> {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  async #finish(): Promise<void> {
    await this.#trimming.close();
    await this.#watching.close();
    for (const sweeper of this.#sweepers) await sweeper.stop();
    await this.#pairs.close();
    await this.#noteClosing();
    await this.abandon();
  }

  /** Closes the databases and releases the directory, without recording the time. */
  async abandon(): Promise<void> {
    try {
      for (const store of this.stores) await store.close();
      await this.#note?.close(this.lsns);
    } finally {
      await this.lock?.release();
    }
  }

  /** A full disk must not keep the directory open. */
  async #noteClosing(): Promise<void> {
    if (this.root.stopped !== undefined) return;
    try {
      await this.root.transact((tx) => {
        const { family, key, value } = closedMark(tx.nowMs);
        tx.put(family, key, value);
      });
    } catch (error) {
      this.#onError(error, 'noting the time of closing');
    }
  }
}
