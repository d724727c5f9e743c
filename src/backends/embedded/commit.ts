/** Commits on the kernel: the operations' transactions joined into one. */
import { CheckFailed, type CommitPort, OperationFailed } from '../../commit/port.js';
import { ModifiedBytes } from '../../commit/modified-bytes.js';
import { type CommitServices, runOperation } from '../../commit/operations.js';
import type { Check, Operation } from '../../commit/schemas.js';
import { versionFailure } from '../../core/version-failure.js';
import { StoaError } from '../../errors.js';
import type { Caller } from '../../core/caller.js';
import type { Step } from '../../core/write.js';
import { directorySteps } from '../../homes/directory/step.js';
import { userKey } from '../../identity/user-key.js';
import { type Joint, type JointCheck, OperationRefused } from '../../kernel/joint.js';
import { type Idempotency } from '../../core/idempotency.js';
import { answeredBefore, keepAnswer, once } from '../../kernel/once.js';
import type { Transaction } from '../../kernel/transaction.js';
import { type LeaseTimes, leaseTimesOf } from '../../registry/lease.js';
import type { RegistryService } from '../../registry/service.js';
import type { RegistrySteps } from '../../registry/steps.js';
import { ownerOf } from '../../workspaces/authorise.js';
import { dataFamilies, documentKey, isLiveRow, versionOfRow } from './datastore-rows.js';
import { checkCallerFence } from './fence.js';
import { requireClaim, requireTaskVersion } from './workspaces-checks.js';

/** A repeat under the same key: what was answered the first time. */
class AnsweredBefore extends Error {
  constructor(readonly results: unknown[]) {
    super('This commit was made before.');
    this.name = 'AnsweredBefore';
  }
}

/** The directory always has the registry. */
type DirectoryServices = CommitServices & { registry: RegistryService };

export class EmbeddedCommit implements CommitPort {
  readonly #joint: Joint;
  readonly #services: DirectoryServices;

  /** `services` are built over `joint.kernel`. */
  constructor(joint: Joint, services: DirectoryServices) {
    this.#joint = joint;
    this.#services = services;
  }

  async commit(
    caller: Caller,
    checks: readonly Check[],
    operations: readonly Operation[],
    idempotency: Idempotency | null,
  ): Promise<unknown[]> {
    const { kernel, base } = this.#joint;
    const own = kernel.storeOf(userKey(caller.user));
    // Before anything else: a repeat must not use up the nonce of a signed message again.
    const before = answeredBefore<unknown[]>(own, idempotency, kernel.nowMs());
    if (before !== undefined) return before;
    const modified = new ModifiedBytes(kernel.limits);
    const steps = operations.map((operation) => () => runOperation(this.#services, caller, operation));
    try {
      const check: JointCheck = (tx, store) => {
        const meanwhile = madeBefore(tx, idempotency);
        if (meanwhile !== undefined) throw new AnsweredBefore(meanwhile);
        checkCallerFence(base, store, tx, caller);
        this.#checkAll(tx, caller, checks, leaseTimesOf(kernel.limits, kernel.outages));
      };
      // Each step is of the operation at its place.
      // A writer hands on a list, with the one result of the operation in it.
      const results = await this.#joint.commit(steps, check, (index, result) =>
        modified.add(operations[index] as Operation, Array.isArray(result) ? result[0] : result),
      );
      if (idempotency !== null) await own.transact((tx) => keepAnswer(tx, idempotency, results));
      return results;
    } catch (error) {
      if (error instanceof AnsweredBefore) return error.results;
      throw error instanceof OperationRefused ? new OperationFailed(error.index, error.reason) : error;
    }
  }

  #checkAll(tx: Transaction, caller: Caller, checks: readonly Check[], times: LeaseTimes): void {
    for (const [index, check] of checks.entries()) {
      const failure = failureOf(tx, caller, check, times, this.#services.registry.steps);
      if (failure !== undefined) throw new CheckFailed(index, failure);
    }
  }
}

/** The answers to the same key before; otherwise notes, with this commit, that the key is used. */
function madeBefore(tx: Transaction, idempotency: Idempotency | null): unknown[] | undefined {
  let isFirst = false;
  const note = (): unknown[] => {
    isFirst = true;
    return [];
  };
  // Only the fact goes into the commit: the answers are known when it is done, and are kept then.
  const answers = once(tx, idempotency, note, { keep: false });
  return isFirst ? undefined : answers;
}

function failureOf(
  tx: Transaction,
  caller: Caller,
  check: Check,
  times: LeaseTimes,
  registry: RegistrySteps,
): StoaError | undefined {
  switch (check.check) {
    case 'data': {
      const row = tx.get(
        dataFamilies.documents,
        documentKey({ user: caller.user, namespace: check.namespace }, check.key),
      );
      const current = row === undefined || !isLiveRow(row, tx.nowMs) ? 0 : versionOfRow(row);
      return current === (check.version ?? 0)
        ? undefined
        : versionFailure(`The document "${check.key}" in "${check.namespace}"`, current, check.version ?? 0);
    }
    case 'agent':
      return failureIn(() => run(registry.requireAgentVersion(caller, check.agent_id, check.version), tx));
    case 'task':
      return failureIn(() => requireTaskVersion(tx, ownerOf(caller), check.task_id, check.version));
    case 'claim':
      return failureIn(() => requireClaim(tx, ownerOf(caller), check.task_id, check.fence, times.outages));
    case 'lease':
      return failureIn(() => run(registry.requireLease(caller, check.agent_id, check.fence), tx));
  }
}

function run(check: Step<void>, tx: Transaction): void {
  for (const step of directorySteps([check])) step.run(tx, tx);
}

function failureIn(check: () => void): StoaError | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof StoaError && (error.code === 'version_conflict' || error.code === 'fenced'))
      return error;
    throw error;
  }
}
