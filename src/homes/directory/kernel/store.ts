/** One writer, many readers: serial transactions over one engine, made durable in groups. */
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Engine, Entry, RangeOptions, Snapshot, WriteOperation } from './engine.js';
import { kernelFamilies, logFamilies } from './families.js';
import { Group } from './group.js';
import { type RedoTransaction, commitText } from './feed/log.js';
import { type GroupRecords, type LogExtent, Logs } from './feed/logs.js';
import { OpenTransaction, type StoreState } from './open-transaction.js';
import { commitFailed, isStoreRefusal, overload, pairUnfinished, refuseAsynchronous } from './refusals.js';
import {
  type CommitListener,
  type GroupFacts,
  type StoreOptions,
  type TransactListener,
  type WriteListener,
  callApart,
} from './store-options.js';
import type { Reader, Transaction } from './transaction.js';

/**
 * If callers wait when a group ends, those who just got an answer will probably write again. Waiting a few
 * turns makes one group of both; otherwise there would always be two, each with its own sync and pages.
 */
const turnsForReturning = 3;

const triedKey = Buffer.from('write_tried_at_ms');

export class Store implements Reader {
  readonly engine: Engine;
  readonly limits: Limits;
  /** For traces. Without it, a transaction creates no additional promise. */
  onTransact: TransactListener | undefined;
  readonly #clock: () => number;
  readonly #onGroup: ((group: GroupFacts) => void) | undefined;
  readonly #familyNumbers: ReadonlyMap<string, number>;
  readonly #state: StoreState;
  readonly #listeners = new Set<CommitListener>();
  readonly #writeListeners = new Set<WriteListener>();
  #collecting = new Group();
  #committing: Group | undefined;
  #scheduled = false;
  #inside = false;
  #closing = false;
  #stopped: StoaError | undefined;
  #full: StoaError | undefined;
  readonly #logs: Logs;

