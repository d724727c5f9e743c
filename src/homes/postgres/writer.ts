/** Writes of the PostgreSQL home: key, checks, steps and fence in one database transaction. */
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Refused, Results, Step, WriteRequest, Writer } from '../../core/write.js';
import { type PostgresSql, TryAgain, isConcurrency, transaction } from './connection.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { type DocumentsOf, findAnswer, keepAnswer, lockAnswer } from './kept-answers.js';
import { lockRows } from './locks.js';
import { type PostgresStep, postgresSteps } from './step.js';
import { Work } from './work.js';

export interface PostgresWriterOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  /** Milliseconds since 1970 by the database's clock. */
  readonly nowMs: () => number;
  /** Refuses a caller whose lease has passed on. Called after the steps: the row that it locks comes before the changes are numbered. */
  readonly checkFence: (caller: Caller, work: Work) => void | Promise<void>;
  /** Kept answers count against a user's bytes, together with these documents. Missing where another database has them. */
  readonly documentsOf?: DocumentsOf | undefined;
}

/** Faults of the database belong to no step: they are tried again, or end the request. */
const databaseFaults: ReadonlySet<string> = new Set([
  'engine',
  'backend_unavailable',
  'disk_full',
  'overloaded',
  'internal',
]);

export class PostgresWriter implements Writer {
  readonly #options: PostgresWriterOptions;

  constructor(options: PostgresWriterOptions) {
    this.#options = options;
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    request: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    const checks = postgresSteps(request.checks ?? []);
    const run = postgresSteps(steps);
    const alone = aloneOf(request, checks, run);
    if (alone !== undefined) return [await alone()] as unknown as Results<Steps>;
    const results = await this.#transact((work) => this.#runAll(work, request, checks, run));
    // Each result stands at the place of its step.
    return results as Results<Steps>;
  }

  /** A transaction of its own for a step that runs alone. */
  transact<Result>(body: (work: Work) => Promise<Result>): Promise<Result> {
    return this.#transact(async (work) => {
      const result = await body(work);
      await work.finish();
      return result;
    });
  }

  answered(_caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined> {
    return findAnswer(this.#options.sql, idempotency);
  }

  async #transact<Result>(body: (work: Work) => Promise<Result>): Promise<Result> {
    const { sql, limits, nowMs } = this.#options;
    let last: Work | undefined;
    const { result, work } = await transaction(sql, async (tx) => {
      // A second attempt follows only where the database has refused the first one.
      await last?.rolledBack();
      const opened = new Work(tx, nowMs(), limits);
      last = opened;
      try {
        return { result: await body(opened), work: opened };
      } catch (error) {
        await opened.rolledBack();
        throw error;
      }
    });
    await work.committed();
    return result;
  }

  async #runAll(
    work: Work,
    { caller, idempotency, onRefused }: WriteRequest,
    checks: readonly PostgresStep<unknown>[],
    steps: readonly PostgresStep<unknown>[],
  ): Promise<unknown[]> {
    await lockAnswer(work, idempotency);
    const before = await findAnswer(work.sql, idempotency);
    if (before !== undefined) return before;
    // A write of one step locks its rows itself.
    if (checks.length + steps.length > 1) await lockRows(work, [...checks, ...steps]);
    const runPart = async (part: Refused['part'], parts: readonly PostgresStep<unknown>[]) => {
      const results: unknown[] = [];
      for (const [index, one] of parts.entries()) {
        try {
          results.push(await one.run(work));
        } catch (error) {
          throw onRefused === undefined || isDatabaseFault(error) ? error : onRefused({ part, index }, error);
        }
      }
      return results;
    };
    await runPart('check', checks);
    const results = await runPart('step', steps);
    await keepAnswer(work, caller, idempotency, results, this.#options.documentsOf);
    await this.#options.checkFence(caller, work);
    await work.finish();
    return results;
  }
}

function aloneOf(
  { caller, idempotency }: WriteRequest,
  checks: readonly PostgresStep<unknown>[],
  steps: readonly PostgresStep<unknown>[],
): (() => Promise<unknown>) | undefined {
  const hasFence = caller.agentId !== null && caller.fence !== null;
  const isPlain = checks.length === 0 && steps.length === 1 && !hasFence && (idempotency ?? null) === null;
  return isPlain ? steps[0]?.alone : undefined;
}

function isDatabaseFault(error: unknown): boolean {
  return (
    error instanceof TryAgain ||
    isConcurrency(error) ||
    (error instanceof StoaError && databaseFaults.has(error.code))
  );
}
