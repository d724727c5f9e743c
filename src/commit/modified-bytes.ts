/** How much the increments and appends of one commit may work on: a short request must not make the server write without end. */
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';

export class ModifiedBytes {
  readonly #max: number;
  /** By operation: a step that runs again after a conflict is counted once. */
  readonly #sizes = new Map<number, number>();

  constructor({ commitModifiedBytesMax }: Limits) {
    this.#max = commitModifiedBytesMax;
  }

  /** Counts what the operation at `index` has written. Throws when that is too much. */
  counted<Result extends { sizeBytes: number }>(index: number, result: Result): Result {
    this.#sizes.set(index, result.sizeBytes);
    const bytes = [...this.#sizes.values()].reduce((sum, size) => sum + size, 0);
    if (bytes <= this.#max) return result;
    throw new StoaError(
      'too_large',
      `The commit increments and appends to values of ${bytes} bytes. The limit is ${this.#max} bytes (commitModifiedBytesMax).`,
      {
        fix: 'Append all items of a key in one operation, or commit in several steps.',
        details: { commitModifiedBytesMax: this.#max },
      },
    );
  }
}
