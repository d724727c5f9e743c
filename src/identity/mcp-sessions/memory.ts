/** Sessions of MCP clients in memory, where one server answers all requests. */
import type { Limits } from '../../core/settings/limits.js';
import { type FoundMcpSession, type McpSession, type McpSessionStore, tooManySubscriptions } from './port.js';

interface Kept extends Omit<McpSession, 'agent'> {
  agent: string;
  version: number;
  usedMs: number;
  readonly subscriptions: Set<string>;
}

export class MemoryMcpSessions implements McpSessionStore {
  readonly #limits: Limits;
  /** The least recently used first. */
  readonly #sessions = new Map<string, Kept>();

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  readonly open: McpSessionStore['open'] = async (session) => {
    this.#removeIdle();
    const { mcpSessionsMax, mcpSessionsPerUserMax } = this.#limits;
    const ofUser = [...this.#sessions.values()].filter(({ user }) => user === session.user);
    const ended = ofUser.slice(0, Math.max(0, ofUser.length + 1 - mcpSessionsPerUserMax));
    for (const { id } of ended) this.#sessions.delete(id);
    const others = [...this.#sessions.values()].slice(
      0,
      Math.max(0, this.#sessions.size + 1 - mcpSessionsMax),
    );
    for (const { id } of others) this.#sessions.delete(id);
    const usedMs = performance.now();
    this.#sessions.set(session.id, { ...session, version: 1, usedMs, subscriptions: new Set() });
    return [...ended, ...others].map(({ id }) => id);
  };

  readonly find: McpSessionStore['find'] = async (known) => {
    this.#removeIdle();
    const found: FoundMcpSession[] = [];
    for (const [id, version] of known) {
      const session = this.#sessions.get(id);
      if (session === undefined) continue;
      session.usedMs = performance.now();
      this.#sessions.delete(id);
      this.#sessions.set(id, session);
      const changed =
        session.version === version ? null : { subscriptions: [...session.subscriptions], cancelled: [] };
      found.push({ ...session, changed });
    }
    return found;
  };

  readonly subscribe: McpSessionStore['subscribe'] = async (id, uri) => {
    const session = this.#sessions.get(id);
    if (session === undefined || session.subscriptions.has(uri)) return;
    if (session.subscriptions.size >= this.#limits.mcpSubscriptionsMax)
      throw tooManySubscriptions(this.#limits);
    session.subscriptions.add(uri);
    session.version += 1;
  };

  readonly unsubscribe: McpSessionStore['unsubscribe'] = async (id, uri) => {
    const session = this.#sessions.get(id);
    if (session?.subscriptions.delete(uri) === true) session.version += 1;
  };

  /** This server runs all requests, so one that it does not know has ended. */
  readonly cancel: McpSessionStore['cancel'] = async () => {};

  readonly rename: McpSessionStore['rename'] = async (id, agent) => {
    const session = this.#sessions.get(id);
    if (session !== undefined) session.agent = agent;
  };

  readonly end: McpSessionStore['end'] = async (id) => {
    this.#sessions.delete(id);
  };

  #removeIdle(): void {
    const oldestMs = performance.now() - this.#limits.mcpSessionIdleSeconds * 1_000;
    for (const session of this.#sessions.values()) {
      if (session.usedMs >= oldestMs) return;
      this.#sessions.delete(session.id);
    }
  }
}
