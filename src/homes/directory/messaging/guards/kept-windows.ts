/**
 * Keeps rate-limit windows over a restart and a crash: changes are written every few seconds and when the
 * server stops.
 */
import { Periodic } from '../../../../core/waiting/periodic.js';
import { keyBytesMax } from '../../kernel/engine.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Transaction } from '../../kernel/transaction.js';
import type { KeptWindow, SlidingWindows } from '../../../../messaging/gate/sliding-windows.js';
import { decodeOrUndefined, encode, families } from '../rows.js';

/** A window with more times than this, which only very high limits allow, keeps the newest. */
const timesKeptMax = 1_000;

interface KeptWindowsOptions {
  kernel: Kernel;
  /** By the first word of the names of their rows. */
  kinds: Readonly<Record<string, SlidingWindows>>;
  onError: (error: unknown, about: string) => void;
}

/** A write for each request would be too expensive, so a crash loses the requests of the last few seconds. */
export class KeptWindows {
  readonly #options: KeptWindowsOptions;
  /** Names of the stored rows → when their windows are empty. */
  readonly #rows = new Map<string, number>();
  readonly #keeping: Periodic;

  constructor(options: KeptWindowsOptions) {
    this.#options = options;
    this.#keeping = new Periodic({
      everyMs: options.kernel.limits.rateWindowsKeptEverySeconds * 1_000,
      run: () => this.#keep(),
      onError: (error) => options.onError(error, 'writing the rate-limit windows (the server tries again)'),
    });
  }

  /** Loads the stored windows. */
  async start(): Promise<void> {
    const { kernel, kinds } = this.#options;
    const nowMs = kernel.nowMs();
    const over: Buffer[] = [];
    for (const { key, value } of kernel.root.range(families.rateWindows, {})) {
      const name = key.toString();
      const windows = kinds[name.split(' ', 1)[0] as string];
      // Windows that cannot be read begin empty.
      const kept = decodeOrUndefined<KeptWindow[]>(value) ?? [];
      const counting = kept.filter((window) => endsAtMs(window) > nowMs);
      for (const window of counting) windows?.restore(window);
      if (windows === undefined || counting.length === 0) over.push(Buffer.from(key));
      else this.#rows.set(name, Math.max(...counting.map(endsAtMs)));
    }
    if (over.length > 0)
      await kernel.root.transact((tx) => over.forEach((key) => tx.delete(families.rateWindows, key)));
    this.#keeping.start();
  }

  async close(): Promise<void> {
    await this.#keeping.runNow();
    await this.#keeping.close();
  }

  async #keep(): Promise<void> {
    const { kernel, kinds } = this.#options;
    // Writers get the error that refuses writes. That windows are not written either is not reported again.
    if (kernel.root.stopped !== undefined) return;
    const nowMs = kernel.nowMs();
    const changed = Object.entries(kinds).map(([kind, windows]) => ({
      kind,
      windows,
      kept: windows.takeChanged(nowMs),
    }));
    const over = [...this.#rows].filter(([, untilMs]) => untilMs <= nowMs).map(([name]) => name);
    if (over.length === 0 && changed.every(({ kept }) => kept.length === 0)) return;
    try {
      await kernel.root.transact((tx) => {
        for (const name of over) this.#remove(tx, name);
        for (const { kind, kept } of changed)
          for (const window of kept) this.#write(tx, `${kind} ${window.key}`, window);
      });
    } catch (error) {
      for (const { windows, kept } of changed) windows.putBack(kept.map(({ key }) => key));
      throw error;
    }
  }

  #write(tx: Transaction, name: string, window: KeptWindow): void {
    if (window.times.length === 0) return this.#remove(tx, name);
    const key = Buffer.from(name);
    const isFull = !this.#rows.has(name) && this.#rows.size >= this.#options.kernel.limits.rateWindowsKeptMax;
    if (isFull || key.length > keyBytesMax) return;
    this.#rows.set(name, endsAtMs(window));
    tx.put(
      families.rateWindows,
      key,
      encode([{ ...window, times: window.times.slice(-timesKeptMax) }] satisfies KeptWindow[]),
    );
  }

  #remove(tx: Transaction, name: string): void {
    if (this.#rows.delete(name)) tx.delete(families.rateWindows, Buffer.from(name));
  }
}

function endsAtMs({ times, windowMs }: KeptWindow): number {
  return (times.at(-1) ?? 0) + windowMs;
}
