/**
 * The part of a session that one server has: the state of the protocol, the requests that run on this server,
 * and the stream if it is open here. The state that all servers share is in the home.
 */
import { type Server, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Caller } from '../../core/caller.js';
import type { FoundMcpSession, McpSession } from '../../identity/mcp-sessions/port.js';
import type { Stoa } from '../../index.js';
import { authInfoOf, ofOneUser } from '../callers.js';
import type { Exchange } from '../exchange.js';
import { createMcpServer } from '../server.js';
import { ResourceWatch } from './subscriptions.js';

const requestIdSchema = z.union([z.string().max(200), z.number()]);
type RequestId = z.output<typeof requestIdSchema>;
const requestSchema = z.looseObject({ id: requestIdSchema, method: z.string() });
const cancelSchema = z.looseObject({
  method: z.literal('notifications/cancelled'),
  params: z.looseObject({ requestId: requestIdSchema }),
});

export class LocalSession {
  readonly #stoa: Stoa;
  readonly #server: Server;
  readonly #transport: WebStandardStreamableHTTPServerTransport;
  readonly #subscriptions = new Set<string>();
  /** By the id of a request that runs here: ends its exchange without an answer. */
  readonly #cancels = new Map<RequestId, () => void>();
  readonly #answering = new Set<Promise<Response>>();
  /** While the stream is open here. */
  #watch: ResourceWatch | undefined;
  #version = 0;
  /** Requests under way and streams that are open. */
  busy = 0;
  /** The name of the agent that the session is. */
  agent = '';
  /** When the session was last found in the home. */
  foundMs = -Infinity;

