/** Claims that wait for a task: each is woken as soon as one may be ready, without polling. */
import { limitError } from '../../core/settings/exceeds.js';
import { type ClaimFilter, accepts } from './claim-filter.js';

/** Why a claim was woken. */
export interface Wake {
  /** The labels of the task that may be ready, or null if they are not known. */
  readonly labels: readonly string[] | null;
}

/** A place in the line of a project. */
export interface Ticket {
  /**
   * Resolves with the reason when a task may be ready, and with null when the time is over, the caller is
   * gone or the server closes.
   */
  wait(waitMs: number, signal?: AbortSignal): Promise<Wake | null>;
  /** Gives the place up. Returns the reason if the claim was woken before. */
  leave(): Wake | null;
}

interface Waiter {
  readonly filter: ClaimFilter;
  readonly settle: (wake: Wake | null) => void;
}

export class ReadyWaiters {
  readonly #lines = new Map<string, Set<Waiter>>();
  readonly #max: number;
  #size = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  /** The projects in which claims wait. */
  get projects(): string[] {
    return [...this.#lines.keys()];
  }

  /**
   * Takes a place in the line. Call it in the same step that found nothing ready, so that a task
   * that becomes ready right after cannot slip past.
   */
  enter(projectId: string, filter: ClaimFilter): Ticket {
    if (this.#size >= this.#max)
      throw limitError('overloaded', {
        subject: 'With this claim the server',
        unit: 'waiting claims',
        limit: 'claimsWaitingMax',
        limits: { claimsWaitingMax: this.#max },
        received: this.#size + 1,
        advice: 'Try again shortly, or claim without waiting',
      });
    let woken: Wake | null = null;
    // The executor runs at once, so it is assigned before anybody can call it.
    let settle!: (wake: Wake | null) => void;
    const outcome = new Promise<Wake | null>((resolve) => {
      settle = (wake) => {
        woken = wake;
        resolve(wake);
      };
    });
    const waiter = { filter, settle };
    const line = this.#lines.get(projectId) ?? new Set();
    this.#lines.set(projectId, line.add(waiter));
    this.#size += 1;
    const leave = (): Wake | null => {
      this.#leave(projectId, waiter, null);
      return woken;
    };
    return {
      leave,
      wait: async (waitMs, signal) => {
        const timeout = setTimeout(leave, waitMs);
        signal?.addEventListener('abort', leave);
        if (signal?.aborted === true) leave();
        try {
          return await outcome;
        } finally {
          clearTimeout(timeout);
          signal?.removeEventListener('abort', leave);
        }
      },
    };
  }

  /**
   * Wakes those who have waited longest and would take a task with these labels, one for each task that may
   * be ready.
   */
  wake(projectId: string, labels: Wake['labels'] = null, tasks = 1): void {
    const line = this.#lines.get(projectId);
    if (line === undefined) return;
    let left = tasks;
    for (const waiter of line) {
      if (left === 0) return;
      if (labels !== null && !accepts(waiter.filter, labels)) continue;
      left -= 1;
      this.#leave(projectId, waiter, { labels });
    }
  }

  /** Wakes everybody: something may have been missed. */
  wakeAll(): void {
    for (const projectId of this.#lines.keys()) this.wake(projectId, null, Infinity);
  }

  /** Sends everybody away. */
  close(): void {
    for (const [projectId, line] of this.#lines)
      for (const waiter of line) this.#leave(projectId, waiter, null);
  }

  #leave(projectId: string, waiter: Waiter, wake: Wake | null): void {
    const line = this.#lines.get(projectId);
    if (line === undefined || !line.delete(waiter)) return;
    if (line.size === 0) this.#lines.delete(projectId);
    this.#size -= 1;
    waiter.settle(wake);
  }
}
