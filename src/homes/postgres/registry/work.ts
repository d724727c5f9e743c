/** The registry's part of a transaction: locked rows, and the time when they were locked. */
import type { Change } from '../../../core/change.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type LeaseTimes, leaseTimesOf } from '../../../registry/lifecycle/lease.js';
import type { AgentOutcome, Times } from '../../../registry/lifecycle/lifecycle.js';
import type { StoredAgent } from '../../../registry/model.js';
import type { PresenceOutcome } from '../../../registry/lifecycle/presence.js';
import type { RecentAgents } from '../../../registry/recent-agents.js';
import { agentNotFound } from '../../../registry/refusals.js';
import type { Parameter, Queryable } from '../database/connection.js';
import { notifyForgotten } from '../identity/removals.js';
import type { Work } from '../write/work.js';
import {
  type Row,
  agentOf,
  agentParameters,
  insertAgent,
  nowColumn,
  number,
  selectAgents,
  updateAgent,
} from './rows.js';

/**
 * Runs in the transaction that ends an agent's presence, so that other domains can release what the agent
 * held.
 */
export type PresenceEndedHook = (work: Work, agent: StoredAgent) => Promise<void>;

/** Runs before an agent gets another name. It throws if the agent holds something under its name. */
export type RenameHook = (work: Work, agent: StoredAgent, name: string) => Promise<void>;

/** Runs in the transaction that removes an agent. */
export type RemovedHook = (work: Work, agent: StoredAgent) => Promise<void>;

export interface RegistryWorkOptions {
  /** Tests only: replaces the database's clock. Milliseconds since 1970. */
  readonly clock?: (() => number) | undefined;
  readonly hooks: readonly PresenceEndedHook[];
  readonly renameHooks: readonly RenameHook[];
  readonly removedHooks: readonly RemovedHook[];
  readonly recent: RecentAgents;
}

const lockAgent = `WITH locked AS MATERIALIZED (
    SELECT a.*, u.name AS user_name FROM registry.agents a JOIN registry.users u ON u.user_id = a.user_id
      WHERE a.agent_id = $1 AND a.user_id = coalesce($2, (SELECT user_id FROM registry.owners WHERE id = $1))
      FOR UPDATE OF a)
  ${selectAgents('locked', [nowColumn])}`;

const lockNamed = `WITH locked AS MATERIALIZED (
    SELECT a.*, u.name AS user_name FROM registry.agents a JOIN registry.users u ON u.user_id = a.user_id
      WHERE a.user_id = $1 AND a.name = $2 FOR UPDATE OF a)
  ${selectAgents('locked', [nowColumn])}`;

const lockDue = (timer: 'lease_timer_at' | 'activity_timer_at'): string => `WITH due AS MATERIALIZED (
    SELECT a.*, u.name AS user_name FROM registry.agents a JOIN registry.users u ON u.user_id = a.user_id
      WHERE a.${timer} <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
      ORDER BY a.${timer} LIMIT $2 FOR UPDATE OF a SKIP LOCKED)
  ${selectAgents('due', [nowColumn])}`;

export class RegistryWork {
  readonly #work: Work;
  readonly #options: RegistryWorkOptions;
  /** The agent in whose name the write is made, once its presence is renewed. */
  calledAgent: StoredAgent | undefined;
  #lockedAtMs: number;

  constructor(work: Work, options: RegistryWorkOptions) {
    this.#work = work;
    this.#options = options;
    this.#lockedAtMs = work.nowMs;
  }

  get sql(): Queryable {
    return this.#work.sql;
  }

  get limits(): Limits {
    return this.#work.limits;
  }

  /** The database's time when the last row was locked. */
  get nowMs(): number {
    return this.#options.clock?.() ?? this.#lockedAtMs;
  }

  /** Without outages: with many servers, a lease can be renewed at any time. */
  get leaseTimes(): LeaseTimes {
    return leaseTimesOf(this.limits, []);
  }

  get times(): Times {
    return { limits: this.limits, outages: [], nowMs: this.nowMs };
  }

