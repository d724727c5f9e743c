/** Checks of a commit on tasks: each refuses the write by throwing. */
import { claimFailure } from '../../../../workspaces/tasks/claim-failure.js';
import { StoaError, versionFailure } from '../../../../core/errors.js';
import { type Outage, extendedByOutages } from '../../../../core/outages.js';
import type { Transaction } from '../../kernel/transaction.js';
import type { Task } from '../../../../workspaces/model.js';
import type { Owner } from '../../../../workspaces/port.js';
import { readHeld } from './rows.js';
import { findTask } from '../tree.js';

/** Zero is the version of a task that does not exist. */
export function requireTaskVersion(tx: Transaction, owner: Owner, id: string, version: number): void {
  const current = taskOf(tx, owner, id)?.version ?? 0;
  if (current !== version) throw versionFailure(`The task ${id}`, current, version);
}

export function requireClaim(
  tx: Transaction,
  owner: Owner,
  id: string,
  fence: number,
  outages: readonly Outage[],
): void {
  const task = taskOf(tx, owner, id);
  const failure = claimFailure(id, task && readHeld(tx, task), fence, tx.nowMs, (lease) =>
    extendedByOutages(lease.renewedAtMs, lease.expiresAtMs, outages),
  );
  if (failure !== undefined) throw failure;
}

/** Undefined for a task that does not exist, or is not the owner's. */
function taskOf(tx: Transaction, owner: Owner, id: string): Task | undefined {
  try {
    return findTask(tx, owner, id).task;
  } catch (error) {
    if (error instanceof StoaError && error.code === 'not_found') return undefined;
    throw error;
  }
}
