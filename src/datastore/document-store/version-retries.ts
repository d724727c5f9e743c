/** Reads, changes and writes a document by its version. Tries again when another writer was faster. */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError } from '../../core/errors.js';
import { KeyQueue } from '../../core/waiting/key-queue.js';
import type { Scope } from '../model.js';

export class VersionRetries {
  readonly #attemptsMax: number;
  readonly #queue = new KeyQueue();

  constructor(attemptsMax: number) {
    this.#attemptsMax = attemptsMax;
  }

  /**
   * Writers of this process wait for each other; against other processes the version decides, and the loser
   * tries again.
   */
  run<T>(scope: Scope, key: string, attempt: () => Promise<T>): Promise<T> {
    return this.#queue.run(JSON.stringify([scope.user, scope.namespace, key]), async () => {
      for (let attempts = 1; ; attempts += 1) {
        try {
          return await attempt();
        } catch (error) {
          if (error instanceof FinalConflict) throw error.conflict;
          if (
            !(error instanceof StoaError) ||
            error.code !== 'version_conflict' ||
            attempts >= this.#attemptsMax
          )
            throw error;
          await sleep(Math.random() * Math.min(attempts, 20));
        }
      }
    });
  }
}

/** The caller asked for a version that is not the current one: trying again would not help. */
export class FinalConflict extends Error {
  constructor(readonly conflict: StoaError) {
    super(conflict.message);
  }
}
