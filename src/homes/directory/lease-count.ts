/**
 * The number of live leases of agents, tasks and locks. It is counted in the background and stored, so that reading
 * it costs nothing.
 */
import { setTimeout as sleep, setImmediate as nextTurn } from 'node:timers/promises';
import type { Kernel } from './kernel/kernel.js';
import { extendedByOutages } from '../../core/outages.js';
import { lockFamilies } from './locks/rows.js';
import { registryFamilies } from './registry/families.js';
import { buckets } from './workspaces/keys.js';

const families = [registryFamilies.leases, buckets.leases, lockFamilies.locks] as const;

/** Rows read before other work can run. */
const rowsPerTurn = 500;
/** Pause between two counts. */
const pauseMs = 5_000;

/** The common fields of all families. */
interface StoredLease {
  holder: string | null;
  renewedAtMs: number;
  expiresAtMs: number;
}

export class LeaseCount {
  /** As of the last count; zero before the first. */
  live = 0;
  readonly #kernel: Kernel;
  readonly #onError: (error: unknown, about: string) => void;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(kernel: Kernel, onError: (error: unknown, about: string) => void) {
    this.#kernel = kernel;
    this.#onError = onError;
  }

  start(): void {
    this.#running = this.#run().catch((error: unknown) => {
      if (!this.#stopping.signal.aborted) this.#onError(error, 'counting leases');
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    for (;;) {
      let live = 0;
      for (const store of this.#kernel.stores)
        for (const family of families)
          for (let after: Buffer | undefined, isMore = true; isMore;) {
            const bounds = { ...(after !== undefined && { gt: after }), limit: rowsPerTurn };
            const page = Array.from(store.range(family, bounds));
            live += page.filter(({ value }) => this.#isLive(value)).length;
            after = page.at(-1)?.key;
            isMore = page.length === rowsPerTurn;
            await nextTurn(undefined, { signal });
          }
      this.live = live;
      await sleep(pauseMs, undefined, { ref: false, signal });
    }
  }

  #isLive(row: Buffer): boolean {
    // The families contain only leases as JSON.
    const { holder, renewedAtMs, expiresAtMs } = JSON.parse(row.toString()) as StoredLease;
    const { outages } = this.#kernel;
    return holder !== null && this.#kernel.nowMs() < extendedByOutages(renewedAtMs, expiresAtMs, outages);
  }
}
