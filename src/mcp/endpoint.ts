/** MCP over HTTP: both generations of the protocol at one URL, distinguished by the request. */
import {
  type McpHttpHandler,
  type ServerEvent,
  type ServerEventBus,
  WebStandardStreamableHTTPServerTransport,
  createMcpHandler,
  isLegacyRequest,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Stoa } from '../index.js';
import { authInfoOf, ofOneUser } from './callers.js';
import { type DirectAnswer, answerModern } from './direct.js';
import { type Exchange, refusal } from './exchange.js';
import { hasMoreValuesThan } from './message-values.js';
import { createMcpServer } from './server.js';
import { McpSessions } from './sessions/sessions.js';
import { ResourceWatch, checkSubscribable } from './sessions/subscriptions.js';
import { exceeds } from '../core/settings/exceeds.js';

const initializeSchema = z.looseObject({ method: z.literal('initialize') });
const listenSchema = z.looseObject({
  id: z.union([z.string(), z.number()]),
  method: z.literal('subscriptions/listen'),
  params: z.looseObject({
    notifications: z.looseObject({ resourceSubscriptions: z.array(z.string()).optional() }),
  }),
});
type Listen = z.output<typeof listenSchema>;

/**
 * A request of 2026-07-28 contains everything. Older clients open a session, which they need only
 * for subscriptions: a single request without a session is answered too.
 */
export class McpEndpoint {
  readonly #stoa: Stoa;
  readonly #sessions: McpSessions;
  readonly #modern: McpHttpHandler;
  readonly #listening = new Set<McpHttpHandler>();
  /** Requests of 2026 under way. */
  readonly #answering = new Set<Promise<Response>>();

  constructor(stoa: Stoa) {
    this.#stoa = stoa;
    this.#sessions = new McpSessions(stoa);
    this.#modern = this.#handler();
  }

  async handle(exchange: Exchange): Promise<Response | DirectAnswer> {
    const { request, body, caller } = exchange;
    const { limits } = this.#stoa;
    if (Array.isArray(body) && body.length > limits.mcpBatchMax)
      return refusal(
        400,
        -32_600,
        `${exceeds({ subject: 'The request', unit: 'messages', limit: 'mcpBatchMax', limits, received: body.length })}.`,
      );
    if (hasMoreValuesThan(body, limits.mcpMessageValuesMax))
      return refusal(
        413,
        -32_600,
        `The request has more than ${limits.mcpMessageValuesMax} values beside the arguments of tools ` +
          '(mcpMessageValuesMax). Send a smaller request.',
      );
    const session = request.headers.get('mcp-session-id');
    if (session !== null) return this.#sessions.handle(session, exchange);
    if (request.method !== 'POST')
      return refusal(405, -32_000, 'Method not allowed: open a session with initialize first.', {
        allow: 'POST',
      });
    const direct = await answerModern(this.#stoa, exchange);
    if (direct !== undefined) return direct;
    if (!(await isLegacyRequest(request, body))) return this.#handleModern(exchange);
    if (initializeSchema.safeParse(body).success) return this.#sessions.open(exchange);
    return this.#handleOnce(request, body, caller);
  }

  /** When the server stops, calls that wait have ended, so their answers come at once. */
  async close(): Promise<void> {
    await this.#sessions.close();
    await Promise.allSettled(this.#answering);
    await Promise.all([this.#modern, ...this.#listening].map((handler) => handler.close()));
  }

  #handler(bus?: ServerEventBus): McpHttpHandler {
    return createMcpHandler(() => createMcpServer(this.#stoa), {
      legacy: 'reject',
      keepAliveMs: this.#stoa.limits.streamHeartbeatSeconds * 1_000,
      ...(bus !== undefined && { bus }),
    });
  }

  async #handleModern({ request, body, caller }: Exchange): Promise<Response> {
    const options = { authInfo: authInfoOf(caller), parsedBody: body };
    const listen = listenSchema.safeParse(body);
    if (!listen.success) {
      const answering = this.#modern.fetch(request, options).finally(() => this.#answering.delete(answering));
      this.#answering.add(answering);
      return answering;
    }
    const wanted = new Set(listen.data.params.notifications.resourceSubscriptions);
    const { limits } = this.#stoa;
    if (wanted.size > limits.mcpSubscriptionsMax)
      return refusal(
        400,
        -32_602,
        `${exceeds({ subject: 'The request', unit: 'resources to subscribe to', limit: 'mcpSubscriptionsMax', limits, received: wanted.size })}.`,
        {},
        listen.data.id,
      );
    try {
      for (const uri of wanted) checkSubscribable(this.#stoa, uri);
    } catch (error) {
      if (!(error instanceof StoaError)) throw error;
      return refusal(400, -32_602, error.message, {}, listen.data.id);
    }
    return this.#listen(request, options, listen.data, caller);
  }

  /** Each listener has its own bus, because callers may see different resources. */
  async #listen(
    request: Request,
    options: { authInfo: ReturnType<typeof authInfoOf>; parsedBody: unknown },
    { params }: Listen,
    caller: Caller,
  ): Promise<Response> {
    const listeners = new Set<(event: ServerEvent) => void>();
    const publish = (event: ServerEvent): void => listeners.forEach((listener) => listener(event));
    const watch = new ResourceWatch(this.#stoa, ofOneUser(caller), {
      onUpdated: (uri) => publish({ kind: 'resource_updated', uri }),
      onListChanged: () => publish({ kind: 'resources_list_changed' }),
    });
    for (const uri of params.notifications.resourceSubscriptions ?? []) watch.add(uri);
    // Before the client gets the answer to its subscription.
    await watch.follow();
    const handler = this.#handler({
      publish: () => undefined,
      subscribe: (listener) => {
        listeners.add(listener);
        this.#listening.add(handler);
        return () => {
          watch.close();
          this.#listening.delete(handler);
        };
      },
    });
    const response = await handler.fetch(request, options);
    if (listeners.size === 0) watch.close();
    return response;
  }

  /** A single request of an older client, or of `curl`. */
  async #handleOnce(request: Request, body: unknown, caller: Caller): Promise<Response> {
    const server = createMcpServer(this.#stoa);
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
    await server.connect(transport);
    // A disconnected client does not wait for the answer.
    const gone = new Promise<Response>((resolve) => {
      request.signal.addEventListener('abort', () => resolve(new Response(null, { status: 202 })), {
        once: true,
      });
    });
    try {
      return await Promise.race([
        gone,
        transport.handleRequest(request, { authInfo: authInfoOf(caller), parsedBody: body }),
      ]);
    } finally {
      await server.close();
    }
  }
}
