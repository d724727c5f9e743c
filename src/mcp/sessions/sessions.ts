/**
 * Sessions of clients that use the protocol of 2025. The home has all sessions. A server has a local part of
 * those that it gets requests for, and compares it with the home before it uses it.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Caller } from '../../core/caller.js';
import { Periodic } from '../../core/waiting/periodic.js';
import type { Stoa } from '../../index.js';
import { agentHeader, agentName, inSession, makeNamedAgent, withNaming } from '../callers.js';
import { type DirectAnswer, answerInSession } from '../direct.js';
import { type Exchange, refusal } from '../exchange.js';
import { LocalSession } from './session.js';

/** Another server's changes of a session are seen after at most this time. */
const lookEveryMs = 500;
/** A local session without a request for this time is dropped. */
const unusedMsMax = 60_000;
const idPattern = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

interface Held {
  readonly local: LocalSession;
  readonly owner: string;
}

export class McpSessions {
  readonly #stoa: Stoa;
  /** The least recently used first. */
  readonly #held = new Map<string, Held>();
  readonly #restoring = new Map<string, Promise<Held | undefined>>();
  readonly #looking: Periodic;

  constructor(stoa: Stoa) {
    this.#stoa = stoa;
    this.#looking = new Periodic({
      everyMs: lookEveryMs,
      run: () => {
        this.#dropUnused();
        return this.#lookAtBusy();
      },
      onError: (error) => stoa.onError(error, 'looking at the sessions of MCP clients'),
    });
    this.#looking.start();
  }

  /** Handles an `initialize`. A session is opened if the answer is not an error. */
  async open(exchange: Exchange): Promise<Response> {
    const { caller } = exchange;
    const [local, response] = await LocalSession.open(this.#stoa, randomUUID, exchange);
    const { id, protocolVersion } = local;
    if (id === undefined || protocolVersion === undefined) {
      await local.close();
      return response;
    }
    const owner = ownerOf(caller);
    try {
      const agent = caller.agent ?? (await makeNamedAgent(this.#stoa, caller, local.client));
      const client = agentName(local.client) ?? '';
      const ended = await this.#stoa.home.mcpSessions.open({
        id,
        user: caller.user,
        owner,
        client,
        agent,
        protocolVersion,
      });
      local.agent = agent;
      response.headers.set(agentHeader, encodeURIComponent(agent));
      for (const other of ended) this.#dropSoon(other);
    } catch (error) {
      await local.close();
      throw error;
    }
    local.foundMs = performance.now();
    this.#hold(id, { local, owner });
    return response;
  }

  async handle(id: string, exchange: Exchange): Promise<Response | DirectAnswer> {
    const { request } = exchange;
    const local = await this.#find(id, ownerOf(exchange.caller), request.method === 'GET');
    // The client then opens a new session.
    if (local === undefined) return refusal(404, -32_001, 'Session not found.');
    const caller = withNaming(inSession(exchange.caller, local.agent), (agent) => local.rename(agent));
    local.busy += 1;
    const done = (): void => {
      local.busy -= 1;
    };
    try {
      const direct = await answerInSession(this.#stoa, { ...exchange, caller }, local.client);
      if (direct !== undefined) {
        done();
        return direct;
      }
      const response = await local.pass({ ...exchange, caller });
      // A signal that is already aborted dispatches no event.
      if (request.method === 'GET' && response.ok && !request.signal.aborted) {
        request.signal.addEventListener('abort', done, { once: true });
        local.report(caller, request.signal);
      } else {
        done();
        if (request.method === 'DELETE' && response.ok) this.#dropSoon(id);
      }
      return response;
    } catch (error) {
      done();
      throw error;
    }
  }

  /** When the server stops, calls that wait have ended, so their answers come at once. */
  async close(): Promise<void> {
    await this.#looking.close();
    await Promise.all([...this.#held.values()].map(({ local }) => local.finished()));
    await Promise.all([...this.#held.keys()].map((id) => this.#drop(id)));
  }

  /** The session, if it exists and belongs to this owner. For a stream it is always read from the home. */
  async #find(id: string, owner: string, isStream: boolean): Promise<LocalSession | undefined> {
    const held = this.#held.get(id);
    if (held === undefined) {
      if (!idPattern.test(id)) return undefined;
      const restoring =
        this.#restoring.get(id) ?? this.#restore(id).finally(() => this.#restoring.delete(id));
      this.#restoring.set(id, restoring);
      const restored = await restoring;
      return restored?.owner === owner ? restored.local : undefined;
    }
    if (held.owner !== owner) return undefined;
    if (isStream || performance.now() - held.local.foundMs > lookEveryMs) await this.#lookAt([id]);
    if (!this.#held.has(id)) return undefined;
    this.#hold(id, held);
    return held.local;
  }

  async #restore(id: string): Promise<Held | undefined> {
    const [found] = await this.#stoa.home.mcpSessions.find(new Map([[id, 0]]));
    if (found === undefined) return undefined;
    const local = await LocalSession.restore(this.#stoa, found);
    local.update(found);
    const held = { local, owner: found.owner };
    this.#hold(id, held);
    return held;
  }

  /** Marks the session as the most recently used. A session that is dropped here can be restored. */
  #hold(id: string, held: Held): void {
    this.#held.delete(id);
    this.#held.set(id, held);
    if (this.#held.size <= this.#stoa.limits.mcpSessionsMax) return;
    const idle = [...this.#held].find(([, { local }]) => local.busy === 0);
    if (idle !== undefined) this.#dropSoon(idle[0]);
  }

  #dropUnused(): void {
    const oldestMs = performance.now() - unusedMsMax;
    for (const [id, { local }] of this.#held) {
      if (local.busy > 0) continue;
      if (local.foundMs >= oldestMs) return;
      this.#dropSoon(id);
    }
  }

  /**
   * Reads the sessions with an open stream or a running request: their client may write to another server.
   */
  async #lookAtBusy(): Promise<void> {
    const busy = [...this.#held].flatMap(([id, { local }]) => (local.busy > 0 ? [id] : []));
    await this.#lookAt(busy);
  }

  /** Reads the sessions from the home. A session that the home no longer has is over. */
  async #lookAt(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const known = new Map(ids.map((id) => [id, this.#held.get(id)?.local.version ?? 0]));
    const found = await this.#stoa.home.mcpSessions.find(known);
    for (const session of found) {
      known.delete(session.id);
      this.#held.get(session.id)?.local.update(session);
    }
    for (const id of known.keys()) this.#dropSoon(id);
  }

  #dropSoon(id: string): void {
    this.#drop(id).catch((error: unknown) =>
      this.#stoa.onError(error, 'ending the session of an MCP client'),
    );
  }

  async #drop(id: string): Promise<void> {
    const held = this.#held.get(id);
    this.#held.delete(id);
    await held?.local.close();
  }
}

/**
 * A caller with changed rights is another owner, because the subscriptions were allowed by the old rights.
 */
function ownerOf({ kind, user, tokenId, identity, agentId, scopes }: Caller): string {
  const facts = [kind, user, tokenId, identity, agentId, scopes.write, scopes.namespaces];
  return createHash('sha256').update(JSON.stringify(facts)).digest('base64url');
}
