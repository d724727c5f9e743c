/**
 * Writes of the PostgreSQL home: key, token, fence, checks, steps, kept answer and feed in one database
 * transaction.
 */
import type { Caller } from '../../../core/caller.js';
import { StoaError } from '../../../core/errors.js';
import type { Idempotency } from '../../../core/idempotency/idempotency.js';
import type { Refused, Results, Step, WriteRequest, Writer } from '../../../core/write.js';
import { type PostgresSql, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';
import { isAborted, isDatabaseFault } from '../database/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import type { DatabaseClock } from '../database/database-clock.js';
import { inSteps } from '../database/in-steps.js';
import {
  answerTables,
  type DocumentsOf,
  findAnswer,
  keepAnswer,
  lockAnswer,
  reserveAnswer,
} from './kept-answers.js';
import { hasSharedRows, lockRows } from './row-locks.js';
import { type PostgresStep, postgresSteps } from './step.js';
import { awaitAll, groupLockWaitMs, runTogether } from './group.js';
import { migrate } from '../database/migrate.js';
import { takeTurn, turnTables } from '../database/turns.js';
import { type CallerAgents, type CheckFence, type KeyedWrite, SharedWork, Work } from './work.js';
import { actingAgent } from '../../../registry/recent-agents.js';

export interface PostgresWriterOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  readonly clock: DatabaseClock;
  /** Called in the transaction of every write of a caller that shows a fencing number, after its steps. */
  readonly checkFence: CheckFence;
  /** Null if there are no agents: suites of one domain. */
  readonly agents?: CallerAgents | null | undefined;
  /** Kept answers count against a user's bytes, together with these documents. */
  readonly documentsOf: DocumentsOf;
  /** Throws if this program must no longer write. */
  readonly checkTables: () => void;
  /** Called after each commit that announces changes: the feed numbers them soon. */
  readonly onCommitted: () => void;
  /** Faults that no caller waits for. */
  readonly onError: (error: unknown, about: string) => void;
}

const sweepIntervalMs = 60_000;

/** The one way to write of a home: it is made once, and all domains share it. */
export class PostgresWriter implements Writer {
  readonly #options: PostgresWriterOptions;
  readonly #sweeping: Periodic;
  #isClosing = false;

