/** The only way to write: ports make steps, and a home runs them, all in one transaction or none. */
import { StoaError } from './errors.js';
import type { Caller } from './caller.js';
import type { Idempotency } from './idempotency/idempotency.js';

/**
 * One write with validated arguments that has not run yet. A port makes it. Only its home runs it, possibly
 * twice.
 */
export interface Step<Result> {
  /** Converts the result inside the transaction. `show` must not wait. */
  map<Shown>(show: (result: Result) => Shown): Step<Shown>;
  /**
   * Adds a change in memory that is made after the write is durable. A repeat under an Idempotency-Key does
   * not make it again.
   */
  after(act: (result: Result) => void): Step<Result>;
}

/** The part of a write that refused it: the check or the step at this index. */
export interface Refused {
  readonly part: 'check' | 'step';
  readonly index: number;
}

export interface WriteRequest {
  /** The caller's fence is checked in the same transaction. */
  readonly caller: Caller;
  /** The answer is stored in the same transaction. A repeat gets it without running a step. */
  readonly idempotency?: Idempotency | null | undefined;
  /**
   * Whether the results are an answer to store. The default is true. A write without an answer has written
   * nothing, so it does not make the caller's agent.
   */
  readonly isAnswer?: ((results: readonly unknown[]) => boolean) | undefined;
  /** Steps that must succeed before the first step runs. */
  readonly checks?: readonly Step<void>[] | undefined;
  /** Receives an error and the part of the write that threw it. Database faults are not passed to it. */
  readonly onRefused?: ((refused: Refused, error: unknown) => unknown) | undefined;
}

type ResultOf<S> = S extends Step<infer Result> ? Result : never;
export type Results<Steps extends readonly Step<unknown>[]> = {
  -readonly [Index in keyof Steps]: ResultOf<Steps[Index]>;
};

export interface Writer {
  /** The Idempotency-Key, its answer, fence, checks, steps and feed are in the same transaction. */
  write<const Steps extends readonly Step<unknown>[]>(
    request: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>>;
  /**
   * The answer of an earlier write under this key, or undefined. Preparing a repeat again may not be
   * possible.
   */
  answered(caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined>;
}

/** The state that a write was prepared from has changed: the write must be prepared again. */
export class Outdated extends Error {
  constructor(what: string) {
    super(`${what} changed while the write was prepared.`);
    this.name = 'Outdated';
  }
}

/** How often a write is prepared before its caller must try again. */
const preparationsMax = 5;

/** Prepares and writes. It prepares again if the state changed in between. */
export async function prepareAndWrite<T>(attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof Outdated)) throw error;
      if (attempts >= preparationsMax)
        throw new StoaError(
          'overloaded',
          `${error.message} The write was prepared ${attempts} times (preparationsMax).`,
          {
            fix: 'Try again shortly.',
            cause: error,
          },
        );
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
