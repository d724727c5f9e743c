/** The agents in whose names requests are made: made with their first write, and present while they call. */
import { userKey } from '../../../identity/user-key.js';
import { NanosecondClock, makeAgentId } from '../../../registry/ids.js';
import type { StoredAgent } from '../../../registry/model.js';
import { type ActingAgent, RecentAgents } from '../../../registry/recent-agents.js';
import type { CallerAgents, Work } from '../write/work.js';
import * as agents from './agents.js';
import { agentNamed } from './lists.js';
import type { PostgresRegistry } from './registry.js';
import { userIdOf } from './users.js';
import type { RegistryWork } from './work.js';

type CallersRegistry = Pick<PostgresRegistry, 'limits' | 'nowMs' | 'partOf' | 'isReceiving'>;

export class RegistryCallers implements CallerAgents {
  /** The agents that were at work a moment ago, as this server knows. */
  readonly recent: RecentAgents;
  readonly #registry: CallersRegistry;
  readonly #clock = new NanosecondClock();

  constructor(registry: CallersRegistry) {
    this.#registry = registry;
    this.recent = new RecentAgents(registry.limits);
  }

  makeId(user: string, name: string): string {
    return makeAgentId(userKey(user), name, this.#clock.next(this.#registry.nowMs()));
  }

  /** What is in memory counts only while the notices of other servers arrive. */
  isFresh(agent: ActingAgent, nowMs: number, untilMs?: number): boolean {
    if (!this.#registry.isReceiving()) this.recent.clear();
    return this.recent.isFresh(agent, nowMs, untilMs);
  }

  /** The agent in whose name a write is made, inside that write: with `makes`, made if it is new. */
  async called(work: Work, agent: ActingAgent, untilMs: number, makes: boolean): Promise<void> {
    if (this.recent.take(agent, this.#registry.nowMs(), untilMs))
      await this.#called(work, agent, untilMs, makes);
  }

  /** The id of an agent inside a write. With `acts`, the agent is the one that writes: it is made if it is new. */
  async idIn(work: Work, agent: ActingAgent, acts: boolean): Promise<string | undefined> {
    return acts
      ? (await this.#called(work, agent, 0, true))?.record.agent_id
      : agentNamed(work.sql, userIdOf(agent.user), agent.agent);
  }

  /** Renews the presence of an agent that called without a write. */
  async saw(work: RegistryWork, agent: ActingAgent): Promise<void> {
    if (this.recent.take(agent, this.#registry.nowMs(), 0)) await agents.called(work, agent, 0, null);
  }

  #called(work: Work, agent: ActingAgent, untilMs: number, makes: boolean): Promise<StoredAgent | undefined> {
    const makeId = (): string => this.makeId(agent.user, agent.agent);
    return agents.called(this.#registry.partOf(work), agent, untilMs, makes ? makeId : null);
  }
}
