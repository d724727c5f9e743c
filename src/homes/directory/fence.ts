/** Fencing numbers in the transactions of every domain: a lease that passes on while a write is under way still refuses it. */
import { StoaError } from '../../core/errors.js';
import type { Caller } from '../../core/caller.js';
import { userKey } from '../../identity/user-key.js';
import type { Kernel } from './kernel/kernel.js';
import type { Store } from './kernel/store.js';
import type { Transaction } from './kernel/transaction.js';
import { checkFence, leaseTimesOf } from '../../registry/lease.js';
import { findAgent } from './registry/rows.js';

/** A caller with the number of its own lease. */
export type FencedCaller = Pick<Caller, 'user' | 'agentId' | 'fence'>;

/** Refuses a transaction of a caller whose lease has passed on. Does nothing for callers that show no number of a lease of their own. */
export function checkCallerFence(kernel: Kernel, store: Store, tx: Transaction, caller: FencedCaller): void {
  const { user, agentId, fence } = caller;
  if (agentId === null || fence === null) return;
  if (store === kernel.storeOf(userKey(user))) checkLease(kernel, tx, agentId, fence);
  else checkFenceFromOutside(kernel, caller);
}

/** The same for a write that is no transaction of the lease's own store: it sees all that the store has agreed to so far. */
export function checkFenceFromOutside(kernel: Kernel, { user, agentId, fence }: FencedCaller): void {
  if (agentId === null || fence === null) return;
  checkAtHome(kernel.storeOf(userKey(user)), (tx) => checkLease(kernel, tx, agentId, fence));
}

function checkLease({ limits, outages }: Kernel, tx: Transaction, agentId: string, fence: number): void {
  const agent = findAgent(tx, null, agentId);
  if (agent === undefined)
    throw new StoaError('fenced', `The agent ${agentId} is gone, and its lease with it.`);
  checkFence(agent.lease, fence, leaseTimesOf(limits, outages), tx.nowMs);
}

/** A transaction where the lease is, which runs at once and writes nothing. */
function checkAtHome(home: Store, check: (tx: Transaction) => void): void {
  let outcome: { refusal: unknown } | undefined;
  const seen = home.transact((tx) => {
    outcome = { refusal: undefined };
    try {
      check(tx);
    } catch (error) {
      outcome = { refusal: error };
    }
  });
  // What was seen is all that is wanted; of a failing disk there, its own writers hear.
  seen.catch(() => undefined);
  if (outcome === undefined)
    throw new StoaError('overloaded', 'The store with the lease takes no transactions just now.', {
      fix: 'Try again shortly.',
    });
  if (outcome.refusal !== undefined) throw outcome.refusal;
}
