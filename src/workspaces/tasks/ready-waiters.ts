/** Claims that wait for a task: each is woken as soon as one may be ready, without polling. */
import { limitError } from '../../core/settings/exceeds.js';

/** A place in the line of a project. */
export interface Ticket {
  /**
   * Resolves true when a task may be ready, false when the time is over, the caller is gone or the server
   * closes.
   */
  wait(waitMs: number, signal?: AbortSignal): Promise<boolean>;
  /** Gives the place up; false when it was called already. */
  leave(): boolean;
}

export class ReadyWaiters {
  readonly #lines = new Map<string, Set<(woken: boolean) => void>>();
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
  enter(projectId: string): Ticket {
    if (this.#size >= this.#max)
      throw limitError('overloaded', {
        subject: 'With this claim the server',
        unit: 'waiting claims',
        limit: 'claimsWaitingMax',
        limits: { claimsWaitingMax: this.#max },
        received: this.#size + 1,
        advice: 'Try again shortly, or claim without waiting',
      });
    // The executor runs at once, so it is assigned before anybody can call it.
    let settle!: (woken: boolean) => void;
    const outcome = new Promise<boolean>((resolve) => {
      settle = resolve;
    });
    const line = this.#lines.get(projectId) ?? new Set();
    this.#lines.set(projectId, line.add(settle));
    this.#size += 1;
    const leave = (): boolean => this.#leave(projectId, settle, false);
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

  /** Wakes those who have waited longest, one for each task that may be ready. */
  wake(projectId: string, tasks = 1): void {
    const line = this.#lines.get(projectId);
    if (line === undefined) return;
    let left = tasks;
    for (const settle of line) {
      if (left === 0) return;
      left -= 1;
      this.#leave(projectId, settle, true);
    }
  }

  /** Wakes everybody: something may have been missed. */
  wakeAll(): void {
    for (const projectId of this.#lines.keys()) this.wake(projectId, Infinity);
  }

  /** Sends everybody away. */
  close(): void {
    for (const [projectId, line] of this.#lines)
      for (const settle of line) this.#leave(projectId, settle, false);
  }

  #leave(projectId: string, settle: (woken: boolean) => void, woken: boolean): boolean {
    const line = this.#lines.get(projectId);
    if (line === undefined || !line.delete(settle)) return false;
    if (line.size === 0) this.#lines.delete(projectId);
    this.#size -= 1;
    settle(woken);
    return true;
  }
}
