/** Runs steps in a transaction that is open already, and that somebody else commits. */
import type { Results, Step, WriteRequest, Writer } from '../../core/write.js';
import { postgresSteps } from '../../homes/postgres/step.js';
import type { Work } from '../../homes/postgres/work.js';

export class OpenTransactionWriter implements Writer {
  readonly #work: Work;

  constructor(work: Work) {
    this.#work = work;
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    _request: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    const results: unknown[] = [];
    for (const step of postgresSteps(steps)) results.push(await step.run(this.#work));
    // Each result stands at the place of its step.
    return results as Results<Steps>;
  }

  /** The commit keeps answers itself. */
  async answered(): Promise<undefined> {
    return undefined;
  }
}
