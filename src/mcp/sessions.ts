/** Sessions of clients that speak the protocol of 2025: bounded, expiring, and each its caller's alone. */
import { randomUUID } from 'node:crypto';
import { type Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { authInfoOf } from './callers.js';
import { type DirectAnswer, answerInSession } from './direct.js';
import { type Exchange, refusal } from './exchange.js';
import { createMcpServer } from './server.js';

const requestId = z.union([z.string(), z.number()]);
const requestSchema = z.looseObject({ id: requestId, method: z.string() });
const cancelSchema = z.looseObject({
  method: z.literal('notifications/cancelled'),
  params: z.looseObject({ requestId }),
});

interface Session {
  readonly id: string;
  readonly user: string;
  /** The caller that opened the session. Others cannot use it. */
  readonly owner: string;
  readonly server: Server;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  lastUsedMs: number;
  /** Requests under way and streams that are open. */
  busy: number;
  /** By the id of a request under way: ends its exchange without an answer. */
  readonly cancels: Map<string | number, () => void>;
}

export class McpSessions {
  readonly #stoa: Stoa;
  /** The least recently used first. */
  readonly #sessions = new Map<string, Session>();
  readonly #sweeping: NodeJS.Timeout;

  constructor(stoa: Stoa) {
    this.#stoa = stoa;
    this.#sweeping = setInterval(
      () => this.#sweep(),
      Math.min(30, stoa.limits.mcpSessionIdleSeconds) * 1_000,
    );
    this.#sweeping.unref();
  }

  get count(): number {
    return this.#sessions.size;
  }

  /** The exchange of an `initialize`: a session is there when its answer is good. */
  async open(exchange: Exchange): Promise<Response> {
    const { caller } = exchange;
    const { mcpSessionsMax, mcpSessionsPerUserMax } = this.#stoa.limits;
    this.#makeRoom(
      [...this.#sessions.values()].filter(({ user }) => user === caller.user),
      mcpSessionsPerUserMax,
    );
    this.#makeRoom([...this.#sessions.values()], mcpSessionsMax);
    const server = createMcpServer({ stoa: this.#stoa, isLasting: true });
    const transport = new WebStandardStreamableHTTPServerTransport({
      enableJsonResponse: true,
      keepAliveMs: this.#stoa.limits.streamHeartbeatSeconds * 1_000,
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        this.#sessions.set(id, {
          id,
          user: caller.user,
          owner: ownerOf(caller),
          server,
          transport,
          lastUsedMs: performance.now(),
          busy: 0,
          cancels: new Map(),
        });
      },
      onsessionclosed: (id) => void this.#sessions.delete(id),
    });
    await server.connect(transport);
    const response = await transport.handleRequest(exchange.request, {
      authInfo: authInfoOf(caller),
      parsedBody: exchange.body,
    });
    if (transport.sessionId === undefined || !this.#sessions.has(transport.sessionId)) await server.close();
    return response;
  }

  async handle(id: string, exchange: Exchange): Promise<Response | DirectAnswer> {
    const { request, caller } = exchange;
    const session = this.#sessions.get(id);
    // The client then opens another one.
    if (session === undefined || session.owner !== ownerOf(caller))
      return refusal(404, -32_001, 'Session not found.');
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
      const response = await this.#pass(session, exchange);
      if (request.method === 'GET' && response.ok)
        request.signal.addEventListener('abort', done, { once: true });
      else done();
      return response;
    } catch (error) {
      done();
      throw error;
    }
  }

  /**
   * A cancelled request is never answered, and the protocol's transport would hold its exchange for
   * ever: it ends here, with an answer that the transport needs to forget it and that nobody gets.
   */
  async #pass({ transport, cancels }: Session, { request, body, caller }: Exchange): Promise<Response> {
    const passing = transport.handleRequest(request, {
      authInfo: authInfoOf(caller),
      ...(body !== undefined && { parsedBody: body }),
    });
    const cancelled = cancelSchema.safeParse(body);
    if (cancelled.success) cancels.get(cancelled.data.params.requestId)?.();
    const asked = requestSchema.safeParse(body);
    if (!asked.success) return passing;
    const { id } = asked.data;
    const unanswered = new Promise<Response>((resolve) => {
      cancels.set(id, () => {
        resolve(new Response(null, { status: 202 }));
        transport
          .send({ jsonrpc: '2.0', id, error: { code: -32_000, message: 'Cancelled.' } })
          .catch((error: unknown) => this.#stoa.onError(error, 'a cancelled MCP call'));
      });
    });
    return Promise.race([passing, unanswered]).finally(() => cancels.delete(id));
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
    for (const session of this.#sessions.values())
      if (session.busy === 0 && session.lastUsedMs < oldestMs) void this.#end(session);
  }

  async #end(session: Session): Promise<void> {
    this.#sessions.delete(session.id);
    await session.server.close();
  }
}

/** Somebody whose rights have changed is another owner: what the session follows was chosen by the old ones. */
function ownerOf({ kind, user, tokenId, identity, agentId, scopes }: Caller): string {
  return JSON.stringify([kind, user, tokenId, identity, agentId, scopes.write, scopes.namespaces]);
}
