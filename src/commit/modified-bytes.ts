/**
 * Limits the bytes that the increments and appends of one commit change: a short request must not make the
 * server write without end.
 */
import { limitError } from '../core/settings/exceeds.js';
import type { Limits } from '../core/settings/limits.js';

export class ModifiedBytes {
  readonly #limits: Limits;
  /** By operation: a step that runs again after a conflict is counted once. */
  readonly #sizes = new Map<number, number>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Counts the bytes that the operation at `index` has written. Throws if the total exceeds the limit. */
  counted<Result extends { sizeBytes: number }>(index: number, result: Result): Result {
    this.#sizes.set(index, result.sizeBytes);
    const received = [...this.#sizes.values()].reduce((sum, size) => sum + size, 0);
    if (received <= this.#limits.commitModifiedBytesMax) return result;
    throw limitError('too_large', {
      subject: 'The commit',
      unit: 'bytes of values to increment and append to',
      limit: 'commitModifiedBytesMax',
      limits: this.#limits,
      received,
      advice: 'Append all items of a key in one operation, or commit in several steps',
    });
  }
}
