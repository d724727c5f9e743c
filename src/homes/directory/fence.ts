/**
 * Checks fencing numbers inside the transaction, so that a write is refused even if the lease passes to
 * another holder during the request.
 */
import type { Caller } from '../../core/caller.js';
import { userKey } from '../../identity/user-key.js';
import type { Kernel } from './kernel/kernel.js';
import type { Store } from './kernel/store.js';
import type { Transaction } from './kernel/transaction.js';
import { fencedAgentDeleted } from '../../registry/refusals.js';
import { checkFence, leaseTimesOf } from '../../registry/lifecycle/lease.js';
import { findAgent } from './registry/rows.js';

/** A caller with the fencing number of its lease. */
export type FencedCaller = Pick<Caller, 'user' | 'agentId' | 'fence'>;

/**
 * Throws `fenced` if the caller's lease has passed to another holder. Does nothing for a caller without a
 * fencing number.
 */
export function checkCallerFence(kernel: Kernel, store: Store, tx: Transaction, caller: FencedCaller): void {
  const { user, agentId, fence } = caller;
  if (agentId === null || fence === null) return;
  if (store === kernel.storeOf(userKey(user))) checkLease(kernel, tx, agentId, fence);
  else checkFenceFromOutside(kernel, caller);
}

/**
 * Like `checkCallerFence`, for a write outside the store of the lease. Sees every transaction that the store
 * has accepted so far.
 */
export function checkFenceFromOutside(kernel: Kernel, { user, agentId, fence }: FencedCaller): void {
  if (agentId === null || fence === null) return;
  checkInLeaseStore(kernel.storeOf(userKey(user)), (tx) => checkLease(kernel, tx, agentId, fence));
}

function checkLease({ limits, outages }: Kernel, tx: Transaction, agentId: string, fence: number): void {
  const agent = findAgent(tx, null, agentId);
  if (agent === undefined) throw fencedAgentDeleted(agentId, fence);
  checkFence(agent.lease, fence, leaseTimesOf(limits, outages), tx.nowMs);
}

/** Runs the check in a transaction of the lease's store, synchronously and without writing. */
function checkInLeaseStore(home: Store, check: (tx: Transaction) => void): void {
  const busy = home.refusal();
  if (busy !== undefined) throw busy;
  const failed: unknown[] = [];
  const seen = home.transact((tx) => {
    try {
      check(tx);
    } catch (error) {
      failed.push(error);
    }
  });
  // The check has run already. A disk failure of that store is reported to its own writers.
  seen.catch(() => undefined);
  if (failed.length > 0) throw failed[0];
}
