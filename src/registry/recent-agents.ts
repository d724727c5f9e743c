/** The agents whose presence was renewed recently, so that most writes of an agent need not renew it. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../core/entries-at-most.js';
import type { Caller } from '../core/caller.js';
import type { Limits } from '../core/settings/limits.js';
import { nextCallDueMs } from './lifecycle/calls.js';
import type { StoredAgent } from './model.js';

/** The agent in whose name a caller writes. */
export interface ActingAgent {
  readonly user: string;
  readonly agent: string;
}

interface Recent {
  /** After this time a call renews the presence. */
  readonly dueMs: number;
  readonly expiresAtMs: number;
}

const agentsMax = 10_000;
/** How long a write may take to renew a presence before another one tries. */
const takenMs = 1_000;

/**
 * The agent that a caller acts as, or null. An identity without a link has no user, so it is not an agent.
 */
export function actingAgent({ kind, user, agent, agentId }: Caller): ActingAgent | null {
  return agent === null || (kind === 'agent' && agentId === null) ? null : { user, agent };
}

/** By user and name. An entry is valid for `agentPresenceRenewSeconds`. */
export class RecentAgents {
  readonly #limits: Limits;
  readonly #seen = new LRUCache<string, Recent>(entriesAtMost(agentsMax));

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  /** Whether nothing is to be written about the agent. `untilMs`: its presence must not end before. */
  isFresh({ user, agent }: ActingAgent, nowMs: number, untilMs = 0): boolean {
    const seen = this.#seen.get(nameOf(user, agent));
    return seen !== undefined && nowMs < seen.dueMs && untilMs <= seen.expiresAtMs;
  }

  /**
   * Whether this write is the one that renews the presence of the agent. Other writes at the same time do not
   * wait for its row.
   */
  take(acting: ActingAgent, nowMs: number, untilMs: number): boolean {
    if (this.isFresh(acting, nowMs, untilMs)) return false;
    const name = nameOf(acting.user, acting.agent);
    const seen = this.#seen.get(name);
    if (seen !== undefined && nowMs < seen.expiresAtMs)
      this.#seen.set(name, { ...seen, dueMs: nowMs + takenMs });
    return true;
  }

  remember({ record, meta, lease }: StoredAgent, nowMs: number): void {
    this.#seen.set(nameOf(meta.user, record.name), {
      dueMs: nextCallDueMs({ lease }, this.#limits, nowMs),
      expiresAtMs: lease?.expiresAtMs ?? 0,
    });
  }

  /** For an agent that was deleted or renamed, or whose lease was released. */
  forget({ record, meta }: Pick<StoredAgent, 'record' | 'meta'>): void {
    this.forgetNamed({ user: meta.user, agent: record.name });
  }

  forgetNamed({ user, agent }: ActingAgent): void {
    this.#seen.delete(nameOf(user, agent));
  }

  clear(): void {
    this.#seen.clear();
  }
}

function nameOf(user: string, agent: string): string {
  return `${user}\0${agent}`;
}