  private constructor(stoa: Stoa, makeId: () => string) {
    this.#stoa = stoa;
    this.#server = createMcpServer(stoa, {
      add: (uri) => this.#subscribe(uri),
      remove: (uri) => this.#unsubscribe(uri),
    });
    this.#transport = new WebStandardStreamableHTTPServerTransport({
      enableJsonResponse: true,
      keepAliveMs: stoa.limits.streamHeartbeatSeconds * 1_000,
      sessionIdGenerator: makeId,
      onsessionclosed: (id) => stoa.home.mcpSessions.end(id),
    });
  }

  /** Answers an `initialize`. Without an id, the answer is an error. */
  static async open(stoa: Stoa, makeId: () => string, exchange: Exchange): Promise<[LocalSession, Response]> {
    const local = new LocalSession(stoa, makeId);
    await local.#server.connect(local.#transport);
    return [local, await local.#handle(exchange)];
  }

  /** For a session that another server opened, or that this server has dropped. */
  static async restore(stoa: Stoa, session: McpSession): Promise<LocalSession> {
    const request = new Request('http://localhost/mcp', {
      method: 'POST',
      headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
    });
    const body = {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: {
        protocolVersion: session.protocolVersion,
        capabilities: {},
        clientInfo: { name: session.client, version: '' },
      },
    };
    const local = new LocalSession(stoa, () => session.id);
    await local.#server.connect(local.#transport);
    await local.#transport.handleRequest(request, { parsedBody: body });
    return local;
  }

  get id(): string | undefined {
    return this.#transport.sessionId;
  }

  /** The agent of the session gets another name, on all servers. */
  async rename(agent: string): Promise<void> {
    if (this.id !== undefined) await this.#stoa.home.mcpSessions.rename(this.id, agent);
    this.agent = agent;
  }

  get version(): number {
    return this.#version;
  }

  get client(): string | undefined {
    return this.#server.getClientVersion()?.name;
  }

  get protocolVersion(): string | undefined {
    return this.#server.getNegotiatedProtocolVersion();
  }

  /** Applies the subscriptions and cancellations that the client sent to other servers. */
  update({ version, agent, changed }: FoundMcpSession): void {
    this.foundMs = performance.now();
    this.agent = agent;
    if (changed === null) return;
    const [known, wanted] = [this.#version, new Set(changed.subscriptions)];
    this.#version = version;
    for (const uri of this.#subscriptions) {
      if (wanted.has(uri)) continue;
      this.#subscriptions.delete(uri);
      this.#watch?.remove(uri);
    }
    const added = [...wanted].filter((uri) => !this.#subscriptions.has(uri));
    for (const uri of added) this.#subscriptions.add(uri);
    if (this.#watch !== undefined && added.length > 0) this.#begin(this.#watch, added);
    for (const { version: at, requestId } of changed.cancelled) if (at > known) this.#cancel(requestId);
  }

  /**
   * Passes a request to the protocol's transport. The transport never ends the exchange of a cancelled
   * request, so it gets an answer here that no client receives.
   */
  async pass(exchange: Exchange): Promise<Response> {
    const cancelled = cancelSchema.safeParse(exchange.body);
    if (cancelled.success) return this.#passCancel(exchange, cancelled.data.params.requestId);
    const passing = this.#handle(exchange);
    const asked = requestSchema.safeParse(exchange.body);
    if (!asked.success) return passing;
    const { id } = asked.data;
    const unanswered = new Promise<Response>((resolve) => {
      this.#cancels.set(id, () => {
        resolve(new Response(null, { status: 202 }));
        this.#transport
          .send({ jsonrpc: '2.0', id, error: { code: -32_000, message: 'Cancelled.' } })
          .catch((error: unknown) => this.#stoa.onError(error, 'a cancelled MCP call'));
      });
    });
    const answering = Promise.race([passing, unanswered]).finally(() => {
      this.#cancels.delete(id);
      this.#answering.delete(answering);
    });
    this.#answering.add(answering);
    return answering;
  }

  /**
   * After a stream was opened here: reports changes through it. The client may have missed changes since its
   * last stream, so each resource is announced once.
   */
  report(caller: Caller, closed: AbortSignal): void {
    const watch = new ResourceWatch(this.#stoa, ofOneUser(caller), {
      onUpdated: (uri) => this.#report(this.#server.sendResourceUpdated({ uri })),
      onListChanged: () => this.#report(this.#server.sendResourceListChanged()),
    });
    this.#watch = watch;
    closed.addEventListener(
      'abort',
      () => {
        watch.close();
        if (this.#watch === watch) this.#watch = undefined;
      },
      { once: true },
    );
    if (this.#subscriptions.size > 0) this.#begin(watch, this.#subscriptions);
  }

  /** Resolves when the requests that run here are answered. */
  async finished(): Promise<void> {
    await Promise.allSettled(this.#answering);
  }

  /** Requests that still run get no answer, because the transport would never end their exchanges. */
  async close(): Promise<void> {
    this.#watch?.close();
    for (const end of this.#cancels.values()) end();
    await this.#server.close();
  }

  #handle({ request, body, caller }: Exchange): Promise<Response> {
    return this.#transport.handleRequest(request, {
      authInfo: authInfoOf(caller),
      ...(body !== undefined && { parsedBody: body }),
    });
  }

  async #subscribe(uri: string): Promise<void> {
    if (this.id !== undefined) await this.#stoa.home.mcpSessions.subscribe(this.id, uri);
    this.#subscriptions.add(uri);
    this.#watch?.add(uri);
    await this.#watch?.follow();
  }

  async #unsubscribe(uri: string): Promise<void> {
    if (this.id !== undefined) await this.#stoa.home.mcpSessions.unsubscribe(this.id, uri);
    this.#subscriptions.delete(uri);
    this.#watch?.remove(uri);
  }

  /** Starts to report subscriptions that this stream does not report yet. */
  #begin(watch: ResourceWatch, uris: Iterable<string>): void {
    const wanted = [...uris];
    for (const uri of wanted) watch.add(uri);
    watch.follow().then(
      () => watch.announce(wanted),
      (error: unknown) => {
        this.#stoa.onError(error, 'following changes for an MCP client');
        // The client opens another stream.
        this.#transport.closeStandaloneSSEStream();
      },
    );
  }

  /** The transport ends the work if this server runs the request; otherwise other servers learn of it. */
  async #passCancel(exchange: Exchange, requestId: RequestId): Promise<Response> {
    const response = await this.#handle(exchange);
    const end = this.#cancels.get(requestId);
    if (end !== undefined) end();
    else if (response.ok && this.id !== undefined)
      await this.#stoa.home.mcpSessions.cancel(this.id, requestId);
    return response;
  }

  /** Cancels a request here after another server got the cancellation. */
  #cancel(requestId: RequestId): void {
    const end = this.#cancels.get(requestId);
    if (end === undefined) return;
    this.#transport.onmessage?.({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId },
    });
    end();
  }

  #report(sending: Promise<void>): void {
    sending.catch((error: unknown) => this.#stoa.onError(error, 'reporting a change to an MCP client'));
  }
}
