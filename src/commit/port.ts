/** What a commit needs of storage: one transaction over operations of several domains. */
import type { StoaError } from '../errors.js';
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency.js';
import type { Check, Operation } from './schemas.js';

/** A check that did not hold. */
export class CheckFailed extends Error {
  constructor(
    readonly index: number,
    readonly reason: StoaError,
  ) {
    super(reason.message, { cause: reason });
    this.name = 'CheckFailed';
  }
}

/** An operation that was refused. */
export class OperationFailed extends Error {
  constructor(
    readonly index: number,
    readonly reason: unknown,
  ) {
    super(`Operation ${index} was refused.`, { cause: reason });
    this.name = 'OperationFailed';
  }
}

export interface CommitPort {
  /**
   * Does all operations or none and answers each. Throws CheckFailed or OperationFailed, or what
   * stopped the storage itself. With an idempotency key the answer is kept for a repeat.
   */
  commit(
    caller: Caller,
    checks: readonly Check[],
    operations: readonly Operation[],
    idempotency: Idempotency | null,
  ): Promise<unknown[]>;
}

/** Messages that commits have promised and messaging does not have. */
export interface OutboxFacts {
  waiting: number;
  oldestWaitingSeconds: number;
  /** Given up: their room or recipient is gone, or their time was over. */
  undeliverable: number;
}
