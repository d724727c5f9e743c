/** Sessions of agents, as the service offers them. */
import { StoaError } from '../errors.js';
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency.js';
import type { Limits } from '../limits.js';
import { type Page, decodeCursor, encodeCursor, pageLimit } from '../paging.js';
import { validate } from '../validate.js';
import { requireWrite, scopeOf, userScopeOf } from './access.js';
import { sessionAnswer } from './answers.js';
import { parseAgentId, parseSessionId } from './ids.js';
import { sessionKeyBytes } from './keys.js';
import { type SessionRecord, type SessionStatus, sessionStatusBytes } from './model.js';
import type { RegistryPort } from './port.js';
import {
  type ListSessionsInput,
  type OpenSessionInput,
  type SessionAnswer,
  listSessionsSchema,
  openSessionSchema,
  sessionStatusSchema,
} from './schemas.js';

export class RegistrySessions {
  readonly #port: RegistryPort;
  readonly #limits: Limits;

  constructor(port: RegistryPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  /** On an idle agent this makes it running; on a sleeping or stopped one it asks for a wake. */
  async open(
    caller: Caller,
    agentId: string,
    input: OpenSessionInput = {},
    idempotency: Idempotency | null = null,
  ): Promise<SessionAnswer> {
    requireWrite(caller);
    const id = parseAgentId(agentId);
    const { session_id } = validate(openSessionSchema, input);
    const sessionId = session_id === undefined ? null : parseSessionId(session_id);
    return sessionAnswer(
      await this.#port.openSession(
        scopeOf(caller, id, this.#limits),
        id,
        sessionId,
        { fence: caller.fence },
        idempotency,
      ),
    );
  }

  /** Opens a session under an id of the caller's own, or brings a known one to the given status. */
  async put(
    caller: Caller,
    session: { session_id: string; agent_id: string; status?: SessionStatus },
  ): Promise<SessionAnswer> {
    requireWrite(caller);
    const sessionId = parseSessionId(session.session_id);
    const agentId = parseAgentId(session.agent_id);
    const status = validate(sessionStatusSchema, session.status ?? 'active');
    const known = await this.#port.getSession(scopeOf(caller, agentId, this.#limits), sessionId);
    if (known === undefined && status === 'active')
      return this.open(caller, agentId, { session_id: sessionId });
    if (known === undefined)
      throw new StoaError('conflict', 'A session that was never opened cannot be closed.', {
        details: { from: null, to: status },
      });
    if (known.agent_id !== agentId)
      throw new StoaError('already_exists', `The session ${sessionId} belongs to another agent.`);
    return this.updateStatus(caller, sessionId, status);
  }

  /** With an agent, only where the session is that agent's. */
  async get(caller: Caller, sessionId: string, agentId?: string): Promise<SessionAnswer> {
    return sessionAnswer(await this.#require(caller, sessionId, agentId));
  }

  /** In the order in which they were opened. */
  async list(caller: Caller, agentId: string, input: ListSessionsInput = {}): Promise<Page<SessionAnswer>> {
    const id = parseAgentId(agentId);
    const { status, limit, cursor } = validate(listSessionsSchema, input);
    const list = JSON.stringify(['sessions', id, status ?? null]);
    const page = {
      after: decodeCursor(list, cursor, sessionKeyBytes),
      limit: pageLimit(limit, this.#limits),
    };
    const { items, nextKey } = await this.#port.listSessions(
      scopeOf(caller, id, this.#limits),
      id,
      status,
      page,
    );
    return {
      items: items.map(sessionAnswer),
      next_cursor: nextKey === null ? null : encodeCursor(list, nextKey),
    };
  }

  /** Closing twice is no error. Closing the last makes a running agent idle. */
  async close(caller: Caller, sessionId: string, agentId?: string): Promise<SessionAnswer> {
    requireWrite(caller);
    const session = await this.#require(caller, sessionId, agentId);
    return sessionAnswer(
      await this.#port.closeSession(userScopeOf(caller, this.#limits), session.agent_id, session.session_id, {
        fence: caller.fence,
      }),
    );
  }

  async updateStatus(caller: Caller, sessionId: string, status: SessionStatus): Promise<SessionAnswer> {
    requireWrite(caller);
    if (validate(sessionStatusSchema, status) === 'closed') return this.close(caller, sessionId);
    const session = await this.#require(caller, sessionId);
    if (session.status === sessionStatusBytes.active) return sessionAnswer(session);
    throw new StoaError('conflict', 'A closed session does not reopen.', {
      fix: 'Open a new one.',
      details: { from: 'closed', to: 'active' },
    });
  }

  async #require(caller: Caller, sessionId: string, agentId?: string): Promise<SessionRecord> {
    const id = parseSessionId(sessionId);
    const ofAgent = agentId === undefined ? undefined : parseAgentId(agentId);
    const session = await this.#port.getSession(userScopeOf(caller, this.#limits), id);
    const isReached = caller.kind !== 'agent' || session?.agent_id === caller.agentId;
    if (session === undefined || !isReached || (ofAgent !== undefined && session.agent_id !== ofAgent)) {
      throw new StoaError('not_found', `There is no session ${id}.`);
    }
    return session;
  }
}
