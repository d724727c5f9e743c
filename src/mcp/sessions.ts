/**
 * Sessions of clients that speak the protocol of 2025. The home's store has the sessions; each server has
 * its own half of those that it gets requests of, and looks at the store before it trusts that half.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import { agentName } from './callers.js';
import { type DirectAnswer, answerInSession } from './direct.js';
import { type Exchange, refusal } from './exchange.js';
import { SessionHalf } from './session.js';

/** Another server's changes of a session are seen after at most this time. */
const lookEveryMs = 500;
/** A half that no request needed for so long is dropped. */
const unusedMsMax = 60_000;
const idPattern = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

interface Held {
  readonly half: SessionHalf;
  readonly owner: string;
}

export class McpSessions {
  readonly #stoa: Stoa;
  /** The least recently used first. */
  readonly #held = new Map<string, Held>();
  readonly #restoring = new Map<string, Promise<Held | undefined>>();
  readonly #looking: NodeJS.Timeout;
  #look: Promise<void> | undefined;
  #isFailing = false;

  constructor(stoa: Stoa) {
    this.#stoa = stoa;
    this.#looking = setInterval(() => {
      this.#dropUnused();
      this.#look ??= this.#lookAtBusy().finally(() => (this.#look = undefined));
    }, lookEveryMs);
    this.#looking.unref();
  }

  /** The exchange of an `initialize`: a session is there when its answer is good. */
  async open(exchange: Exchange): Promise<Response> {
    const { caller } = exchange;
    const [half, response] = await SessionHalf.open(this.#stoa, randomUUID, exchange);
    const { id, protocolVersion } = half;
    if (id === undefined || protocolVersion === undefined) {
      await half.close();
      return response;
    }
    const owner = ownerOf(caller);
    try {
      const ended = await this.#stoa.home.mcpSessions.open({
        id,
        user: caller.user,
        owner,
        client: agentName(half.client) ?? '',
        protocolVersion,
      });
      for (const other of ended) this.#dropSoon(other);
    } catch (error) {
      await half.close();
      throw error;
    }
    half.foundMs = performance.now();
    this.#hold(id, { half, owner });
    return response;
  }

  async handle(id: string, exchange: Exchange): Promise<Response | DirectAnswer> {
    const { request, caller } = exchange;
    const half = await this.#find(id, ownerOf(caller), request.method === 'GET');
    // The client then opens another one.
    if (half === undefined) return refusal(404, -32_001, 'Session not found.');
    half.busy += 1;
    const done = (): void => {
      half.busy -= 1;
    };
    try {
      const direct = await answerInSession(this.#stoa, exchange, half.client);
      if (direct !== undefined) {
        done();
        return direct;
      }
      const response = await half.pass(exchange);
      // A signal that is aborted already sends no event.
      if (request.method === 'GET' && response.ok && !request.signal.aborted) {
        request.signal.addEventListener('abort', done, { once: true });
        half.report(caller, request.signal);
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

  async close(): Promise<void> {
    clearInterval(this.#looking);
    await this.#look;
    await Promise.all([...this.#held.keys()].map((id) => this.#drop(id)));
  }

  /**
   * The half of a session that is there and belongs to this owner. A stream begins with what is stored now.
   */
  async #find(id: string, owner: string, isStream: boolean): Promise<SessionHalf | undefined> {
    const held = this.#held.get(id);
    if (held === undefined) {
      if (!idPattern.test(id)) return undefined;
      const restoring =
        this.#restoring.get(id) ?? this.#restore(id).finally(() => this.#restoring.delete(id));
      this.#restoring.set(id, restoring);
      const restored = await restoring;
      return restored?.owner === owner ? restored.half : undefined;
    }
    if (held.owner !== owner) return undefined;
    if (isStream || performance.now() - held.half.foundMs > lookEveryMs) await this.#lookAt([id]);
    if (!this.#held.has(id)) return undefined;
    this.#hold(id, held);
    return held.half;
  }

  async #restore(id: string): Promise<Held | undefined> {
    const [found] = await this.#stoa.home.mcpSessions.find(new Map([[id, 0]]));
    if (found === undefined) return undefined;
    const half = await SessionHalf.restore(this.#stoa, found);
    half.update(found);
    const held = { half, owner: found.owner };
    this.#hold(id, held);
    return held;
  }

  /** As the most recently used. A half that is dropped can be restored. */
  #hold(id: string, held: Held): void {
    this.#held.delete(id);
    this.#held.set(id, held);
    if (this.#held.size <= this.#stoa.limits.mcpSessionsMax) return;
    const idle = [...this.#held].find(([, { half }]) => half.busy === 0);
    if (idle !== undefined) this.#dropSoon(idle[0]);
  }

  #dropUnused(): void {
    const oldestMs = performance.now() - unusedMsMax;
    for (const [id, { half }] of this.#held) {
      if (half.busy > 0) continue;
      if (half.foundMs >= oldestMs) return;
      this.#dropSoon(id);
    }
  }

  /**
   * Sessions with an open stream or a request under way, whose client may say something to another server.
   */
  async #lookAtBusy(): Promise<void> {
    const busy = [...this.#held].flatMap(([id, { half }]) => (half.busy > 0 ? [id] : []));
    try {
      await this.#lookAt(busy);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#stoa.onError(error, 'looking at the sessions of MCP clients');
      this.#isFailing = true;
    }
  }

  /** What the store does not have any more has ended. */
  async #lookAt(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const known = new Map(ids.map((id) => [id, this.#held.get(id)?.half.version ?? 0]));
    const found = await this.#stoa.home.mcpSessions.find(known);
    for (const session of found) {
      known.delete(session.id);
      this.#held.get(session.id)?.half.update(session);
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
    await held?.half.close();
  }
}

/**
 * Somebody whose rights have changed is another owner: what the session follows was chosen by the old ones.
 */
function ownerOf({ kind, user, tokenId, identity, agentId, scopes }: Caller): string {
  const facts = [kind, user, tokenId, identity, agentId, scopes.write, scopes.namespaces];
  return createHash('sha256').update(JSON.stringify(facts)).digest('base64url');
}
