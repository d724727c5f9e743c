/** Writes that are not on disk yet, readable by key and in order as if they were. */
import type { WriteOperation } from './engine.js';

/**
 * A family and a key as one string that sorts as the pair does. A character a byte keeps the
 * order: JavaScript compares strings by code unit. Family numbers stay far below 2^16.
 */
export function overlayKey(familyNumber: number, key: Buffer): string {
  return String.fromCharCode(familyNumber) + key.toString('latin1');
}

export class Overlay {
  readonly #operations = new Map<string, WriteOperation>();
  /** Kept in order from the first range on; most transactions never scan, and pay nothing. */
  #sorted: string[] | undefined;
  sizeBytes = 0;

  get size(): number {
    return this.#operations.size;
  }

  get(key: string): WriteOperation | undefined {
    return this.#operations.get(key);
  }

  set(key: string, operation: WriteOperation): void {
    this.sizeBytes += operation.key.length + (operation.value?.length ?? 0);
    if (this.#sorted !== undefined && !this.#operations.has(key)) {
      this.#sorted.splice(lowerBound(this.#sorted, key), 0, key);
    }
    this.#operations.set(key, operation);
  }

  entries(): IterableIterator<[string, WriteOperation]> {
    return this.#operations.entries();
  }

  operations(): IterableIterator<WriteOperation> {
    return this.#operations.values();
  }

  /** The keys from `from` (inclusive) to `to` (exclusive), upwards or downwards. */
  cursor(from: string, to: string, reverse: boolean): OverlayCursor {
    this.#sorted ??= [...this.#operations.keys()].toSorted(byCodeUnit);
    const first = lowerBound(this.#sorted, from);
    const end = lowerBound(this.#sorted, to);
    return new OverlayCursor(this.#operations, this.#sorted.slice(first, Math.max(first, end)), reverse);
  }
}

/** A walk over a slice of an overlay, fixed at the moment it was opened. */
export class OverlayCursor {
  readonly #operations: ReadonlyMap<string, WriteOperation>;
  readonly #keys: readonly string[];
  readonly #step: number;
  #at: number;

  constructor(operations: ReadonlyMap<string, WriteOperation>, keys: readonly string[], reverse: boolean) {
    this.#operations = operations;
    this.#keys = keys;
    this.#step = reverse ? -1 : 1;
    this.#at = reverse ? keys.length - 1 : 0;
  }

  get key(): string | undefined {
    return this.#keys[this.#at];
  }

  get operation(): WriteOperation | undefined {
    const key = this.key;
    return key === undefined ? undefined : this.#operations.get(key);
  }

  advance(): void {
    this.#at += this.#step;
  }
}

/** `localeCompare` would follow a language; the engines order by bytes. */
function byCodeUnit(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** The first index whose element is not below `key`. */
function lowerBound(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
