/** How much the increments and appends of one commit may work on: a short request must not make an answer without end. */
import { StoaError } from '../errors.js';
import type { Limits } from '../limits.js';
import type { Operation } from './schemas.js';

export class ModifiedBytes {
  readonly #max: number;
  #bytes = 0;

  constructor({ commitModifiedBytesMax }: Limits) {
    this.#max = commitModifiedBytesMax;
  }

  /** Counts what an operation has written, where it read it before. Throws when that is too much. */
  add({ op }: Operation, result: unknown): void {
    if (op !== 'data.append' && op !== 'data.increment') return;
    // Both answer what they wrote.
    this.#bytes += (result as { sizeBytes: number }).sizeBytes;
    if (this.#bytes <= this.#max) return;
    throw new StoaError(
      'too_large',
      `The values that a commit increments and appends to are at most ${this.#max} bytes together.`,
      {
        fix: 'Append all items of a key in one operation, or commit in several steps.',
        details: { commitModifiedBytesMax: this.#max },
      },
    );
  }
}
