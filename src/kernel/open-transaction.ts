/** A transaction while its body runs: writes of its own on top of all that is pending. */
import { StoaError } from '../errors.js';
import type { Limits } from '../limits.js';
import { type Engine, type Entry, type RangeOptions, type WriteOperation, keyBytesMax } from './engine.js';
import { kernelFamilies } from './families.js';
import type { HotRows } from './hot-rows.js';
import { Overlay, overlayKey } from './overlay.js';
import { mergedRange } from './range.js';
import { timerKey } from './timers.js';
import type { Change, Timer, Transaction } from './transaction.js';

/** What all transactions of a store read from. */
export interface StoreState {
  readonly familyNumbers: ReadonlyMap<string, number>;
  readonly engine: Engine;
  readonly hotRows: HotRows;
}

/** Unusable after its body has returned. */
export class OpenTransaction implements Transaction {
  readonly writes = new Overlay();
  readonly changes: Change[] = [];
  readonly nowMs: number;
  readonly #familyNumbers: ReadonlyMap<string, number>;
  readonly #engine: Engine;
  readonly #hotRows: HotRows;
  /** Newest first; a key found in an earlier layer hides the later ones. */
  readonly #layers: readonly Overlay[];
  readonly #operationsMax: number;
  #open = true;

  constructor(state: StoreState, pending: readonly (Overlay | undefined)[], nowMs: number, limits: Limits) {
    this.#familyNumbers = state.familyNumbers;
    this.#engine = state.engine;
    this.#hotRows = state.hotRows;
    this.#layers = [this.writes, ...pending.filter((layer) => layer !== undefined)];
    this.nowMs = nowMs;
    this.#operationsMax = limits.transactionOperationsMax;
  }

  close(): void {
    this.#open = false;
  }

  get(family: string, key: Buffer): Buffer | undefined {
    const number = this.#number(family);
    const name = overlayKey(number, key);
    const pending = this.#pending(name);
    if (pending !== undefined) return pending.value;
    return this.#hotRows.holds(number) ? this.#hotRows.get(name, () => this.#engine.get(family, key)) : this.#engine.get(family, key);
  }

  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    const number = this.#number(family);
    const values: (Buffer | undefined)[] = [];
    const stored: { index: number; key: Buffer }[] = [];
    for (const [index, key] of keys.entries()) {
      const pending = this.#pending(overlayKey(number, key));
      values.push(pending?.value);
      if (pending === undefined) stored.push({ index, key });
    }
    const found = this.#engine.getMany(family, stored.map(({ key }) => key));
    for (const [at, { index }] of stored.entries()) values[index] = found[at];
    return values;
  }

  range(family: string, options: RangeOptions): Iterable<Entry> {
    const number = this.#number(family);
    return mergedRange({ engine: this.#engine, layers: this.#layers, family, familyNumber: number, options, checkOpen: () => this.#checkOpen() });
  }

  put(family: string, key: Buffer, value: Buffer): void {
    if (!Buffer.isBuffer(value)) throw new StoaError('internal', `A value for "${family}" is not a Buffer.`);
    this.#write({ family, key, value });
  }

  delete(family: string, key: Buffer): void {
    this.#write({ family, key, value: undefined });
  }

  change(change: Change): void {
    this.#checkOpen();
    this.changes.push(change);
  }

  schedule(timer: Timer): void {
    this.put(kernelFamilies.timers, timerKey(timer), Buffer.alloc(0));
  }

  unschedule(timer: Timer): void {
    this.delete(kernelFamilies.timers, timerKey(timer));
  }

  /** Checks all that an engine would refuse: there it would fail the whole group, here it fails this transaction. */
  #write(operation: WriteOperation): void {
    const number = this.#number(operation.family);
    const { length } = operation.key;
    if (!Buffer.isBuffer(operation.key) || length === 0) throw new StoaError('internal', `A key of "${operation.family}" is not a Buffer of at least one byte.`);
    if (length > keyBytesMax) throw new StoaError('too_large', `A key of ${length} bytes is longer than ${keyBytesMax} bytes.`);
    this.writes.set(overlayKey(number, operation.key), operation);
    if (this.writes.size > this.#operationsMax) {
      throw new StoaError('too_large', `A transaction holds at most ${this.#operationsMax} writes.`, { fix: 'Split the work into several transactions.' });
    }
  }

  #pending(key: string): WriteOperation | undefined {
    for (const layer of this.#layers) {
      const operation = layer.get(key);
      if (operation !== undefined) return operation;
    }
    return undefined;
  }

  #checkOpen(): void {
    if (!this.#open) throw new StoaError('internal', 'A transaction was used after its body had returned.');
  }

  #number(family: string): number {
    this.#checkOpen();
    const number = this.#familyNumbers.get(family);
    if (number === undefined) throw new StoaError('internal', `There is no family named "${family}".`);
    return number;
  }
}
