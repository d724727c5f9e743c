/** Writes of messaging on PostgreSQL and Redis, which share no transaction: one step is one write. */
import type { Caller } from '../../../core/caller.js';
import type { Results, Step, WriteRequest, Writer } from '../../../core/write.js';
import { StoaError } from '../../../core/errors.js';

export class RedisStep<Result> implements Step<Result> {
  constructor(readonly run: () => Promise<Result>) {}

  map<Shown>(show: (result: Result) => Shown): RedisStep<Shown> {
    return new RedisStep(async () => show(await this.run()));
  }

  after(act: (result: Result) => void): RedisStep<Result> {
    return this.map((result) => {
      act(result);
      return result;
    });
  }
}

export class RedisWriter implements Writer {
  readonly #checkFence: (caller: Caller) => void;

  /** `checkFence` refuses a caller whose lease has passed on. */
  constructor(checkFence: (caller: Caller) => void) {
    this.#checkFence = checkFence;
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    { caller, idempotency, checks = [] }: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    const [only] = steps;
    if (steps.length !== 1 || checks.length > 0 || (idempotency ?? null) !== null)
      throw new StoaError(
        'unsupported',
        `Messaging on PostgreSQL and Redis writes one step at a time, without checks and Idempotency-Key; got ${steps.length} steps and ${checks.length} checks.`,
        { fix: 'Write the steps one after the other, or keep messaging in the data directory.' },
      );
    if (!(only instanceof RedisStep))
      throw new StoaError('internal', 'A step of another home was given to messaging on Redis.');
    this.#checkFence(caller);
    const results: unknown[] = [await only.run()];
    // Each result stands at the place of its step.
    return results as Results<Steps>;
  }

  /** No answer is kept: a write with an Idempotency-Key is refused. */
  async answered(): Promise<undefined> {
    return undefined;
  }
}
