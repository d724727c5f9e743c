/** What the registry needs in a transaction: rows under lock, and the time at which they were locked. */
import type { Change } from '../../../core/change.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type LeaseTimes, leaseTimesOf } from '../../../registry/lifecycle/lease.js';
import type { AgentOutcome, Times } from '../../../registry/lifecycle/lifecycle.js';
import type { StoredAgent } from '../../../registry/model.js';
import type { PresenceOutcome } from '../../../registry/lifecycle/presence.js';
import { agentNotFound } from '../../../registry/refusals.js';
import type { Parameter, Queryable } from '../connection.js';
import type { Work } from '../work.js';
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

/** Called in the transaction in which an agent's presence ends, so that other domains can take back what it held. */
export type PresenceEndedHook = (work: Work, agent: StoredAgent) => Promise<void>;

export interface RegistryWorkOptions {
  /** Milliseconds since 1970, instead of the database's clock; for tests. */
  readonly clock?: (() => number) | undefined;
  readonly hooks: readonly PresenceEndedHook[];
}

const lockAgent = `WITH locked AS MATERIALIZED (
    SELECT a.*, u.name AS user_name FROM registry.agents a JOIN registry.users u ON u.user_id = a.user_id
      WHERE a.agent_id = $1 AND a.user_id = coalesce($2, (SELECT user_id FROM registry.owners WHERE id = $1))
      FOR UPDATE OF a)
  ${selectAgents('locked', [nowColumn])}`;

const lockDue = (timer: 'lease_timer_at' | 'activity_timer_at'): string => `WITH due AS MATERIALIZED (
    SELECT a.*, u.name AS user_name FROM registry.agents a JOIN registry.users u ON u.user_id = a.user_id
      WHERE a.${timer} <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
      ORDER BY a.${timer} LIMIT $2 FOR UPDATE OF a SKIP LOCKED)
  ${selectAgents('due', [nowColumn])}`;

export class RegistryWork {
  readonly #work: Work;
  readonly #options: RegistryWorkOptions;
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

  /** By the database's clock, not before the last lock was held. */
  get nowMs(): number {
    return this.#options.clock?.() ?? this.#lockedAtMs;
  }

  /** Servers come and go: there is no time in which none of them could have renewed a lease. */
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

  /** Takes the time of rows that were locked with `nowColumn` beside them. */
  lockedAt(row: Row): void {
    this.#lockedAtMs = Math.max(this.#lockedAtMs, number(row, 'now_ms'));
  }

  /** The agent, held until the transaction ends; undefined where the user does not have it. */
  async findLocked(userId: string | null, agentId: string): Promise<StoredAgent | undefined> {
    const [row] = await this.rows(lockAgent, [agentId, userId]);
    if (row === undefined) return undefined;
    this.lockedAt(row);
    return agentOf(row);
  }

  async requireLocked(userId: string | null, agentId: string): Promise<StoredAgent> {
    const agent = await this.findLocked(userId, agentId);
    if (agent === undefined) throw agentNotFound(agentId);
    return agent;
  }

  /** Agents whose timer is due and whom nobody else is at, held until the transaction ends. */
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

  /** Stores what became of an agent, and announces it. */
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

  async presenceEnded(agent: StoredAgent): Promise<void> {
    for (const hook of this.#options.hooks) await hook(this.#work, agent);
  }

  /** Notes whose an id is. Answers false where it was noted before; an id that another write is noting is waited for. */
  async enter(id: string, userId: string): Promise<boolean> {
    const entered = await this.rows(
      'INSERT INTO registry.owners (id, user_id) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING RETURNING id',
      [id, userId],
    );
    return entered.length > 0;
  }

  async leave(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.rows('DELETE FROM registry.owners WHERE id = ANY($1::text[])', [ids]);
  }
}
