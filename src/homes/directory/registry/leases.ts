/** Leases in the data directory: heartbeats, releases, and the end of a lease without heartbeats. */
import type { Outage } from '../../../core/outages.js';
import type { Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type LeaseTimes, checkFence, leaseTimesOf } from '../../../registry/lifecycle/lease.js';
import type { Lease, StoredAgent } from '../../../registry/model.js';
import type { WriteGuard } from '../../../registry/port.js';
import { onCall } from '../../../registry/lifecycle/calls.js';
import type { Times } from '../../../registry/lifecycle/lifecycle.js';
import type { RecentAgents } from '../../../registry/recent-agents.js';
import {
  type PresenceOutcome,
  heartbeat,
  onLeaseTimer,
  release,
} from '../../../registry/lifecycle/presence.js';
import { agentRecords } from './indexes.js';
import { countAbsence, findAgent, writeAgent, writeLease } from './rows.js';
import { activityTimer, leaseTimer, setTimer } from './timers.js';

/**
 * Called in the transaction that ends an agent's presence, so that other domains can release what it held.
 */
export type PresenceLostHook = (tx: Transaction, agent: StoredAgent) => void;

export class LeaseVerbs {
  /** Called when an agent's presence ends: lost, released or deleted. */
  onPresenceLost: PresenceLostHook = () => undefined;
  /** Called when an absent agent is to be forgotten. The home removes the agent in a separate write. */
  onForgotten: (agent: StoredAgent) => void = () => undefined;
  readonly #limits: Limits;
  readonly #outages: () => readonly Outage[];
  readonly #recent: RecentAgents;

  constructor(limits: Limits, outages: () => readonly Outage[], recent: RecentAgents) {
    this.#limits = limits;
    this.#outages = outages;
    this.#recent = recent;
  }

  times(): LeaseTimes {
    return leaseTimesOf(this.#limits, this.#outages());
  }

  /** Throws if the fencing number of a writer is outdated. */
  checkFence(tx: Transaction, agent: StoredAgent, fence: number | null): void {
    checkFence(agent.lease, fence, this.times(), tx.nowMs);
  }

  heartbeat(tx: Transaction, agent: StoredAgent, holder: string | null, guard: WriteGuard): Lease {
    const outcome = heartbeat(agent, holder, guard, this.times(), this.#limits, tx.nowMs);
    this.#store(tx, agent, outcome);
    return outcome.lease;
  }

  release(tx: Transaction, agent: StoredAgent, holder: string | null, guard: WriteGuard): void {
    const outcome = release(agent, holder, guard, this.times(), tx.nowMs);
    if (outcome === null) return;
    this.#recent.forget(agent);
    this.#store(tx, agent, outcome);
  }

  /** A call of the agent itself. */
  called(tx: Transaction, agent: StoredAgent, untilMs: number, times: Times): StoredAgent {
    const outcome = onCall(agent, untilMs, times);
    this.#store(tx, agent, outcome);
    return outcome.agent;
  }

  /** For an agent that is being deleted, together with its row. */
  end(tx: Transaction, agent: StoredAgent): void {
    if (agent.lease === null) return;
    setTimer(tx, leaseTimer, agent, agent.lease.timerAtMs, null);
    if (agent.lease.holder !== null) this.onPresenceLost(tx, agent);
  }

  onTimer(tx: Transaction, reference: Buffer): void {
    const agent = findAgent(tx, null, reference.toString('hex'));
    const outcome = agent === undefined ? null : onLeaseTimer(agent, this.times(), tx.nowMs);
    if (agent === undefined || outcome === null) return;
    this.#store(tx, agent, outcome);
    if (outcome.forgotten === true) tx.onDurable(() => this.onForgotten(agent));
  }

  #store(tx: Transaction, before: StoredAgent, { agent, ended, changes }: PresenceOutcome): void {
    if (ended !== null) {
      tx.change(ended);
      this.onPresenceLost(tx, before);
    }
    const { record, meta, lease } = agent;
    setTimer(tx, leaseTimer, before, before.lease?.timerAtMs ?? null, lease?.timerAtMs ?? null);
    if (lease !== null) writeLease(tx, record, lease);
    if (meta !== before.meta) {
      setTimer(tx, activityTimer, before, before.meta.activityTimerAtMs, meta.activityTimerAtMs);
      writeAgent(tx, before, agent);
    } else {
      if (record !== before.record) agentRecords.rewrite(tx, agent);
      countAbsence(tx, before, agent);
    }
    for (const change of changes) tx.change(change);
  }
}
