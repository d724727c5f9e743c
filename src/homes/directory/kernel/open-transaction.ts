/** A transaction while its body runs. It writes to the overlay of pending writes and can be undone. */
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type Engine, type Entry, type RangeOptions, type WriteOperation, keyBytesMax } from './engine.js';
import { kernelFamilies } from './families.js';
import { type Overlay, overlayKey } from './overlay.js';
import { mergedRange } from './range.js';
import { timerKey } from './timers/timers.js';
import { type Change, byAgent } from '../../../core/change.js';
import type { Timer, Transaction } from './transaction.js';
import { limitError } from '../../../core/settings/exceeds.js';

/** What a transaction that makes room may store: so much, and for each row that it deletes. */
const freeingBytesMax = 16 * 1024;
const freeingBytesEach = 512;

/** The state that all transactions of a store read. */
export interface StoreState {
  readonly familyNumbers: ReadonlyMap<string, number>;
  readonly engine: Engine;
}

/** A write that is not on disk yet, and what is needed to undo it. */
export interface PendingWrite extends WriteOperation {
  readonly by: OpenTransaction;
  /** Its index among the writes of its transaction. */
  readonly place: number;
  /** The write's place in the overlay, and the entry that was there when the transaction began. */
  readonly familyNumber: number;
  readonly name: string;
  readonly before: PendingWrite | undefined;
}

/** Unusable after its body has returned. */
export class OpenTransaction implements Transaction {
  /** The writes of the transaction, each key once. */
  readonly writes: PendingWrite[] = [];
  readonly changes: Change[] = [];
  readonly nowMs: number;
  agent: string | null = null;
  heldUntilMs = 0;
  removesRecords = false;
  /** The transaction of another shard that announces for both. */
  readonly #announcesIn: OpenTransaction | undefined;
  readonly #durableListeners: (() => void)[] = [];
  readonly #undoneListeners: (() => void)[] = [];
  readonly #familyNumbers: ReadonlyMap<string, number>;
  readonly #engine: Engine;
  /**
   * The group of the transaction. Its writes are visible there at once, with those of earlier transactions.
   */
  readonly #overlay: Overlay<PendingWrite>;
  /** The group that is being committed. */
  #below: Overlay<PendingWrite> | undefined;
  readonly #sizeBytesBefore: number;
  readonly #operationsMax: number;
  #open = true;

  constructor(
    state: StoreState,
    overlay: Overlay<PendingWrite>,
    below: Overlay<PendingWrite> | undefined,
    nowMs: number,
    limits: Limits,
    announcesIn: OpenTransaction | undefined,
  ) {
    this.#familyNumbers = state.familyNumbers;
    this.#engine = state.engine;
    this.#overlay = overlay;
    this.#below = below;
    this.#sizeBytesBefore = overlay.sizeBytes;
    this.nowMs = nowMs;
    this.#announcesIn = announcesIn;
    this.#operationsMax = limits.transactionOperationsMax;
  }

  get isEmpty(): boolean {
    return this.writes.length === 0 && this.changes.length === 0;
  }

  /**
   * Whether the transaction makes room: it removes records, and stores little more than the notes of their
   * removal.
   */
  get frees(): boolean {
    if (!this.removesRecords) return false;
    let storedBytes = 0;
    let removals = 0;
    for (const { value } of this.writes) {
      storedBytes += value?.length ?? 0;
      removals += value === undefined ? 1 : 0;
    }
    return storedBytes <= freeingBytesMax + removals * freeingBytesEach;
  }

  /** Drops the reference to the group below. Otherwise each group would keep all earlier groups in memory. */
  close(): void {
    this.#open = false;
    this.#below = undefined;
  }

  onDurable(listener: () => void): void {
    this.#checkOpen();
    this.#durableListeners.push(listener);
  }

  onUndone(listener: () => void): void {
    this.#checkOpen();
    this.#undoneListeners.push(listener);
  }

