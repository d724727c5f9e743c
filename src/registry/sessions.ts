/** Reads of agents' sessions, as the service offers them. */
import type { Caller } from '../core/caller.js';
import type { Limits } from '../core/settings/limits.js';
import { type Page, decodeCursor, encodeCursor, pageLimit } from '../core/paging.js';
import { validate } from '../core/validate.js';
import { scopeOf, userScopeOf } from './access.js';
import { sessionAnswer } from './answers.js';
import { parseAgentId, parseSessionId } from './ids.js';
import { sessionKeyBytes } from './layout/keys.js';
import type { RegistryPort } from './port.js';
import { type ListSessionsInput, type SessionAnswer, listSessionsSchema } from './schemas.js';
import { sessionNotFound } from './refusals.js';

export class RegistrySessions {
  readonly #port: RegistryPort;
  readonly #limits: Limits;

  constructor(port: RegistryPort, limits: Limits) {
    this.#port = port;
    this.#limits = limits;
  }

  /** With an agent, only where the session is that agent's. */
  async get(caller: Caller, sessionId: string, agentId?: string): Promise<SessionAnswer> {
    const id = parseSessionId(sessionId);
    const ofAgent = agentId === undefined ? undefined : parseAgentId(agentId);
    const session = await this.#port.getSession(userScopeOf(caller, this.#limits), id);
    const isReached = caller.kind !== 'agent' || session?.agent_id === caller.agentId;
    if (session === undefined || !isReached || (ofAgent !== undefined && session.agent_id !== ofAgent))
      throw sessionNotFound(id);
    return sessionAnswer(session);
  }

  /** In the order in which they were opened. */
  async list(caller: Caller, agentId: string, input: ListSessionsInput = {}): Promise<Page<SessionAnswer>> {
    const id = parseAgentId(agentId);
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
