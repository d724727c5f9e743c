/** Commits in PostgreSQL: the services' own code inside one transaction, messages through the outbox. */
import type { TransactionSql } from 'postgres';
import { ModifiedBytes } from '../../commit/modified-bytes.js';
import { type CommitServices, runOperation } from '../../commit/operations.js';
import { isMessage } from '../../commit/messages.js';
import { type CommitPort, OperationFailed, type OutboxFacts } from '../../commit/port.js';
import type { Check, Operation } from '../../commit/schemas.js';
import type { DataService } from '../../datastore/service.js';
import { StoaError } from '../../errors.js';
import type { Caller } from '../../core/caller.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Limits } from '../../limits.js';
import type { MessagingService } from '../../messaging/service.js';
import type { Sealer } from '../../secrets/sealer.js';
import { Work } from '../../homes/postgres/work.js';
import { WorkspacesService } from '../../workspaces/service.js';
import { answeredBefore, keepAnswer, lockAnswer } from './commit-answers.js';
import { lockAndCheck } from './commit-checks.js';
import { type PromisedOperation, messageResult, promiseMessages } from './commit-messages.js';
import { CommitOutbox, type DeliveryState } from './commit-outbox.js';
import { migrateCommitsUp } from './commit-schema.js';
import { OpenTransactionWriter } from './commit-writer.js';
import {
  type PostgresSql,
  TryAgain,
  boundStatements,
  closePostgres,
  isConcurrency,
  openPostgres,
  transaction,
} from './connection.js';
import type { PostgresWorkspaces } from './workspaces.js';

export interface PostgresCommitOptions {
  limits: Limits;
  nowMs: () => number;
  sealer: Sealer;
  /** Null where the data store is not in this database. */
  data: DataService | null;
  /** Null where workspaces are not in this database. */
  workspaces: PostgresWorkspaces | null;
  messaging: MessagingService;
  /** Refuses a caller whose lease has passed on. */
  checkFence: (caller: Caller) => void;
  /** Names the messaging that this server has. */
  messagingStore: string;
  onError: (error: unknown) => void;
  sweepIntervalMs?: number | undefined;
}

/** Opens a pool of its own, makes the tables where they are missing, and begins to deliver what waits. */
export async function openPostgresCommit(url: URL, options: PostgresCommitOptions): Promise<PostgresCommit> {
  const sql = await openPostgres(url, {
    idleTransactionSecondsMax: options.limits.commitIdleSecondsMax,
    limits: options.limits,
  });
  try {
    await migrateCommitsUp(sql);
    boundStatements(sql, options.limits);
  } catch (error) {
    await closePostgres(sql, 1);
    throw error;
  }
  const { messaging, messagingStore, limits, onError, sweepIntervalMs } = options;
  const outbox = new CommitOutbox({
    sql,
    store: messagingStore,
    port: messaging.port,
    limits,
    onError,
    sweepIntervalMs,
  });
  outbox.start();
  return new PostgresCommit(sql, outbox, options);
}

/** What a transaction has done, and what is left to do when it has been committed. */
interface Done {
  results: unknown[];
  settle: () => Promise<void>;
}

export class PostgresCommit implements CommitPort {
  readonly #sql: PostgresSql;
  readonly #outbox: CommitOutbox;
  readonly #options: PostgresCommitOptions;

  constructor(sql: PostgresSql, outbox: CommitOutbox, options: PostgresCommitOptions) {
    this.#sql = sql;
    this.#outbox = outbox;
    this.#options = options;
  }

