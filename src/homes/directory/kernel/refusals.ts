/** Errors of a store itself, and of a body that is not synchronous. */
import { StoaError, messageOf } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Group } from './group.js';

const refusals: ReadonlySet<string> = new Set(['overloaded', 'writes_stopped', 'disk_full', 'closed']);

/** Whether the store or its disk refused a transaction. The body of the transaction is not at fault. */
export function isStoreRefusal(error: unknown): boolean {
  return error instanceof StoaError && refusals.has(error.code);
}

export function refuseAsynchronous(result: unknown): void {
  if (
    typeof result !== 'object' ||
    result === null ||
    !('then' in result) ||
    typeof result.then !== 'function'
  )
    return;
  const refusal = new StoaError(
    'internal',
    'The body of a transaction returned a promise. It must be synchronous.',
  );
  // The body continues without its transaction and fails. That failure follows from this one.
  void Promise.resolve(result).catch(() => refusal);
  throw refusal;
}

/** The error for a transaction that would be one too many, or undefined. */
export function overload(waiting: Group, limits: Limits): StoaError | undefined {
  const { transactionsWaitingMax, transactionBytesWaitingMax } = limits;
  if (waiting.size < transactionsWaitingMax && waiting.sizeBytes < transactionBytesWaitingMax)
    return undefined;
  return new StoaError(
    'overloaded',
    `${waiting.size} transactions with ${waiting.sizeBytes} bytes wait for the disk. The limits are ${transactionsWaitingMax} (transactionsWaitingMax) and ${transactionBytesWaitingMax} bytes (transactionBytesWaitingMax).`,
    {
      fix: 'Try again shortly. If this continues, the disk is too slow for the load.',
      details: { transactionsWaitingMax, transactionBytesWaitingMax },
    },
  );
}

/** The state on disk is unknown after this failure, so no later write may depend on it. */
export function commitFailed(cause: unknown): StoaError {
  return new StoaError(
    'writes_stopped',
    `A commit failed (${messageOf(cause)}). Writes are refused until the server restarts.`,
    { fix: 'Check the disk and the system log, then restart the server. Reads still work.', cause },
  );
}

/**
 * Shard 00 has the intent of a write that this shard could not make. Later writes here must not come before
 * it.
 */
export function pairUnfinished(cause: unknown): StoaError {
  return new StoaError(
    'writes_stopped',
    `A write over two shards is unfinished in this one (${messageOf(cause)}). Writes are refused until it is finished.`,
    { fix: 'Check the disk, then restart the server. It finishes the write when it starts.', cause },
  );
}
