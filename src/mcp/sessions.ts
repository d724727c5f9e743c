/** Sessions of clients that speak the protocol of 2025: bounded, expiring, and each its caller's alone. */
import { randomUUID } from 'node:crypto';
import { type Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import type { Caller } from '../identity/caller.js';
import type { Stoa } from '../index.js';
import { authInfoOf } from './callers.js';
import { type DirectAnswer, answerInSession } from './direct.js';
import { type Exchange, refusal } from './exchange.js';
import { createMcpServer } from './server.js';

interface Session {
  readonly id: string;
  readonly user: string;
  /** Whoever opened it; nobody else can use it. */
  readonly owner: string;
  readonly server: Server;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  lastUsedMs: number;
  /** Requests under way and streams that are open. */
  busy: number;
}

export class McpSessions {
  readonly #stoa: Stoa;
  /** The least recently used first. */
  readonly #sessions = new Map<string, Session>();
  readonly #sweeping: NodeJS.Timeout;

  constructor(stoa: Stoa) {
    this.#stoa = stoa;
    this.#sweeping = setInterval(() => this.#sweep(), Math.min(30, stoa.limits.mcpSessionIdleSeconds) * 1_000);
    this.#sweeping.unref();
  }

  get count(): number {
    return this.#sessions.size;
  }

  /** The exchange of an `initialize`: a session is there when its answer is good. */
  async open(exchange: Exchange): Promise<Response> {
    const { caller } = exchange;
    const { mcpSessionsMax, mcpSessionsPerUserMax } = this.#stoa.limits;
    this.#makeRoom([...this.#sessions.values()].filter(({ user }) => user === caller.user), mcpSessionsPerUserMax);
    this.#makeRoom([...this.#sessions.values()], mcpSessionsMax);
    const server = createMcpServer({ stoa: this.#stoa, isLasting: true });
    const transport = new WebStandardStreamableHTTPServerTransport({
      enableJsonResponse: true,
      keepAliveMs: this.#stoa.limits.streamHeartbeatSeconds * 1_000,
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        this.#sessions.set(id, { id, user: caller.user, owner: ownerOf(caller), server, transport, lastUsedMs: performance.now(), busy: 0 });
      },
      onsessionclosed: (id) => void this.#sessions.delete(id),
    });
    await server.connect(transport);
    const response = await transport.handleRequest(exchange.request, { authInfo: authInfoOf(caller), parsedBody: exchange.body });
    if (transport.sessionId === undefined || !this.#sessions.has(transport.sessionId)) await server.close();
    return response;
  }

  async handle(id: string, exchange: Exchange): Promise<Response | DirectAnswer> {
    const { request, body, caller } = exchange;
    const session = this.#sessions.get(id);
    // The client then opens another one.
    if (session === undefined || session.owner !== ownerOf(caller)) return refusal(404, -32_001, 'Session not found.');
    this.#use(session);
    session.busy += 1;
    const done = (): void => {
      session.busy -= 1;
      session.lastUsedMs = performance.now();
    };
    try {
      const direct = await answerInSession(this.#stoa, exchange, session.server.getClientVersion()?.name);
      if (direct !== undefined) {
        done();
        return direct;
      }
      const response = await session.transport.handleRequest(request, { authInfo: authInfoOf(caller), ...(body !== undefined && { parsedBody: body }) });
      if (request.method === 'GET' && response.ok) request.signal.addEventListener('abort', done, { once: true });
      else done();
      return response;
    } catch (error) {
      done();
      throw error;
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping);
    await Promise.all([...this.#sessions.values()].map((session) => this.#end(session)));
  }

  #use(session: Session): void {
    session.lastUsedMs = performance.now();
    this.#sessions.delete(session.id);
    this.#sessions.set(session.id, session);
  }

  /** A session that ends too early only costs its client another `initialize`. */
  #makeRoom(among: readonly Session[], most: number): void {
    if (among.length < most) return;
    const oldest = among.find(({ busy }) => busy === 0) ?? among[0];
    if (oldest !== undefined) void this.#end(oldest);
  }

  #sweep(): void {
    const oldestMs = performance.now() - this.#stoa.limits.mcpSessionIdleSeconds * 1_000;
    for (const session of this.#sessions.values()) if (session.busy === 0 && session.lastUsedMs < oldestMs) void this.#end(session);
  }

  async #end(session: Session): Promise<void> {
    this.#sessions.delete(session.id);
    await session.server.close();
  }
}

function ownerOf({ kind, user, tokenId, identity }: Caller): string {
  return JSON.stringify([kind, user, tokenId, identity]);
}