  async commit(
    caller: Caller,
    checks: readonly Check[],
    operations: readonly Operation[],
    idempotency: Idempotency | null,
  ): Promise<unknown[]> {
    const before = await answeredBefore(this.#sql, idempotency);
    if (before !== undefined) return this.#answerAgain(before, operations);
    const promised = await promiseMessages(this.#options.messaging, caller, operations);
    const outcome = await transaction(this.#sql, async (tx): Promise<Done | { again: unknown[] }> => {
      await lockAnswer(tx, idempotency);
      const meanwhile = await answeredBefore(tx, idempotency);
      return meanwhile === undefined
        ? this.#run(tx, caller, checks, operations, promised, idempotency)
        : { again: meanwhile };
    });
    if ('again' in outcome) return this.#answerAgain(outcome.again, operations);
    await outcome.settle();
    if (promised.length === 0) return outcome.results;
    const states = await this.#deliver(promised);
    const results = [...outcome.results];
    for (const one of promised) results[one.index] = messageResult(one, states.get(one.delivery));
    await keepAnswer(this.#sql, idempotency, results).catch(this.#options.onError);
    return results;
  }

  /** Everything in one transaction. What it throws takes all of it back. */
  async #run(
    tx: TransactionSql,
    caller: Caller,
    checks: readonly Check[],
    operations: readonly Operation[],
    promised: readonly PromisedOperation[],
    idempotency: Idempotency | null,
  ): Promise<Done> {
    const { limits, nowMs, workspaces } = this.#options;
    const work = new Work(tx, workspaces?.nowMs() ?? 0, limits);
    // Documents go by the server's clock, leases by the database's.
    const documents = new Work(tx, nowMs(), limits);
    await lockAndCheck({ work, caller, nowMs: nowMs(), workspaces }, checks, operations);
    const { services, settle } = this.#joined(work, documents);
    const modified = new ModifiedBytes(limits);
    const results: unknown[] = [];
    const messages = new Map(promised.map((one) => [one.index, one]));
    for (const [index, operation] of operations.entries()) {
      const message = messages.get(index);
      const run = async (): Promise<unknown> => {
        const result = await runOperation(services, caller, operation);
        modified.add(operation, result);
        return result;
      };
      results.push(message === undefined ? await asOperation(index, run) : messageResult(message, undefined));
    }
    await work.finish();
    await documents.finish();
    await this.#outbox.add(tx, caller.user, promised);
    await keepAnswer(tx, idempotency, results);
    this.#options.checkFence(caller);
    return { results, settle };
  }

  /** The services once more, over this transaction. What they would do after a write of their own waits for the commit. */
  #joined(work: Work, documents: Work): { services: CommitServices; settle: () => Promise<void> } {
    const { data, limits, sealer, workspaces } = this.#options;
    const services: CommitServices = {
      data: data && data.over({ port: data.port, writer: new OpenTransactionWriter(documents) }),
      registry: null,
      workspaces:
        workspaces &&
        new WorkspacesService({ writer: new OpenTransactionWriter(work), port: workspaces, limits, sealer }),
      messaging: null,
    };
    const settle = async (): Promise<void> => {
      // The commit stands, whatever becomes of the news about it.
      await Promise.all([work.committed(), documents.committed()]).catch(this.#options.onError);
    };
    return { services, settle };
  }

  async #deliver(promised: readonly PromisedOperation[]): Promise<ReadonlyMap<string, DeliveryState>> {
    try {
      return await this.#outbox.deliver(promised);
    } catch (error) {
      // The commit stands, and so do its promises: a sweep keeps them.
      this.#options.onError(error);
      return new Map();
    }
  }

  /** A repeat gets the first answer, with what has become of its messages since. */
  async #answerAgain(results: readonly unknown[], operations: readonly Operation[]): Promise<unknown[]> {
    const queued = results.map((result, index) =>
      operations[index] !== undefined && isMessage(operations[index])
        ? (result as { delivery?: string; room?: string })
        : undefined,
    );
    const states = await this.#outbox.states(queued.flatMap((result) => result?.delivery ?? []));
    return results.map((result, index) => {
      const state = states.get(queued[index]?.delivery ?? '');
      if (state?.state !== 'delivered') return result;
      return {
        id: state.id,
        ts: state.tsMs,
        ...(queued[index]?.room !== undefined && { room: queued[index].room }),
      };
    });
  }

  outbox(): Promise<OutboxFacts> {
    return this.#outbox.facts();
  }

  async close(): Promise<void> {
    await this.#outbox.close();
    await closePostgres(this.#sql, 5);
  }
}

/** Faults of the database are no operation's: they are tried again, or end the request. */
const databaseFaults: ReadonlySet<string> = new Set([
  'engine',
  'backend_unavailable',
  'disk_full',
  'overloaded',
  'internal',
]);

async function asOperation(index: number, run: () => Promise<unknown>): Promise<unknown> {
  try {
    return await run();
  } catch (error) {
    if (
      error instanceof TryAgain ||
      isConcurrency(error) ||
      (error instanceof StoaError && databaseFaults.has(error.code))
    )
      throw error;
    throw new OperationFailed(index, error);
  }
}
