/** Writes that are not on disk yet, readable by key and in order as if they were. */
import type { WriteOperation } from './engine.js';

/**
 * A family and a key as one string that sorts as the pair does. A character a byte keeps the
 * order: JavaScript compares strings by code unit. Family numbers stay far below 2^16.
 */
export function overlayKey(familyNumber: number, key: Buffer): string {
  return String.fromCharCode(familyNumber) + key.toString('latin1');
}

interface Write {
  readonly key: string;
  readonly operation: WriteOperation;
}

export class Overlay {
  readonly #operations = new Map<string, WriteOperation>();
  /** Kept in order from the first range on; most transactions never scan, and pay nothing. */
  #sorted: Write[] | undefined;
  /** A cursor walks over `#sorted`: the next write goes to a copy of it. */
  #walked = false;
  sizeBytes = 0;

  get size(): number {
    return this.#operations.size;
  }

  get(key: string): WriteOperation | undefined {
    return this.#operations.get(key);
  }

  set(key: string, operation: WriteOperation): void {
    this.sizeBytes += operation.key.length + (operation.value?.length ?? 0);
    if (this.#sorted !== undefined) this.#place(this.#sorted, { key, operation }, this.#operations.has(key));
    this.#operations.set(key, operation);
  }

  keys(): IterableIterator<string> {
    return this.#operations.keys();
  }

  entries(): IterableIterator<[string, WriteOperation]> {
    return this.#operations.entries();
  }

  operations(): IterableIterator<WriteOperation> {
    return this.#operations.values();
  }

  /** The writes from `from` (inclusive) to `to` (exclusive), upwards or downwards, as they are now. */
  cursor(from: string, to: string, reverse: boolean): OverlayCursor {
    this.#sorted ??= Array.from(this.#operations, ([key, operation]) => ({ key, operation })).toSorted(byCodeUnit);
    this.#walked = true;
    const first = lowerBound(this.#sorted, from);
    return new OverlayCursor(this.#sorted, first, Math.max(first, lowerBound(this.#sorted, to)), reverse);
  }

  #place(sorted: Write[], write: Write, replaces: boolean): void {
    const changeable = this.#walked ? [...sorted] : sorted;
    changeable.splice(lowerBound(changeable, write.key), replaces ? 1 : 0, write);
    this.#sorted = changeable;
    this.#walked = false;
  }
}

/** A walk over a part of an overlay, fixed at the moment it was opened. */
export class OverlayCursor {
  readonly #writes: readonly Write[];
  readonly #first: number;
  readonly #end: number;
  readonly #step: number;
  #at: number;

  constructor(writes: readonly Write[], first: number, end: number, reverse: boolean) {
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

  get #write(): Write | undefined {
    return this.#at >= this.#first && this.#at < this.#end ? this.#writes[this.#at] : undefined;
  }
}

/** `localeCompare` would follow a language; the engines order by bytes. No two writes have the same key. */
function byCodeUnit(a: Write, b: Write): number {
  return a.key < b.key ? -1 : 1;
}

/** The first index whose write is not below `key`. */
function lowerBound(sorted: readonly Write[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as Write).key < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
