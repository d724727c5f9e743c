/** Requests to a server that may be replaced: by another one at another address, or behind a balancer. */
import { setTimeout as sleep } from 'node:timers/promises';
import { queryText, requestOf } from '../../api/call.js';
import { agents } from '../../api/registry/operations.js';
import { StoaError } from '../../core/errors.js';
import { type Message, routingHeaders } from './messages.js';
import { isRepeatable } from './repeatable.js';

export interface ServerAddress {
  url: string;
  /** The headers that identify the caller. */
  headers: Readonly<Record<string, string>>;
}

const attemptsMax = 5;
const firstPauseMs = 100;
const answerMsMax = 10_000;
/** A balancer without a server that answers. */
const passingStatuses: ReadonlySet<number> = new Set([502, 503, 504]);

export class ServerLink {
  readonly #findServer: () => Promise<ServerAddress>;
  #server: Promise<ServerAddress> | undefined;
  session: string | undefined;
  protocolVersion: string | undefined;
  /** The name of the agent that the client is: given, from the server, or chosen for it. */
  agent: string | undefined;
  /** The name that the client was given; it stays. */
  readonly #given: string | undefined;

  /** `findServer` is called again when the server is gone. */
  constructor(findServer: () => Promise<ServerAddress>, agent: string | undefined) {
    this.#findServer = findServer;
    this.#given = agent;
    this.agent = agent;
  }

  address(): Promise<ServerAddress> {
    this.#server ??= this.#findServer().catch((error: unknown) => {
      this.#server = undefined;
      throw error;
    });
    return this.#server;
  }

  /** The next request finds the server again. */
  lost(): void {
    this.#server = undefined;
  }

  async send(
    method: 'POST' | 'GET' | 'DELETE',
    signal: AbortSignal,
    message?: Message,
    session: string | null = this.session ?? null,
  ): Promise<Response> {
    const { url, headers } = await this.address();
    const response = await fetch(new URL('/mcp', url), {
      method,
      signal,
      headers: {
        ...headers,
        // The name of a session is in the session.
        ...(session === null && this.#agentHeader()),
        accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
        ...(session !== null && { 'mcp-session-id': session }),
        ...(this.protocolVersion !== undefined && { 'mcp-protocol-version': this.protocolVersion }),
        ...(message !== undefined && { 'content-type': 'application/json', ...routingHeaders(message) }),
      },
      ...(message !== undefined && { body: JSON.stringify(message) }),
    });
    const named = response.headers.get('stoa-agent');
    if (named !== null) this.agent = decodeURIComponent(named);
    return response;
  }

  /** The name belongs to another agent now. True if the client can continue under another name. */
  loseName(): boolean {
    if (this.#given !== undefined || this.agent === undefined) return false;
    this.agent = undefined;
    return true;
  }

  /** A read in the name of the agent, which renews its presence. Without a server, nothing is sent. */
  async signOfLife(): Promise<void> {
    if (this.#server === undefined || this.agent === undefined) return;
    const { url, headers } = await this.address();
    const { path, query } = requestOf(agents.list, { limit: 1, name: this.agent });
    const response = await fetch(new URL(path + queryText(query), url), {
      headers: { ...headers, ...this.#agentHeader() },
      signal: AbortSignal.timeout(answerMsMax),
    });
    await response.body?.cancel();
  }

  /** Makes an agent, so that no other client gets its name. Returns the status of the answer. */
  async makeAgent(name: string): Promise<number> {
    const { url, headers } = await this.address();
    const { method, path } = requestOf(agents.create, {});
    const response = await fetch(new URL(path, url), {
      method,
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ name }),
      signal: AbortSignal.timeout(answerMsMax),
    });
    await response.body?.cancel();
    return response.status;
  }

  #agentHeader(): Record<string, string> {
    return this.agent === undefined ? {} : { 'stoa-agent': encodeURIComponent(this.agent) };
  }

  /** Sends a message again if the server has not received it, or if receiving it twice is harmless. */
  async post(message: Message, signal: AbortSignal): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt === attemptsMax;
      try {
        const response = await this.send('POST', signal, message);
        if (isLast || !isRepeatable(message) || !passingStatuses.has(response.status)) return response;
        await response.body?.cancel();
      } catch (error) {
        this.lost();
        if (isLast || signal.aborted || !(isRefused(error) || isRepeatable(message))) throw error;
        // There is no server, and none could be started.
        if (error instanceof StoaError) throw error;
      }
      await sleep(firstPauseMs * 2 ** (attempt - 1), undefined, { signal });
    }
  }
}

/** The connection was refused before a byte was sent, so sending again repeats nothing. */
export function isRefused(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  return cause?.code === 'ECONNREFUSED';
}
