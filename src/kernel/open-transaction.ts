/** A transaction while its body runs: writes of its own on top of all that is pending. */
import { StoaError } from '../errors.js';
import type { Limits } from '../limits.js';
import type { Engine, Entry, RangeOptions, WriteOperation } from './engine.js';
import { kernelFamilies } from './families.js';
import { Overlay, overlayKey } from './overlay.js';
import { mergedRange } from './range.js';
import { timerKey } from './timers.js';
import type { Change, Timer, Transaction } from './transaction.js';

/** Unusable after its body has returned. */
export class OpenTransaction implements Transaction {
  readonly writes = new Overlay();
  readonly changes: Change[] = [];
  readonly nowMs: number;
  readonly #familyNumbers: ReadonlyMap<string, number>;
  readonly #engine: Engine;
  /** Newest first; a key found in an earlier layer hides the later ones. */
  readonly #layers: readonly Overlay[];
  readonly #operationsMax: number;
  #open = true;

  constructor(familyNumbers: ReadonlyMap<string, number>, engine: Engine, pending: readonly (Overlay | undefined)[], nowMs: number, limits: Limits) {
    this.#familyNumbers = familyNumbers;
    this.#engine = engine;
    this.#layers = [this.writes, ...pending.filter((layer) => layer !== undefined)];
    this.nowMs = nowMs;
    this.#operationsMax = limits.transactionOperationsMax;
  }

  close(): void {
    this.#open = false;
  }

  get(family: string, key: Buffer): Buffer | undefined {
    const pending = this.#pending(overlayKey(this.#number(family), key));
    return pending === undefined ? this.#engine.get(family, key) : pending.value;
  }

  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    return keys.map((key) => this.get(family, key));
  }

  range(family: string, options: RangeOptions): Iterable<Entry> {
    return mergedRange(this.#engine, this.#layers, family, this.#number(family), options);
  }

  put(family: string, key: Buffer, value: Buffer): void {
    this.#write({ family, key, value });
  }

  delete(family: string, key: Buffer): void {
    this.#write({ family, key, value: undefined });
  }

  change(change: Change): void {
    this.#number(kernelFamilies.changes);
    this.changes.push(change);
  }

  schedule(timer: Timer): void {
    this.put(kernelFamilies.timers, timerKey(timer), Buffer.alloc(0));
  }

  unschedule(timer: Timer): void {
    this.delete(kernelFamilies.timers, timerKey(timer));
  }

  #write(operation: WriteOperation): void {
    this.writes.set(overlayKey(this.#number(operation.family), operation.key), operation);
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

  #number(family: string): number {
    if (!this.#open) throw new StoaError('internal', 'A transaction was used after its body had returned.');
    const number = this.#familyNumbers.get(family);
    if (number === undefined) throw new StoaError('internal', `There is no family named "${family}".`);
    return number;
  }
}
