/** Leases in the directory: heartbeats, releases, and the loss of a silent holder. */
import { StoaError } from '../../../core/errors.js';
import type { Outage } from '../../../core/outages.js';
import type { Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import { idBytes } from '../../../registry/ids.js';
import {
  type LeaseTimes,
  beat,
  checkFence,
  leaseTimesOf,
  lostAtMs,
  vacated,
} from '../../../registry/lease.js';
import type { Lease, StoredAgent } from '../../../registry/model.js';
import type { WriteGuard } from '../../../registry/port.js';
import { agentRecords } from './indexes.js';
import { findAgent, writeLease } from './rows.js';

/**
 * Called in the transaction that ends an agent's presence, so that other domains can release what it held.
 */
export type PresenceLostHook = (tx: Transaction, agent: StoredAgent) => void;

export const leaseTimer = 'registry.lease';

export class LeaseVerbs {
  /** What else happens when an agent's presence ends: lost, released or deleted. */
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

  /** Throws where the fencing number of a writer is out of date. */
  checkFence(tx: Transaction, agent: StoredAgent, fence: number | null): void {
    checkFence(agent.lease, fence, this.times(), tx.nowMs);
  }

  heartbeat(tx: Transaction, agent: StoredAgent, holder: string, guard: WriteGuard): Lease {
    this.checkFence(tx, agent, guard.fence);
    const current = this.#loseIfDue(tx, agent);
    const lease = this.#withTimer(tx, agent.record.agent_id, beat(current, holder, this.times(), tx.nowMs));
    writeLease(tx, agent.record, lease);
    this.#followInRecord(tx, agent);
    if (current?.holder !== holder)
      this.#announce(tx, agent, 'agent.present', { holder, fence: lease.fence });
    return lease;
  }

  release(tx: Transaction, agent: StoredAgent, holder: string | null, guard: WriteGuard): void {
    this.checkFence(tx, agent, guard.fence);
    const { lease } = agent;
    if (lease === null || lease.holder === null) return;
    if (holder !== null && lease.holder !== holder) {
      throw new StoaError('conflict', `The agent's lease is held by "${lease.holder}".`, {
        details: { holder: lease.holder },
      });
    }
    writeLease(tx, agent.record, this.#withoutTimer(tx, agent.record.agent_id, vacated(lease, false)));
    this.#announce(tx, agent, 'agent.released', { holder: lease.holder, fence: lease.fence });
    this.#runHooks(tx, agent);
  }

  /** For an agent that is being deleted; its row goes with it. */
  end(tx: Transaction, agent: StoredAgent): void {
    if (agent.lease === null) return;
    this.#withoutTimer(tx, agent.record.agent_id, agent.lease);
    if (agent.lease.holder !== null) this.#runHooks(tx, agent);
  }

  /**
   * The timer fires when the lease would have ended at the time it was set. After later heartbeats it is set
   * again here.
   */
  onTimer(tx: Transaction, reference: Buffer): void {
    const agent = findAgent(tx, null, reference.toString('hex'));
    const lease = agent?.lease;
    if (agent === undefined || lease === undefined || lease === null) return;
    // A later timer is set, so this one is outdated.
    if (lease.timerAtMs === null || lease.timerAtMs > tx.nowMs) return;
    const rung = { ...lease, timerAtMs: null };
    const left = this.#loseIfDue(tx, { ...agent, lease: rung }) ?? rung;
    writeLease(
      tx,
      agent.record,
      left.holder === null ? left : this.#withTimer(tx, agent.record.agent_id, left),
    );
  }

  /** Ends the presence of a holder that was silent for too long. Returns the lease after that. */
  #loseIfDue(tx: Transaction, agent: StoredAgent): Lease | null {
    const { lease } = agent;
    if (lease === null || lease.holder === null || tx.nowMs < lostAtMs(lease, this.times())) return lease;
    this.#announce(tx, agent, 'agent.lost', { holder: lease.holder, fence: lease.fence });
    this.#runHooks(tx, agent);
    return vacated(lease, true);
  }

  /** One timer a lease. A heartbeat finds it set and leaves it alone. */
  #withTimer(tx: Transaction, agentId: string, lease: Lease): Lease {
    if (lease.timerAtMs !== null) return lease;
    const atMs = lostAtMs(lease, this.times());
    tx.schedule({ atMs, kind: leaseTimer, reference: idBytes(agentId) });
    return { ...lease, timerAtMs: atMs };
  }

  #withoutTimer(tx: Transaction, agentId: string, lease: Lease): Lease {
    if (lease.timerAtMs !== null)
      tx.unschedule({ atMs: lease.timerAtMs, kind: leaseTimer, reference: idBytes(agentId) });
    return { ...lease, timerAtMs: null };
  }

  /** The record's own time of the last heartbeat follows lazily, without a new version. */
  #followInRecord(tx: Transaction, { record, meta }: StoredAgent): void {
    const behindMs = tx.nowMs - (record.last_heartbeat_at ?? 0);
    if (record.last_heartbeat_at !== null && behindMs < this.#limits.heartbeatRecordSeconds * 1_000) return;
    agentRecords.rewrite(tx, { record: { ...record, last_heartbeat_at: tx.nowMs }, meta });
  }

  #announce(
    tx: Transaction,
    { record, meta }: StoredAgent,
    kind: string,
    facts: Record<string, string | number>,
  ): void {
    tx.change({
      domain: 'registry',
      kind,
      id: record.agent_id,
      user: meta.user,
      version: meta.version,
      facts,
    });
  }

  #runHooks(tx: Transaction, agent: StoredAgent): void {
    for (const hook of this.onPresenceLost) hook(tx, agent);
  }
}
