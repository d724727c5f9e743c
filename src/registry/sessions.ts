/** The sessions of agents, as the service offers them. */
import { type Caller, requireWriteScope } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import type { Limits } from '../core/settings/limits.js';
import { type Page, decodeCursor, encodeCursor, pageLimit } from '../core/paging.js';
import { validate } from '../core/validation/validate.js';
import { type Writer, writeOne } from '../core/write.js';
import { scopeOf, userScopeOf } from './access.js';
import type { AgentLookup } from './agent-lookup.js';
import { sessionAnswer } from './answers.js';
import { parseAgentId, parseSessionId } from './ids.js';
import { sessionKeyBytes } from './layout/keys.js';
import type { SessionStatus } from './model.js';
import type { RegistryPort } from './port.js';
import { sessionNotFound } from './refusals.js';
import {
  type ListSessionsInput,
  type OpenSessionInput,
  type SessionAnswer,
  listSessionsSchema,
  sessionStatusSchema,
} from './schemas.js';
import type { RegistrySteps } from './steps.js';

export interface RegistrySessionsOptions {
  readonly port: RegistryPort;
  readonly limits: Limits;
  readonly steps: RegistrySteps;
  readonly agents: AgentLookup;
  readonly writer: Writer;
}

export class RegistrySessions {
  readonly #port: RegistryPort;
  readonly #limits: Limits;
  readonly #steps: RegistrySteps;
  readonly #agents: AgentLookup;
  readonly #writer: Writer;

  constructor(options: RegistrySessionsOptions) {
    this.#port = options.port;
    this.#limits = options.limits;
    this.#steps = options.steps;
    this.#agents = options.agents;
    this.#writer = options.writer;
  }

  /** An idle agent becomes running; for a hibernating or stopped agent a wake is requested. */
  async open(
    caller: Caller,
    agent: string,
    input: OpenSessionInput = {},
    idempotency: Idempotency | null = null,
  ): Promise<SessionAnswer> {
    const agentId = await this.#agents.idOf(caller, agent);
    return writeOne(this.#writer, { caller, idempotency }, this.#steps.openSession(caller, agentId, input));
  }

  /** Opens a session under an id that the caller chose, or changes the status of an existing session. */
  async put(
    caller: Caller,
    session: { session_id: string; agent_id: string; status?: SessionStatus },
  ): Promise<SessionAnswer> {
    requireWriteScope(caller);
    const sessionId = parseSessionId(session.session_id);
    const agentId = parseAgentId(session.agent_id);
    const status = validate(sessionStatusSchema, session.status ?? 'active');
    const known = await this.#port.getSession(scopeOf(caller, agentId, this.#limits), sessionId);
    if (known === undefined && status === 'active')
      return this.open(caller, agentId, { session_id: sessionId });
    if (known === undefined)
      throw new StoaError('conflict', `The session ${sessionId} was never opened, so it cannot be closed.`, {
        details: { from: null, to: status },
      });
    if (known.agent_id !== agentId)
      throw new StoaError('already_exists', `The session ${sessionId} belongs to another agent.`);
    return this.updateStatus(caller, sessionId, status);
  }

  /** Closing twice is not an error. Closing the last makes a running agent idle. */
  async close(caller: Caller, sessionId: string, agent?: string): Promise<SessionAnswer> {
    const agentId = agent === undefined ? undefined : await this.#agents.idOf(caller, agent);
    return writeOne(this.#writer, { caller }, this.#steps.closeSession(caller, sessionId, agentId));
  }

  async updateStatus(caller: Caller, sessionId: string, status: SessionStatus): Promise<SessionAnswer> {
    requireWriteScope(caller);
    if (validate(sessionStatusSchema, status) === 'closed') return this.close(caller, sessionId);
    const session = await this.get(caller, sessionId);
    if (session.status === 'active') return session;
    throw new StoaError('conflict', `The session ${sessionId} is closed and cannot be opened again.`, {
      fix: 'Open a new session.',
      details: { from: 'closed', to: 'active' },
    });
  }

  /** With an agent, only if the session belongs to that agent. */
  async get(caller: Caller, sessionId: string, agent?: string): Promise<SessionAnswer> {
    const id = parseSessionId(sessionId);
    const ofAgent = agent === undefined ? undefined : await this.#agents.idOf(caller, agent);
    const session = await this.#port.getSession(userScopeOf(caller, this.#limits), id);
    const isReached = caller.kind !== 'agent' || session?.agent_id === caller.agentId;
    if (session === undefined || !isReached || (ofAgent !== undefined && session.agent_id !== ofAgent))
      throw sessionNotFound(id);
    return sessionAnswer(session);
  }

  /** In the order in which they were opened. */
  async list(caller: Caller, agent: string, input: ListSessionsInput = {}): Promise<Page<SessionAnswer>> {
    const id = await this.#agents.idOf(caller, agent);
    const { status, limit, cursor } = validate(listSessionsSchema, input);
    const list = JSON.stringify(['sessions', id, status ?? null]);
    const page = {
      after: decodeCursor(list, cursor, sessionKeyBytes)?.toString('hex') ?? null,
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
      next_cursor: nextKey === null ? null : encodeCursor(list, Buffer.from(nextKey, 'hex')),
    };
  }
}
