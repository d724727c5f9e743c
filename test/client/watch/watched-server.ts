/** A server, a gate before it, and clients for the suites of watches. */
import { afterAll, beforeAll } from 'vitest';
import { type ChangeItem, Stoa } from '../../../src/client/index.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { Running } from '../../server/running.js';
import { type Gate, startGate } from '../../servers/gate.js';

export interface WatchedServer {
  running: Running;
  /** Before the server: closed, it loses all connections. */
  gate: Gate;
  clientOf(user: string, options?: { url?: string; namespaces?: string[] }): Promise<Stoa>;
}

export function useWatchedServer(): WatchedServer {
  // The hooks set these before the first test.
  const server = {} as WatchedServer;
  beforeAll(async () => {
    const running = await Running.start({
      limits: { streamHeartbeatSeconds: 0.05, agentsPerUserMax: 10_000 },
    });
    server.running = running;
    server.gate = await startGate(running.url);
    server.clientOf = async (user, { url = running.url, namespaces } = {}) => {
      const scopes = { write: true, ...(namespaces !== undefined && { namespaces }) };
      const { token } = await running.stoa.identity.createToken(operatorCaller(), user, { scopes }, null);
      return new Stoa({ url, token, agent: 'tester', retryDelayMs: 5 });
    };
  });
  afterAll(async () => {
    await server.gate.close();
    await server.running.stop();
  });
  return server;
}

export function told(changes: readonly ChangeItem[]): string[][] {
  return changes.map(({ kind, id }) => [kind, id]);
}