  rows(statement: string, parameters: readonly Parameter[] = []): Promise<readonly Row[]> {
    return this.#work.rows<Row>(statement, parameters);
  }

  announce(...changes: readonly Change[]): void {
    this.#work.announce(...changes);
  }

  /** Advances `nowMs` to the `nowColumn` of a locked row. */
  lockedAt(row: Row): void {
    this.#lockedAtMs = Math.max(this.#lockedAtMs, number(row, 'now_ms'));
  }

  /** Locks the agent until the transaction ends. Undefined if the user has no such agent. */
  async findLocked(userId: string | null, agentId: string): Promise<StoredAgent | undefined> {
    const [row] = await this.rows(lockAgent, [agentId, userId]);
    if (row === undefined) return undefined;
    this.lockedAt(row);
    return agentOf(row);
  }

  /** Like `findLocked`, by the name of the agent. */
  async findNamed(userId: string, name: string): Promise<StoredAgent | undefined> {
    const [row] = await this.rows(lockNamed, [userId, name]);
    if (row === undefined) return undefined;
    this.lockedAt(row);
    return agentOf(row);
  }

  async requireLocked(userId: string | null, agentId: string): Promise<StoredAgent> {
    const agent = await this.findLocked(userId, agentId);
    if (agent === undefined) throw agentNotFound(agentId);
    return agent;
  }

  /**
   * Locks agents whose timer is due until the transaction ends. Skips agents that another transaction has
   * locked.
   */
  async lockDue(timer: 'lease_timer_at' | 'activity_timer_at', limit: number): Promise<StoredAgent[]> {
    const { clock } = this.#options;
    const due = await this.rows(lockDue(timer), [
      clock === undefined ? null : new Date(clock()).toISOString(),
      limit,
    ]);
    for (const row of due) this.lockedAt(row);
    return due.map(agentOf);
  }

  async insert(agent: StoredAgent): Promise<void> {
    await this.rows(insertAgent, agentParameters(agent));
  }

  /** Stores the changed agent and announces its changes. */
  async store(before: StoredAgent, { agent, changes }: AgentOutcome): Promise<StoredAgent> {
    if (agent !== before) await this.rows(updateAgent, agentParameters(agent));
    this.announce(...changes);
    return agent;
  }

  async storePresence(before: StoredAgent, { agent, ended, changes }: PresenceOutcome): Promise<void> {
    if (ended !== null) {
      this.announce(ended);
      await this.presenceEnded(before);
    }
    await this.store(before, { agent, changes });
  }

  async renamed(agent: StoredAgent, name: string): Promise<void> {
    this.forgetRecent(agent);
    for (const hook of this.#options.renameHooks) await hook(this.#work, agent, name);
  }

  async removed(agent: StoredAgent): Promise<void> {
    this.forgetRecent(agent);
    for (const hook of this.#options.removedHooks) await hook(this.#work, agent);
  }

  /** The agent was at work a moment ago: its next calls write nothing about it. */
  remember(agent: StoredAgent): void {
    const nowMs = this.nowMs;
    this.calledAgent = agent;
    this.#work.afterCommit(() => this.#options.recent.remember(agent, nowMs));
  }

  /** Every server forgets that the agent was at work, this one before its answer. */
  forgetRecent(agent: StoredAgent): void {
    notifyForgotten(this.#work, { user: agent.meta.user, agent: agent.record.name });
    this.#work.afterCommit(() => this.#options.recent.forget(agent));
  }

  async presenceEnded(agent: StoredAgent): Promise<void> {
    for (const hook of this.#options.hooks) await hook(this.#work, agent);
  }

  /**
   * Records the owner of an id. Returns false if the id has an owner. Waits for a write that is adding the
   * same id.
   */
  async addOwner(id: string, userId: string): Promise<boolean> {
    const added = await this.rows(
      'INSERT INTO registry.owners (id, user_id) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING id',
      [id, userId],
    );
    return added.length > 0;
  }

  async removeOwners(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.rows('DELETE FROM registry.owners WHERE id = ANY($1::text[])', [ids]);
  }
}
