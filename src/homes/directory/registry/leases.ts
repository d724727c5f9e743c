/** Leases in the data directory: heartbeats, releases, and the end of a lease without heartbeats. */
import type { Outage } from '../../../core/outages.js';
import type { Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type LeaseTimes, checkFence, leaseTimesOf } from '../../../registry/lifecycle/lease.js';
import type { Lease, StoredAgent } from '../../../registry/model.js';
import type { WriteGuard } from '../../../registry/port.js';
import {
  type PresenceOutcome,
  heartbeat,
  onLeaseTimer,
  release,
} from '../../../registry/lifecycle/presence.js';
import { agentRecords } from './indexes.js';
import { findAgent, writeLease } from './rows.js';
import { setTimer } from './timers.js';

/**
 * Called in the transaction that ends an agent's presence, so that other domains can release what it held.
 */
export type PresenceLostHook = (tx: Transaction, agent: StoredAgent) => void;

export const leaseTimer = 'registry.lease';

export class LeaseVerbs {
  /** Called when an agent's presence ends: lost, released or deleted. */
  readonly onPresenceLost: PresenceLostHook[] = [];
  readonly #limits: Limits;
  readonly #outages: () => readonly Outage[];

  constructor(limits: Limits, outages: () => readonly Outage[]) {
    this.#limits = limits;
    this.#outages = outages;
  }

  times(): LeaseTimes {
    return leaseTimesOf(this.#limits, this.#outages());
  }

  /** Throws if the fencing number of a writer is outdated. */
  checkFence(tx: Transaction, agent: StoredAgent, fence: number | null): void {
    checkFence(agent.lease, fence, this.times(), tx.nowMs);
  }

  heartbeat(tx: Transaction, agent: StoredAgent, holder: string, guard: WriteGuard): Lease {
    const outcome = heartbeat(agent, holder, guard, this.times(), this.#limits, tx.nowMs);
    this.#store(tx, agent, outcome);
    return outcome.lease;
  }

  release(tx: Transaction, agent: StoredAgent, holder: string | null, guard: WriteGuard): void {
    const outcome = release(agent, holder, guard, this.times(), tx.nowMs);
    if (outcome !== null) this.#store(tx, agent, outcome);
  }

  /** For an agent that is being deleted, together with its row. */
  end(tx: Transaction, agent: StoredAgent): void {
    if (agent.lease === null) return;
    setTimer(tx, leaseTimer, agent, agent.lease.timerAtMs, null);
    if (agent.lease.holder !== null) this.#runHooks(tx, agent);
  }

  onTimer(tx: Transaction, reference: Buffer): void {
    const agent = findAgent(tx, null, reference.toString('hex'));
    const outcome = agent === undefined ? null : onLeaseTimer(agent, this.times(), tx.nowMs);
    if (agent !== undefined && outcome !== null) this.#store(tx, agent, outcome);
  }

  #store(tx: Transaction, before: StoredAgent, { agent, ended, changes }: PresenceOutcome): void {
    if (ended !== null) {
      tx.change(ended);
      this.#runHooks(tx, before);
    }
    const { record, lease } = agent;
    setTimer(tx, leaseTimer, before, before.lease?.timerAtMs ?? null, lease?.timerAtMs ?? null);
    if (lease !== null) writeLease(tx, record, lease);
    if (record !== before.record) agentRecords.rewrite(tx, agent);
    for (const change of changes) tx.change(change);
  }

  #runHooks(tx: Transaction, agent: StoredAgent): void {
    for (const hook of this.onPresenceLost) hook(tx, agent);
  }
}
