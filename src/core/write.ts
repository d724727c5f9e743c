/** The one way to write: ports make steps, and only a home runs them, all in one transaction or none. */
import { StoaError } from './errors.js';
import type { Caller } from './caller.js';
import type { Idempotency } from './idempotency.js';

/** One verb with checked arguments, not run yet. A port makes it; only its home runs it, perhaps twice. */
export interface Step<Result> {
  /** Shows the result in another form, inside the transaction. `show` must not wait. */
  map<Shown>(show: (result: Result) => Shown): Step<Shown>;
  /** Adds what changes in memory once the write stands. A repeat under an Idempotency-Key does not do it again. */
  after(act: (result: Result) => void): Step<Result>;
}

/** Which part of a write refused it: the check or the step at this index. */
export interface Refused {
  readonly part: 'check' | 'step';
  readonly index: number;
}

export interface WriteRequest {
  /** Its fence is checked in the same transaction. */
  readonly caller: Caller;
  /** The answer is kept in the same transaction, and a repeat gets it without running a step. */
  readonly idempotency?: Idempotency | null | undefined;
  /** Must hold before the first step runs. */
  readonly checks?: readonly Step<void>[] | undefined;
  /** Says which part of the write threw an error. Faults of the database are not passed to it. */
  readonly onRefused?: ((refused: Refused, error: unknown) => unknown) | undefined;
}

export type ResultOf<S> = S extends Step<infer Result> ? Result : never;
export type Results<Steps extends readonly Step<unknown>[]> = {
  -readonly [Index in keyof Steps]: ResultOf<Steps[Index]>;
};

export interface Writer {
  /** Idempotency key and answer, fence, checks, steps and feed: the same transaction. */
  write<const Steps extends readonly Step<unknown>[]>(
    request: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>>;
  /** What an earlier write under this key answered, or undefined. Preparing a repeat again may not be possible. */
  answered(caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined>;
}

/** What was prepared before the write does not hold any more: prepare it again. */
export class Outdated extends Error {
  constructor(what: string) {
    super(`${what} changed while the write was prepared.`);
    this.name = 'Outdated';
  }
}

/** How often a write is prepared before its caller has to try again. */
const preparationsMax = 5;

/** Prepares and writes; prepares again when something it relied on has changed in between. */
export async function prepareAndWrite<T>(attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Outdated)) throw error;
      if (attempts >= preparationsMax)
        throw new StoaError('overloaded', `${error.message} It was tried ${attempts} times.`, {
          fix: 'Try again shortly.',
          cause: error,
        });
    }
  }
}

/** A write of one step. */
export async function writeOne<Result>(
  writer: Writer,
  request: WriteRequest,
  step: Step<Result>,
): Promise<Result> {
  const [result] = await writer.write(request, [step]);
  return result;
}
