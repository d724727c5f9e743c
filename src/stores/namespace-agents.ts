/** Which agents worked in a namespace, for backends that keep it beside the documents. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../core/entries-at-most.js';
import { FirstFailures } from '../core/waiting/first-failures.js';
import type { DocumentRecord, Scope } from '../datastore/model.js';
import type { StoreOptions } from './options.js';
import { scopeOf } from './owners.js';

export interface AgentsStore {
  /** Adds to the stored agents. Adding twice has no further effect. */
  add(scope: Scope, agents: readonly string[]): Promise<void>;
  remove(scope: Scope): Promise<void>;
}

/** Agents of namespaces that are remembered as kept. */
const knownMax = 10_000;
/** Agents that may wait while the store refuses them. Further ones are not noted. */
const waitingMax = 10_000;

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
  readonly #known = new LRUCache<string, number>(entriesAtMost(knownMax));
  readonly #waiting = new Map<string, { scope: Scope; agents: Set<string> }>();
  readonly #failures: FirstFailures;
  #waitingCount = 0;

  constructor(store: AgentsStore, { limits, nowMs, onError = () => undefined }: StoreOptions) {
    this.#store = store;
    this.#failures = new FirstFailures(onError);
    this.#nowMs = nowMs;
    this.#knownSeconds = limits.knownAgentSeconds;
  }

  /** Notes that these agents worked there. Never throws: the first of several failures is reported. */
  async seen(scope: Scope, agents: Iterable<string | null>): Promise<void> {
    for (const agent of agents) if (agent !== null && !this.#isKnown(scope, agent)) this.#add(scope, agent);
    if (this.#waiting.size === 0) return;
    await this.#failures.run(() => this.flush());
  }

  /** Notes the agents that documents name. */
  async seenIn(documents: readonly DocumentRecord[]): Promise<void> {
    for (const record of documents)
      await this.seen(scopeOf(record), [
        record.createdByAgent,
        record.updatedByAgent,
        record.lastAccessedByAgent,
      ]);
  }

  /** Writes the waiting agents; throws if that fails, and keeps the agents waiting. */
  async flush(): Promise<void> {
    for (const { scope, agents } of this.#waiting.values()) {
      this.#drop(scope);
      try {
        await this.#store.add(scope, [...agents]);
      } catch (error) {
        for (const agent of agents) this.#add(scope, agent);
        throw error;
      }
      for (const agent of agents) this.#known.set(idOf(scope, agent), this.#nowMs());
    }
  }

  /** The namespace was cleared. */
  async forget(scope: Scope): Promise<void> {
    this.#drop(scope);
    const prefix = `${idOf(scope)}\n`;
    const known = [...this.#known.keys()].filter((id) => id.startsWith(prefix));
    for (const id of known) this.#known.delete(id);
    await this.#store.remove(scope);
  }

  #add(scope: Scope, agent: string): void {
    const entry = this.#waiting.get(idOf(scope)) ?? { scope, agents: new Set() };
    if (entry.agents.has(agent) || this.#waitingCount >= waitingMax) return;
    this.#waiting.set(idOf(scope), entry);
    entry.agents.add(agent);
    this.#waitingCount += 1;
  }

  #drop(scope: Scope): void {
    this.#waitingCount -= this.#waiting.get(idOf(scope))?.agents.size ?? 0;
    this.#waiting.delete(idOf(scope));
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
