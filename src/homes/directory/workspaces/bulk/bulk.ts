/**
 * Work that is too large for one transaction. A mark says what to do, and steps follow until the mark is
 * removed, also after a restart.
 */
import { prefixRange } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { buckets, metaKey } from '../keys.js';

export type BulkKind = 'purge' | 'dependants' | 'release' | 'reseal';

/**
 * One bounded step of the work in the mark's value. Returns the value for the next step, or null when
 * everything is done.
 */
type BulkStep = (tx: Transaction, value: string) => string | null;

const prefix = Buffer.from('meta:work:');
const retryMs = 60_000;

export function bulkKey(kind: BulkKind, name: string): Buffer {
  return metaKey('work', kind, name);
}

/** The value of a mark; undefined if there is no such work. */
export function bulkMark(reader: Reader, kind: BulkKind, name: string): string | undefined {
  return reader.get(buckets.metadata, bulkKey(kind, name))?.toString();
}

/** Marks the work in the transaction that needs it. */
export function markBulk(tx: Transaction, kind: BulkKind, name: string, value: string): void {
  tx.put(buckets.metadata, bulkKey(kind, name), Buffer.from(value));
}

export interface BulkWorkOptions {
  stores: readonly Store[];
  steps: Record<BulkKind, BulkStep>;
  /** A step failed; it is tried again later. */
  onError: (error: unknown) => void;
}

export class BulkWork {
  readonly #options: BulkWorkOptions;
  #running: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #kicked = false;
  #closing = false;

  constructor(options: BulkWorkOptions) {
    this.#options = options;
  }

  /** Looks for marks when the transaction that wrote them is on disk. */
  kickAfter(tx: Transaction): void {
    tx.onDurable(() => this.kick());
  }

  /** Looks for marks soon. */
  kick(): void {
    if (this.#kicked || this.#closing) return;
    this.#kicked = true;
    setImmediate(() => void this.finish());
  }

  /** Resolves when no mark is left, or a step has failed. */
  async finish(): Promise<void> {
    this.#kicked = false;
    await this.#running;
    if (this.#closing) return;
    this.#running = this.#run();
    await this.#running;
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearTimeout(this.#retry);
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      for (const store of this.#options.stores)
        while (!this.#closing && (await store.transact((tx) => this.#step(tx))));
    } catch (error) {
      if (this.#closing) return;
      this.#options.onError(error);
      this.#retry = setTimeout(() => this.kick(), retryMs);
      this.#retry.unref();
    }
  }

  /** False if there was nothing to do. */
  #step(tx: Transaction): boolean {
    for (const { key, value } of tx.range(buckets.metadata, { ...prefixRange(prefix), limit: 1 })) {
      const [, , kind] = key.toString().split(':');
      // Only markBulk writes under this prefix.
      const next = this.#options.steps[kind as BulkKind](tx, value.toString());
      if (next === null) tx.delete(buckets.metadata, key);
      else tx.put(buckets.metadata, key, Buffer.from(next));
      return true;
    }
    return false;
  }
}
