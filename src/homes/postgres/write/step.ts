/** A step of the PostgreSQL home: an asynchronous function of one database transaction. */
import type { Caller } from '../../../core/caller.js';
import type { Step } from '../../../core/write.js';
import { StoaError } from '../../../core/errors.js';
import type { Work } from './work.js';

/** What a step locks before the first statement of its write: rows of all steps are locked in one order. */
export interface RowName {
  readonly table: 'documents' | 'tasks' | 'users' | 'agents' | 'rooms' | 'locks';
  /** The key of the row as text; equal keys are one row. */
  readonly key: string;
}

/** Steps of one write that share a statement, when they are the whole write, without key, fence and checks. */
export interface Joined<Result> {
  /**
   * Writes all items or none, and returns a result for each. Steps with the same function can be joined. It
   * checks the caller's token itself.
   */
  readonly write: (caller: Caller, items: readonly unknown[]) => Promise<unknown[]>;
  readonly item: unknown;
  readonly show: (written: unknown) => Result;
}

export class PostgresStep<Result> implements Step<Result> {
  constructor(
    readonly locks: readonly RowName[],
    /** May run again after a conflict: it touches memory only through `work.afterCommit`. */
    readonly run: (work: Work) => Promise<Result>,
    /**
     * A cheaper way when the step is the whole write, without key, fence and checks. It checks the caller's
     * token itself.
     */
    readonly alone?: ((caller: Caller) => Promise<Result>) | undefined,
    /**
     * Sends the statement that locks and reads the rows in `locks`, for `run` to find. Of the steps of one
     * write, those whose rows no other step names read ahead, all in one round trip.
     */
    readonly readAhead?: ((work: Work) => void) | undefined,
    readonly joined?: Joined<Result> | undefined,
  ) {}

  map<Shown>(show: (result: Result) => Shown): PostgresStep<Shown> {
    const { alone, joined } = this;
    return new PostgresStep(
      this.locks,
      async (work) => show(await this.run(work)),
      alone && (async (caller) => show(await alone(caller))),
      this.readAhead,
      joined && { ...joined, show: (written) => show(joined.show(written)) },
    );
  }

  after(act: (result: Result) => void): PostgresStep<Result> {
    const { alone, joined } = this;
    const acted = (result: Result): Result => {
      act(result);
      return result;
    };
    return new PostgresStep(
      this.locks,
      async (work) => {
        const result = await this.run(work);
        work.afterCommit(() => act(result));
        return result;
      },
      alone && (async (caller) => acted(await alone(caller))),
      this.readAhead,
      joined && { ...joined, show: (written) => acted(joined.show(written)) },
    );
  }
}

/** The steps of a write as this home makes them. A step of another home is a fault of the composition. */
export function postgresSteps(steps: readonly Step<unknown>[]): PostgresStep<unknown>[] {
  return steps.map((one) => {
    if (one instanceof PostgresStep) return one;
    throw new StoaError('internal', 'A step of another home was given to PostgreSQL.');
  });
}
