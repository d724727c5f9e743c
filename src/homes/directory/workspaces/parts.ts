/** The parts of workspaces in the data directory, connected with each other and with the timers. */
import { messageOf } from '../../../core/errors.js';
import type { Sealer } from '../../../secrets/sealer.js';
import { ReadyWaiters } from '../../../workspaces/tasks/ready-waiters.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
import { BulkWork } from './bulk/bulk.js';
import type { Migration } from './migrations.js';
import { purgeStep } from './bulk/purge.js';
import { Reseal } from './bulk/reseal.js';
import { onSessionTimer, sessionTimer } from './sessions.js';
import { type DependantsContext, dependantsStep } from './tasks/dependants.js';
import { ReadyLines } from './tasks/ready-line.js';
import { leaseTimer, taskTimer } from './tasks/rows.js';
import { TaskVerbs } from './tasks/tasks.js';

export interface DirectoryWorkspacesOptions {
  sealer: Sealer;
  /** Called in the transaction of an owner's new workspace: a user exists from its first write. */
  onOwner?: (tx: Transaction, user: string) => void;
  migrations?: readonly Migration[];
  /** Faults that no caller waits for. */
  onError?: (error: unknown) => void;
}

export interface WorkspacesParts {
  readonly context: DependantsContext;
  readonly tasks: TaskVerbs;
  readonly reseal: Reseal;
}

export function workspacesParts(kernel: Kernel, options: DirectoryWorkspacesOptions): WorkspacesParts {
  const { limits } = kernel;
  const bulk = new BulkWork({
    stores: kernel.stores,
    steps: {
      purge: (tx, value) => purgeStep(tx, context, value),
      dependants: (tx, value) => dependantsStep(tx, context, value),
      release: (tx, value) => tasks.releaseStep(tx, value),
      reseal: (tx, value) => reseal.step(tx, value),
    },
    onError: options.onError ?? ((error) => process.emitWarning(`workspaces: ${messageOf(error)}`)),
  });
  const reseal = new Reseal(kernel, options.sealer, bulk);
  const context: DependantsContext = {
    waiters: new ReadyWaiters(limits.claimsWaitingMax),
    lines: new ReadyLines(),
    bulk,
    rowsMax: limits.workspaceStepRowsMax,
  };
  const tasks = new TaskVerbs({ limits, context, outages: () => kernel.outages });
  kernel.handleTimer(leaseTimer, (tx, reference) => tasks.onLeaseTimer(tx, reference));
  kernel.handleTimer(taskTimer, (tx, reference) => tasks.onTaskTimer(tx, reference));
  kernel.handleTimer(sessionTimer, (tx, reference) => onSessionTimer(tx, reference, kernel.outages));
  // Continues the work that a crash has left unfinished.
  bulk.kick();
  return { context, tasks, reseal };
}