  constructor(options: PostgresWriterOptions) {
    this.#options = options;
    this.#sweeping = new Periodic({
      everyMs: sweepIntervalMs,
      run: () => this.#sweepInTurn(),
      onError: (error) => options.onError(error, 'removing kept answers'),
    });
  }

  /**
   * Makes the tables where they are missing, and begins to remove answers whose time is over, unless the home
   * is only read.
   */
  async open(isOnlyRead = false): Promise<void> {
    const { sql, clock } = this.#options;
    await migrate(sql, answerTables);
    await migrate(sql, turnTables);
    await clock.refresh();
    if (!isOnlyRead) this.#sweeping.start();
  }

  close(): Promise<void> {
    this.#isClosing = true;
    return this.#sweeping.close();
  }

  /** A statement that wrote its own row of the feed was committed. */
  committed(): void {
    this.#options.onCommitted();
  }

  async write<const Steps extends readonly Step<unknown>[]>(
    request: WriteRequest,
    steps: Steps,
  ): Promise<Results<Steps>> {
    this.#options.checkTables();
    const checks = postgresSteps(request.checks ?? []);
    const run = postgresSteps(steps);
    const alone = this.#isNoted(request.caller) ? aloneOf(request, checks, run) : undefined;
    if (alone !== undefined) return (await alone(request.caller)) as Results<Steps>;
    const results = await this.#transact(
      request.caller,
      (work) => this.#runAll(work, request, checks, run),
      this.#keyed(request),
    );
    // Each result has the index of its step.
    return results as Results<Steps>;
  }

  /**
   * Runs independent writes in one transaction, in the order of the list. Each result is the result or the
   * refusal of its write. Throws if one failed after it had written something, or if the database failed:
   * nothing is written then.
   */
  async transactTogether<Result>(
    writes: readonly { caller: Caller; run: (work: Work) => Promise<Result> }[],
  ): Promise<(Result | Error)[]> {
    const { sql, limits, clock, checkFence, agents = null, onCommitted } = this.#options;
    const { works, results } = await transaction(
      sql,
      (tx) => {
        // Its answer shares the round trip of the first statements. If it failed, so would they.
        query(tx, `SET LOCAL lock_timeout = ${groupLockWaitMs}`).catch(() => undefined);
        const shared = new SharedWork(true);
        const made = writes.map(
          ({ caller }) => new Work(tx, clock, limits, caller, checkFence, { agents, shared }),
        );
        return runTogether(made, writes);
      },
      async (done) => void (await awaitAll(done.works.map((work) => work.awaitSent()))),
      1,
    );
    if (works.some(({ hasChanges }) => hasChanges)) onCommitted();
    for (const work of works) await work.runAfterCommit(this.#onActError);
    return results;
  }

  /** A separate transaction: for a step that runs alone, or for work that no caller asked for. */
  async transact<Result>(
    body: (work: Work) => Promise<Result>,
    caller: Caller | null = null,
  ): Promise<Result> {
    this.#options.checkTables();
    return this.#transact(caller, async (work) => {
      const result = await body(work);
      await work.finish();
      return result;
    });
  }

  answered(caller: Caller, idempotency: Idempotency | null): Promise<unknown[] | undefined> {
    return findAnswer(this.#options.sql, caller, idempotency);
  }

  /** Whether nothing is to be written about the caller's agent. */
  #isNoted(caller: Caller): boolean {
    const { agents, clock } = this.#options;
    const agent = actingAgent(caller);
    return agent === null || (agents ?? null) === null || agents?.isFresh(agent, clock.nowMs(), 0) === true;
  }

  #keyed({ caller, idempotency }: WriteRequest): KeyedWrite | null {
    if (idempotency === null || idempotency === undefined) return null;
    const { documentsOf } = this.#options;
    return { idempotency, reserve: (work) => reserveAnswer(work, caller, documentsOf) };
  }

  async #transact<Result>(
    caller: Caller | null,
    body: (work: Work) => Promise<Result>,
    keyed: KeyedWrite | null = null,
  ): Promise<Result> {
    const { sql, limits, clock, checkFence, agents = null, onCommitted } = this.#options;
    let last: Work | undefined;
    const { result, work } = await transaction(
      sql,
      async (tx) => {
        // A second attempt follows only if the database has refused the first one.
        await last?.runAfterRollback();
        const opened = new Work(tx, clock, limits, caller, checkFence, { keyed, agents });
        last = opened;
        try {
          return { result: await body(opened), work: opened };
        } catch (error) {
          await opened.runAfterRollback();
          await opened.checkCaller();
          if (isAborted(error)) await opened.awaitSent();
          throw error;
        }
      },
      async (done) => {
        try {
          await done.work.awaitSent();
        } catch (error) {
          await done.work.runAfterRollback();
          throw error;
        }
      },
    ).catch(async (error: unknown) => {
      // The commit itself was refused. If the connection was lost, the write may be stored.
      if (!isUnavailable(error)) await last?.runAfterRollback();
      throw error;
    });
    if (work.hasChanges) onCommitted();
    await work.runAfterCommit(this.#onActError);
    return result;
  }

  readonly #onActError = (error: unknown): void =>
    this.#options.onError(error, 'acting on a write that is stored');

  /** Removes answers whose time is over. */
  sweep(): Promise<void> {
    const { sql, limits } = this.#options;
    return inSteps(sql, 'DELETE FROM kept_answers', {
      table: 'kept_answers',
      where: 'expires_at <= clock_timestamp()',
      rowsMax: limits.sweepStepMax,
      isOver: () => this.#isClosing,
    });
  }

  async #sweepInTurn(): Promise<void> {
    if (await takeTurn(this.#options.sql, 'kept answers', sweepIntervalMs)) await this.sweep();
  }

  async #runAll(
    work: Work,
    { caller, idempotency, isAnswer, onRefused }: WriteRequest,
    checks: readonly PostgresStep<unknown>[],
    steps: readonly PostgresStep<unknown>[],
  ): Promise<unknown[]> {
    await lockAnswer(work, idempotency);
    const before = await findAnswer(work.sql, caller, idempotency);
    if (before !== undefined) {
      await work.checkCaller();
      return before;
    }
    // A write of one step locks its rows itself.
    if (checks.length + steps.length > 1) lockRows(work, [...checks, ...steps]);
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
    const isAnswered = isAnswer?.(results) !== false;
    if (isAnswered) await keepAnswer(work, caller, idempotency, results, this.#options.documentsOf);
    // After the steps: one of them may lock the same row for an update, and two writes that first share it
    // would wait for each other.
    await work.noteCall(isAnswered);
    await work.checkFence();
    await work.finish();
    return results;
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StoaError && error.code === 'backend_unavailable';
}

function aloneOf(
  { caller, idempotency }: WriteRequest,
  checks: readonly PostgresStep<unknown>[],
  steps: readonly PostgresStep<unknown>[],
): ((caller: Caller) => Promise<unknown[]>) | undefined {
  if (checks.length > 0 || hasFence(caller) || (idempotency ?? null) !== null) return undefined;
  const alone = steps.length === 1 ? steps[0]?.alone : undefined;
  return alone === undefined ? joinedOf(steps) : async (by) => [await alone(by)];
}

/** One statement for all steps, if they are of the same kind and none names a row of another. */
function joinedOf(
  steps: readonly PostgresStep<unknown>[],
): ((caller: Caller) => Promise<unknown[]>) | undefined {
  const write = steps[0]?.joined?.write;
  if (write === undefined || hasSharedRows(steps)) return undefined;
  const joined = steps.flatMap((step) => (step.joined?.write === write ? [step.joined] : []));
  if (joined.length < steps.length) return undefined;
  return async (caller) => {
    const written = await write(
      caller,
      joined.map(({ item }) => item),
    );
    return joined.map(({ show }, index) => show(written[index]));
  };
}

function hasFence({ agentId, fence }: Caller): boolean {
  return agentId !== null && fence !== null;
}
