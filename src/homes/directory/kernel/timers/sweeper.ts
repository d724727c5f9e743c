/** Runs due timers in order of time, in small steps. */
import { StoaError } from '../../../../core/errors.js';
import { Periodic } from '../../../../core/waiting/periodic.js';
import { kernelFamilies } from '../families.js';
import { isStoreRefusal } from '../refusals.js';
import { type Store } from '../store.js';
import { timerKey, timerOf } from './timers.js';
import type { Timer, Transaction } from '../transaction.js';

/**
 * Handles a due timer inside the transaction that removes it. The record may have changed since the timer was
 * set, so the handler checks it and sets another timer if it is too early.
 */
export type TimerHandler = (tx: Transaction, reference: Buffer, atMs: number) => void;

/** A timer whose handler failed is tried again after this pause. */
const retryMs = 60_000;

export interface SweeperOptions {
  store: Store;
  /** Pause between two checks of the clock. */
  intervalMs?: number;
  /** A handler failed; its timer is tried again later. */
  onError: (error: unknown, timer: Timer) => void;
}

export class Sweeper {
  readonly #store: Store;
  readonly #ticks: Periodic;
  readonly #onError: SweeperOptions['onError'];
  readonly #handlers = new Map<string, TimerHandler>();
  #stopping = false;

  constructor(options: SweeperOptions) {
    this.#store = options.store;
    this.#onError = options.onError;
    this.#ticks = new Periodic({
      everyMs: options.intervalMs ?? 1_000,
      run: async () => void (await this.sweep()),
      // The store refuses writes at the moment. Due timers stay due.
      onError: (error) =>
        this.#onError(error, { atMs: this.#store.nowMs(), kind: 'sweep', reference: Buffer.alloc(0) }),
    });
  }

  handle(kind: string, handler: TimerHandler): void {
    this.#handlers.set(kind, handler);
  }

  start(): void {
    this.#ticks.start();
  }

  /** Finishes the current step, but not everything that is due. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#ticks.close();
  }

  /** Handles all timers that are due, step by step, and returns their number. */
  async sweep(): Promise<number> {
    const end = timerKey({ atMs: this.#store.nowMs() + 1, kind: '', reference: Buffer.alloc(0) });
    let handled = 0;
    let done: Buffer | undefined;
    do {
      const step = this.#between(done, end);
      // Only forwards: a handler that sets a timer in the past would otherwise keep the sweeper busy forever.
      done = step.at(-1);
      if (done === undefined) return handled;
      await this.#handleStep(step);
      handled += step.length;
    } while (!this.#stopping);
    return handled;
  }

  /** How far the sweeper is behind: the age of the oldest timer that is due. */
  backlogMs(): number {
    for (const { key } of this.#store.range(kernelFamilies.timers, { limit: 1 })) {
      return Math.max(0, this.#store.nowMs() - timerOf(key).atMs);
    }
    return 0;
  }

  #between(after: Buffer | undefined, end: Buffer): Buffer[] {
    const bounds = { ...(after && { gt: after }), lt: end, limit: this.#store.limits.sweepStepMax };
    return Array.from(this.#store.range(kernelFamilies.timers, bounds), ({ key }) => key);
  }

  async #handleStep(keys: readonly Buffer[]): Promise<void> {
    try {
      await this.#store.transact((tx) => {
        for (const key of keys) this.#handleOne(tx, key);
      });
    } catch (error) {
      if (isStoreRefusal(error)) throw error;
      await Promise.all(keys.map((key) => this.#handleAlone(key)));
    }
  }

  /** After a step failed, each of its timers gets its own transaction, so that one cannot block the rest. */
  async #handleAlone(key: Buffer): Promise<void> {
    try {
      await this.#store.transact((tx) => this.#handleOne(tx, key));
    } catch (error) {
      if (isStoreRefusal(error)) throw error;
      const timer = timerOf(key);
      this.#onError(error, timer);
      await this.#store.transact((tx) => {
        tx.unschedule(timer);
        tx.schedule({ ...timer, atMs: tx.nowMs + retryMs });
      });
    }
  }

  #handleOne(tx: Transaction, key: Buffer): void {
    if (tx.get(kernelFamilies.timers, key) === undefined) return;
    const timer = timerOf(key);
    const handler = this.#handlers.get(timer.kind);
    if (handler === undefined)
      throw new StoaError('internal', `No handler is registered for timers of kind "${timer.kind}".`);
    tx.unschedule(timer);
    handler(tx, timer.reference, timer.atMs);
  }
}
