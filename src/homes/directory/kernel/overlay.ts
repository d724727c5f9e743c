/** Writes that are not on disk yet. They can be read by key and in order, like rows on disk. */
import type { WriteOperation } from './engine.js';

/**
 * A key as a string that sorts like its bytes: one character per byte, because JavaScript compares strings by
 * code unit.
 */
export function overlayKey(key: Buffer): string {
  return key.toString('latin1');
}

/** The writes of a group, family by family. Families are identified by small numbers. */
export class Overlay<Operation extends WriteOperation = WriteOperation> {
  readonly #families: (FamilyWrites<Operation> | undefined)[] = [];
  sizeBytes = 0;

  get(family: number, key: string): Operation | undefined {
    return this.#families[family]?.get(key);
  }

  set(family: number, key: string, operation: Operation): void {
    this.sizeBytes += operation.key.length + (operation.value?.length ?? 0);
    (this.#families[family] ??= new FamilyWrites()).set(key, operation);
  }

  /** Restores the previous entry of a key, or none. The caller restores the size. */
  restore(family: number, key: string, before: Operation | undefined): void {
    this.#families[family]?.restore(key, before);
  }

  /** The writes of one family, or undefined if there are none. */
  of(family: number): FamilyWrites<Operation> | undefined {
    return this.#families[family];
  }

  operations(): Operation[] {
    const operations: Operation[] = [];
    for (const writes of this.#families)
      if (writes !== undefined) for (const operation of writes.operations()) operations.push(operation);
    return operations;
  }
}

interface Write<Operation> {
  readonly key: string;
  readonly operation: Operation;
}

/**
 * Up to this many writes since the last range are inserted one by one; beyond it everything is sorted again.
 */
const placedMax = 32;

export class FamilyWrites<Operation extends WriteOperation = WriteOperation> {
  readonly #operations = new Map<string, Operation>();
  /**
   * Sorted as of the last range. Most families are never scanned and never sorted. Cursors walk over it, so
   * it is never changed in place.
   */
  #sorted: readonly Write<Operation>[] | undefined;
  /** The keys that were written since. */
  #unsorted: string[] = [];

  get(key: string): Operation | undefined {
    return this.#operations.get(key);
  }

  set(key: string, operation: Operation): void {
    if (this.#sorted !== undefined) this.#unsorted.push(key);
    this.#operations.set(key, operation);
  }

  restore(key: string, before: Operation | undefined): void {
    if (this.#sorted !== undefined) this.#unsorted.push(key);
    if (before === undefined) this.#operations.delete(key);
    else this.#operations.set(key, before);
  }

  keys(): IterableIterator<string> {
    return this.#operations.keys();
  }

  operations(): IterableIterator<Operation> {
    return this.#operations.values();
  }

  /**
   * The current writes from `from` (inclusive) to `to` (exclusive; undefined for the end), upwards or
   * downwards.
   */
  cursor(from: string, to: string | undefined, reverse: boolean): OverlayCursor {
    const sorted = this.#inOrder();
    const first = lowerBound(sorted, from);
    return new OverlayCursor(
      sorted,
      first,
      to === undefined ? sorted.length : Math.max(first, lowerBound(sorted, to)),
      reverse,
    );
  }

  #inOrder(): readonly Write<Operation>[] {
    const before = this.#sorted;
    if (before !== undefined && this.#unsorted.length === 0) return before;
    const isNear = before !== undefined && this.#unsorted.length <= placedMax;
    this.#sorted = isNear
      ? this.#placed(before)
      : Array.from(this.#operations, ([key, operation]) => ({ key, operation })).toSorted(byCodeUnit);
    this.#unsorted = [];
    return this.#sorted;
  }

  #placed(sorted: readonly Write<Operation>[]): readonly Write<Operation>[] {
    const changed = [...sorted];
    for (const key of this.#unsorted) {
      const at = lowerBound(changed, key);
      const exists = changed[at]?.key === key;
      const operation = this.#operations.get(key);
      if (operation === undefined) changed.splice(at, exists ? 1 : 0);
      else changed.splice(at, exists ? 1 : 0, { key, operation });
    }
    return changed;
  }
}

/** A walk over a part of an overlay, fixed at the moment it was opened. */
export class OverlayCursor {
  readonly #writes: readonly Write<WriteOperation>[];
  readonly #first: number;
  readonly #end: number;
  readonly #step: number;
  #at: number;

  constructor(writes: readonly Write<WriteOperation>[], first: number, end: number, reverse: boolean) {
    this.#writes = writes;
    this.#first = first;
    this.#end = end;
    this.#step = reverse ? -1 : 1;
    this.#at = reverse ? end - 1 : first;
  }

  get key(): string | undefined {
    return this.#write?.key;
  }

  get operation(): WriteOperation | undefined {
    return this.#write?.operation;
  }

  advance(): void {
    this.#at += this.#step;
  }

  get #write(): Write<WriteOperation> | undefined {
    return this.#at >= this.#first && this.#at < this.#end ? this.#writes[this.#at] : undefined;
  }
}

/** `localeCompare` would follow a language; the engines order by bytes. No two writes have the same key. */
function byCodeUnit(a: Write<WriteOperation>, b: Write<WriteOperation>): number {
  return a.key < b.key ? -1 : 1;
}

/** The first index whose write is not below `key`. */
function lowerBound(sorted: readonly Write<WriteOperation>[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as Write<WriteOperation>).key < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