  becameDurable(): void {
    for (const listener of this.#durableListeners) listener();
  }

  becameUndone(): void {
    for (const listener of this.#undoneListeners) listener();
  }

  /** Undoes its writes in the overlay. */
  undo(): void {
    for (const { familyNumber, name, before } of this.writes)
      this.#overlay.restore(familyNumber, name, before);
    this.#overlay.sizeBytes = this.#sizeBytesBefore;
  }

  get(family: string, key: Buffer): Buffer | undefined {
    const number = this.#number(family);
    const name = overlayKey(key);
    const pending = this.#pending(number, name);
    if (pending !== undefined) return pending.value;
    return this.#engine.get(family, key);
  }

  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    const number = this.#number(family);
    const values: (Buffer | undefined)[] = [];
    const stored: { index: number; key: Buffer }[] = [];
    for (const [index, key] of keys.entries()) {
      const pending = this.#pending(number, overlayKey(key));
      values.push(pending?.value);
      if (pending === undefined) stored.push({ index, key });
    }
    const found = this.#engine.getMany(
      family,
      stored.map(({ key }) => key),
    );
    for (const [at, { index }] of stored.entries()) values[index] = found[at];
    return values;
  }

  range(family: string, options: RangeOptions): Iterable<Entry> {
    const number = this.#number(family);
    const layers = () => [this.#overlay.of(number), this.#below?.of(number)];
    return mergedRange({ engine: this.#engine, layers, family, options, checkOpen: () => this.#checkOpen() });
  }

  put(family: string, key: Buffer, value: Buffer): void {
    if (!Buffer.isBuffer(value)) throw new StoaError('internal', `A value for "${family}" is not a Buffer.`);
    this.#write(family, key, value);
  }

  delete(family: string, key: Buffer): void {
    this.#write(family, key, undefined);
  }

  change(change: Change): void {
    this.#checkOpen();
    (this.#announcesIn ?? this).changes.push(byAgent(change, this.agent));
  }

  schedule(timer: Timer): void {
    this.put(kernelFamilies.timers, timerKey(timer), Buffer.alloc(0));
  }

  unschedule(timer: Timer): void {
    this.delete(kernelFamilies.timers, timerKey(timer));
  }

  /**
   * Checks everything that an engine would refuse. In the engine it would fail the whole group; here it fails
   * only this transaction.
   */
  #write(family: string, key: Buffer, value: Buffer | undefined): void {
    const number = this.#number(family);
    const { length } = key;
    if (!Buffer.isBuffer(key) || length === 0)
      throw new StoaError('internal', `A key of "${family}" is not a Buffer of at least one byte.`);
    if (length > keyBytesMax)
      throw new StoaError(
        'too_large',
        `A key of "${family}" has ${length} bytes, which exceeds ${keyBytesMax}.`,
      );
    const name = overlayKey(key);
    const newest = this.#overlay.get(number, name);
    const [place, before] =
      newest?.by === this ? [newest.place, newest.before] : [this.writes.length, newest];
    if (place >= this.#operationsMax)
      throw limitError('too_large', {
        subject: 'The transaction',
        unit: 'writes',
        limit: 'transactionOperationsMax',
        limits: { transactionOperationsMax: this.#operationsMax },
        advice: 'Split the work into several transactions',
      });
    const write: PendingWrite = { family, key, value, by: this, place, familyNumber: number, name, before };
    this.#overlay.set(number, name, write);
    this.writes[place] = write;
  }

  #pending(family: number, name: string): WriteOperation | undefined {
    return this.#overlay.get(family, name) ?? this.#below?.get(family, name);
  }

  #checkOpen(): void {
    if (!this.#open) throw new StoaError('internal', 'A transaction was used after its body had returned.');
  }

  #number(family: string): number {
    this.#checkOpen();
    const number = this.#familyNumbers.get(family);
    if (number === undefined) throw new StoaError('internal', `Unknown family "${family}".`);
    return number;
  }
}
