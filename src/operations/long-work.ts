/** Work that is not a transaction, like a backup, done once for an Idempotency-Key. */
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import type { Step, Writer } from '../core/write.js';
import { StoaError } from '../core/errors.js';

interface Running {
  readonly fingerprint: string;
  readonly answer: Promise<unknown>;
}

export class LongWork {
  readonly #writer: Writer;
  readonly #stepOf: (result: unknown) => Step<unknown>;
  readonly #running = new Map<string, Running>();

  /** `stepOf` makes a step of the home that only answers. */
  constructor(writer: Writer, stepOf: (result: unknown) => Step<unknown>) {
    this.#writer = writer;
    this.#stepOf = stepOf;
  }

  /**
   * A repeat while the work runs waits for it, and a later one gets the kept answer. The answer is
   * kept after the work: if the server dies before that, a repeat does the work again.
   */
  async once<T>(caller: Caller, idempotency: Idempotency | null, work: () => Promise<T>): Promise<T> {
    if (idempotency === null) return work();
    const name = JSON.stringify([idempotency.scope, idempotency.key]);
    const running = this.#running.get(name);
    if (running !== undefined && running.fingerprint !== idempotency.fingerprint)
      throw new StoaError('idempotency_mismatch', 'The Idempotency-Key is in use by a different request.', {
        fix: 'Use a new key for a new request.',
      });
    // What runs under the name was asked for by the same request.
    if (running !== undefined) return running.answer as Promise<T>;
    const answer = this.#answer(caller, idempotency, work);
    this.#running.set(name, { fingerprint: idempotency.fingerprint, answer });
    try {
      return await answer;
    } finally {
      this.#running.delete(name);
    }
  }

  async #answer<T>(caller: Caller, idempotency: Idempotency, work: () => Promise<T>): Promise<T> {
    const [before] = (await this.#writer.answered(caller, idempotency)) ?? [];
    // It was kept by the same request.
    if (before !== undefined) return before as T;
    const result = await work();
    await this.#writer.write({ caller, idempotency }, [this.#stepOf(result)]);
    return result;
  }
}