  constructor(options: StoreOptions) {
    this.engine = options.engine;
    this.limits = options.limits;
    this.#clock = options.clock ?? Date.now;
    this.#onGroup = options.onGroup;
    this.#familyNumbers = new Map(
      [...new Set([...Object.values(kernelFamilies), ...options.families])].map((family, index) => [
        family,
        index + 1,
      ]),
    );
    this.#state = {
      familyNumbers: this.#familyNumbers,
      engine: options.engine,
    };
    this.#logs = new Logs(options.engine);
  }

  get families(): string[] {
    return [...this.#familyNumbers.keys()];
  }

  /** The newest sequence number that is on disk. */
  get sequence(): number {
    return this.#logs.durableSeq;
  }

  /** The number of the newest transaction that is on disk. */
  get lsn(): number {
    return this.#logs.durableLsn;
  }

  /** The number of the newest transaction, on disk or on its way there. */
  get newestLsn(): number {
    return this.#logs.lastLsn;
  }

  /** The reason why writes are refused, or undefined if they are accepted. */
  get stopped(): StoaError | undefined {
    return this.#stopped;
  }

  /** The error of the last commit, if the disk is full; undefined after the next commit that succeeds. */
  get full(): StoaError | undefined {
    return this.#full;
  }

  nowMs(): number {
    return this.#clock();
  }

  /**
   * Writes a few bytes to find out whether the disk has space. Afterwards `full` and `stopped` show the
   * result.
   */
  async tryWriting(): Promise<void> {
    try {
      await this.transact((tx) => tx.put(kernelFamilies.meta, triedKey, Buffer.from(String(tx.nowMs))));
    } catch (error) {
      if (!isStoreRefusal(error)) throw error;
    }
  }

  // Plain reads see only durable rows.

  get(family: string, key: Buffer): Buffer | undefined {
    return this.engine.get(family, key);
  }

  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    return this.engine.getMany(family, keys);
  }

  range(family: string, options: RangeOptions): Iterable<Entry> {
    return this.engine.range(family, options);
  }

  /**
   * Calls back with the commits of each group once it is durable, in order. Returns a function that stops it.
   */
  onCommit(listener: CommitListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls back with every write of each group once it is durable. Returns a function that stops it. */
  onWritten(listener: WriteListener): () => void {
    this.#writeListeners.add(listener);
    return () => this.#writeListeners.delete(listener);
  }

  /**
   * Runs `body` at once and alone: it sees every earlier transaction and its own writes. Resolves
   * with its result when all it wrote is on disk; if it throws, none of its writes are kept. `body`
   * must not await: the order of calls is the order of transactions, without locks or retries.
   *
   * @example
   * const count = await store.transact((tx) => {
   *   const next = Number(tx.get('counters', key) ?? 0) + 1;
   *   tx.put('counters', key, Buffer.from(String(next)));
   *   return next;
   * });
   */
  transact<T>(body: (tx: Transaction) => T): Promise<T> {
    const onEnd = this.onTransact?.();
    const settled = this.#transact(body);
    if (onEnd !== undefined) void settled.then(() => onEnd(), onEnd);
    return settled;
  }

  #transact<T>(body: (tx: Transaction) => T): Promise<T> {
    const refusal = this.refusal();
    if (refusal !== undefined) return Promise.reject(refusal);
    const tx = this.begin();
    let result: T;
    try {
      result = body(tx);
      refuseAsynchronous(result);
      this.admit(tx, tx.frees);
      this.keep(tx);
    } catch (error) {
      return this.undo(tx, error);
    } finally {
      this.end(tx);
    }
    return this.durable(tx, result);
  }

  // The parts of a transaction, for `transactBoth`. Code between `begin` and `end` must not await.

  /** Begins a transaction. `announcesIn` is the transaction that announces the changes of both. */
  begin(announcesIn?: OpenTransaction): OpenTransaction {
    // Thrown at once, so that the outer transaction fails too and neither is kept.
    if (this.#inside) throw new StoaError('internal', 'A transaction was started inside another.');
    this.#inside = true;
    return new OpenTransaction(
      this.#state,
      this.#collecting.overlay,
      this.#committing?.overlay,
      // Both parts of a write over two shards have the same time, so that a restore up to a time cuts neither off.
      announcesIn?.nowMs ?? this.#clock(),
      this.limits,
      announcesIn,
    );
  }

  /**
   * Refuses a transaction that the full disk has no space for, so that those that make room are not in one
   * group with it.
   */
  admit(tx: OpenTransaction, frees: boolean): void {
    if (this.#full !== undefined && !frees && !tx.isEmpty && !this.engine.hasRoom()) throw this.#full;
  }

  /** Puts the writes into the collecting group. */
  keep(tx: OpenTransaction, frees = tx.frees): void {
    if (!tx.isEmpty) this.#join(tx, frees);
  }

  /** The collecting group is committed after everything that `other` holds now, and fails with it. */
  commitAfter(other: Store): void {
    this.#collecting.follow((onDurable, onFailed) => other.#afterPending(onDurable, onFailed));
  }

  /** The transactions that are neither on disk nor in an intent yet, oldest first. */
  takeForIntent(): RedoTransaction[] {
    return [...(this.#committing?.takeForIntent() ?? []), ...this.#collecting.takeForIntent()];
  }

  /** Undoes the transaction, and throws `reason` when everything that it may have seen is durable. */
  undo(tx: OpenTransaction, reason: unknown): Promise<never> {
    tx.undo();
    tx.becameUndone();
    return this.#afterPending(() => {
      throw reason;
    });
  }

  end(tx: OpenTransaction): void {
    this.#inside = false;
    tx.close();
  }

  /** Resolves when everything that the transaction wrote and saw is on disk. */
  durable<T>(tx: OpenTransaction, result: T): Promise<T> {
    return this.#afterPending(
      () => {
        tx.becameDurable();
        return result;
      },
      () => tx.becameUndone(),
    );
  }

  /**
   * Refuses all writes from now on, for a reason outside the store. A commit that the engine has begun still
   * ends.
   */
  stop(reason: StoaError): void {
    this.#stopped ??= reason;
  }

  /** Resolves when everything that transactions have written so far is on disk, or has failed. */
  async flush(): Promise<void> {
    await new Promise<void>((resolve) => {
      // The writers get the failure. Here only the end of the wait matters.
      this.#afterPending(() => undefined).then(resolve, () => resolve());
    });
  }

  async close(): Promise<void> {
    this.#closing = true;
    await this.flush();
    await this.engine.close();
  }

  /** A snapshot with the log positions that belong to it. */
  snapshot(): Promise<{ snapshot: Snapshot; lsn: number; seq: number; atMs: number }> {
    const take = () => ({
      snapshot: this.engine.snapshot(),
      lsn: this.#logs.durableLsn,
      seq: this.#logs.durableSeq,
      atMs: this.#clock(),
    });
    // While a group is being committed, the engine may be ahead of the positions. The snapshot is taken when
    // the group is durable.
    return this.#committing === undefined ? Promise.resolve(take()) : this.#committing.wait(take);
  }

  /** Groups that are committed from now on are also written to the redo log. */
  keepRedo(): void {
    this.#logs.keepsRedo = true;
  }

  get keepsRedo(): boolean {
    return this.#logs.keepsRedo;
  }

  feedExtent(): LogExtent {
    return this.#logs.feedExtent();
  }

  redoExtent(): LogExtent {
    return this.#logs.redoExtent();
  }

  /** The reason why a transaction cannot begin now, or undefined. */
  refusal(): StoaError | undefined {
    if (this.#closing) return new StoaError('closed', 'The store is closing.');
    return this.#stopped ?? this.#collecting.doomed ?? overload(this.#collecting, this.limits);
  }

  /** A result waits for all earlier writes: its own, and those that it may have seen. */
  #afterPending<T>(outcome: () => T, onFailed?: (error: StoaError) => void): Promise<T> {
    const group = this.#collecting.isEmpty ? this.#committing : this.#collecting;
    if (group !== undefined) return group.wait(outcome, onFailed);
    return new Promise((resolve) => resolve(outcome()));
  }

  #join(tx: OpenTransaction, frees: boolean): void {
    const commit = this.#logs.nextCommit(tx.nowMs, tx.changes);
    // Encoded here because encoding can fail, and here it fails only this transaction.
    const text = commit === null ? undefined : commitText(commit);
    const operations = tx.writes.some(({ family }) => logFamilies.has(family))
      ? tx.writes.filter(({ family }) => !logFamilies.has(family))
      : tx.writes;
    this.#collecting.add({ lsn: this.#logs.assign(commit), atMs: tx.nowMs, commit, operations }, text, frees);
    this.#scheduleCommit(1);
  }

  /** The turns of the event loop before each group let requests that arrived meanwhile join it. */
  #scheduleCommit(turns: number): void {
    if (this.#scheduled || this.#committing !== undefined) return;
    this.#scheduled = true;
    const wait = (left: number): void => {
      if (left > 0) {
        setImmediate(wait, left - 1);
        return;
      }
      this.#scheduled = false;
      void this.#commitGroup();
    };
    setImmediate(wait, turns - 1);
  }

  async #commitGroup(): Promise<void> {
    const group = this.#collecting;
    this.#collecting = new Group();
    this.#committing = group;
    const startedMs = performance.now();
    let records: GroupRecords;
    let operations: WriteOperation[];
    try {
      for (const earlier of group.earlier) await earlier;
      if (this.#stopped !== undefined) throw this.#stopped;
      records = this.#logs.recordsOf(group);
      operations = group.overlay.operations();
      operations.push(...records.operations);
      await this.engine.commit(operations, { frees: group.frees });
    } catch (error) {
      this.#failed(group, error);
      return;
    }
    this.#committing = undefined;
    if (!group.frees) this.#full = undefined;
    this.#logs.becameDurable(group, records);
    const commitMs = performance.now() - startedMs;
    for (const listener of this.#writeListeners) callApart(() => listener(operations));
    group.settle();
    if (!this.#collecting.isEmpty) this.#scheduleCommit(turnsForReturning);
    // Promises resolve in a later microtask, so listeners run before the callers who waited for the group.
    if (group.commits.length > 0)
      for (const listener of this.#listeners) callApart(() => listener(group.commits));
    callApart(() =>
      this.#onGroup?.({
        transactions: group.transactions.length,
        operations: operations.length,
        sizeBytes: group.sizeBytes,
        commitMs,
      }),
    );
  }

  /** Nothing of the group becomes visible. Transactions that ran on top of it are refused too. */
  #failed(group: Group, cause: unknown): void {
    const diskFull = cause instanceof StoaError && cause.code === 'disk_full';
    if (diskFull) this.#full = cause;
    else this.#stopped ??= commitFailed(cause);
    const later = this.#collecting;
    if (group.mayBeDecided || later.mayBeDecided) this.#stopped ??= pairUnfinished(cause);
    const error = this.#stopped ?? (cause as StoaError);
    this.#collecting = new Group();
    this.#committing = undefined;
    this.#logs.fallBack();
    group.fail(error);
    later.fail(error);
  }
}
