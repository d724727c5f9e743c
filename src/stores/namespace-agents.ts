/** Which agents worked in a namespace, for backends that keep it beside the documents. */
import { LRUCache } from 'lru-cache';
import type { Scope } from '../datastore/model.js';
import type { StoreOptions } from './options.js';

export interface AgentsStore {
  /** Adds to the stored agents. Adding twice has no further effect. */
  add(scope: Scope, agents: readonly string[]): Promise<void>;
  remove(scope: Scope): Promise<void>;
}

/** Agents of namespaces that are remembered as kept. */
const knownMax = 10_000;

/**
 * Writes an agent once and then remembers it. A failure does not fail the document's write: the agent waits
 * here and is written with the next one.
 */
export class NamespaceAgents {
  readonly #store: AgentsStore;
  readonly #nowMs: () => number;
  /** After this time an agent is written again, because another process may have cleared the namespace. */
  readonly #knownSeconds: number;
  /**
   * An entry is valid for `knownSeconds`, or until the namespace is cleared. It saves a round trip to the
   * store for each write and counted read.
   */
  readonly #known = new LRUCache<string, number>({ max: knownMax });
  readonly #waiting = new Map<string, { scope: Scope; agents: Set<string> }>();

  constructor(store: AgentsStore, { limits, nowMs }: StoreOptions) {
    this.#store = store;
    this.#nowMs = nowMs;
    this.#knownSeconds = limits.knownAgentSeconds;
  }

  /** Notes that these agents worked there. Never throws. */
  async seen(scope: Scope, agents: Iterable<string | null>): Promise<void> {
    for (const agent of agents) {
      if (agent === null || this.#isKnown(scope, agent)) continue;
      const id = idOf(scope);
      const entry = this.#waiting.get(id) ?? { scope, agents: new Set() };
      this.#waiting.set(id, entry);
      entry.agents.add(agent);
    }
    if (this.#waiting.size > 0) await Promise.allSettled([this.flush()]);
  }

  /** Writes the waiting agents; throws if that fails, and keeps the agents waiting. */
  async flush(): Promise<void> {
    for (const [id, { scope, agents }] of this.#waiting) {
      this.#waiting.delete(id);
      try {
        await this.#store.add(scope, [...agents]);
      } catch (error) {
        const later = this.#waiting.get(id);
        for (const agent of agents) later?.agents.add(agent);
        if (later === undefined) this.#waiting.set(id, { scope, agents });
        throw error;
      }
      for (const agent of agents) this.#known.set(idOf(scope, agent), this.#nowMs());
    }
  }

  /** The namespace was cleared. */
  async forget(scope: Scope): Promise<void> {
    this.#waiting.delete(idOf(scope));
    const prefix = `${idOf(scope)}\n`;
    const known = [...this.#known.keys()].filter((id) => id.startsWith(prefix));
    for (const id of known) this.#known.delete(id);
    await this.#store.remove(scope);
  }

  #isKnown(scope: Scope, agent: string): boolean {
    const knownAtMs = this.#known.get(idOf(scope, agent));
    return knownAtMs !== undefined && Math.abs(this.#nowMs() - knownAtMs) < this.#knownSeconds * 1000;
  }
}

/** Names contain no control characters, so a line break can separate them. */
function idOf(scope: Scope, ...more: readonly string[]): string {
  return [scope.user, scope.namespace, ...more].join('\n');
}
