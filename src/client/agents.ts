/** The registry through a server: agents, their sessions, and leases that renew themselves. */
import type { StoaError } from '../errors.js';
import type {
  AgentAnswer,
  CreateAgentInput,
  LeaseAnswer,
  ListAgentsInput,
  SessionAnswer,
  UpdateAgentInput,
} from '../registry/schemas.js';
import type { LinkConsent } from './agent.js';
import type { Page } from './data.js';
import { type LostEvent, Renewal } from './renewal.js';
import type { Transport } from './transport.js';

export interface AgentCallSettings {
  signal?: AbortSignal | undefined;
}

export interface AgentWriteSettings extends AgentCallSettings {
  /** Only over this version. */
  ifVersion?: number | undefined;
  /** The fencing number of the lease that the caller holds. */
  fence?: number | undefined;
}

export interface OpenSessionSettings extends AgentCallSettings {
  /** A UUID; a new one unless given. */
  sessionId?: string | undefined;
  idempotencyKey?: string | undefined;
  /** The fencing number of the lease that the caller holds. */
  fence?: number | undefined;
}

export interface KeepAliveSettings {
  /** Who keeps the agent alive; the caller unless given. */
  holder?: string | undefined;
  /** Called once when the lease is lost, as a listener of `lost` is. What it guarded must stop. */
  onLost?: ((reason: StoaError) => void) | undefined;
  /** Ends the renewals, as `stop` does. */
  signal?: AbortSignal | undefined;
}

/** A lease that renews itself until it is stopped or lost. It tells with `lost`, and with its signal, when it is lost. */
export class LiveLease extends Renewal {
  readonly #lease: () => LeaseAnswer;

  constructor(
    life: { lifeMs: number; takenMs: number },
    lease: () => LeaseAnswer,
    renew: (signal: AbortSignal) => Promise<unknown>,
  ) {
    super(life, renew);
    this.#lease = lease;
  }

  /** As the server last answered it. */
  get lease(): LeaseAnswer {
    return this.#lease();
  }

  /** Send it along with writes: those of a former holder are refused. */
  get fence(): number {
    return this.#lease().fence;
  }

  stop(): void {
    this.letGo();
  }
}

/** An identity that speaks for an agent. */
export interface IdentityLink {
  identity: string;
  user: string;
  agent_id: string;
  agent_name: string;
  write: boolean;
  /** Null: all. */
  namespaces: string[] | null;
  linked_at: string;
}

type Verb = 'start' | 'stop' | 'restart' | 'hibernate' | 'wake';

export class AgentsClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** With an idempotency key a repeat makes no second agent. */
  create(
    input: CreateAgentInput,
    { idempotencyKey, signal }: AgentCallSettings & { idempotencyKey?: string } = {},
  ): Promise<AgentAnswer> {
    const headers: Record<string, string> =
      idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
    return this.#transport.call('POST', '/v1/agents', {
      body: input,
      headers,
      signal,
      repeatable: idempotencyKey !== undefined,
    });
  }

  get(id: string, { signal }: AgentCallSettings = {}): Promise<AgentAnswer> {
    return this.#transport.call('GET', pathOf(id), { signal });
  }

  list({ signal, ...query }: ListAgentsInput & AgentCallSettings = {}): Promise<Page<AgentAnswer>> {
    return this.#transport.call('GET', '/v1/agents', { query, signal });
  }

  update(id: string, input: UpdateAgentInput, settings: AgentWriteSettings = {}): Promise<AgentAnswer> {
    return this.#transport.call('PATCH', pathOf(id), {
      body: input,
      headers: guards(settings),
      signal: settings.signal,
    });
  }

  delete(id: string, settings: AgentWriteSettings = {}): Promise<void> {
    return this.#transport.call('DELETE', pathOf(id), { headers: guards(settings), signal: settings.signal });
  }

  start = (id: string, settings?: AgentWriteSettings): Promise<AgentAnswer> =>
    this.#move(id, 'start', settings);
  stop = (id: string, settings?: AgentWriteSettings): Promise<AgentAnswer> =>
    this.#move(id, 'stop', settings);
  restart = (id: string, settings?: AgentWriteSettings): Promise<AgentAnswer> =>
    this.#move(id, 'restart', settings);
  hibernate = (id: string, settings?: AgentWriteSettings): Promise<AgentAnswer> =>
    this.#move(id, 'hibernate', settings);
  wake = (id: string, settings?: AgentWriteSettings): Promise<AgentAnswer> =>
    this.#move(id, 'wake', settings);

  async heartbeat(
    id: string,
    {
      holder,
      fence,
      signal,
    }: { holder?: string | undefined; fence?: number | undefined } & AgentCallSettings = {},
  ): Promise<LeaseAnswer> {
    const body = holder === undefined ? {} : { holder };
    const { lease } = await this.#transport.call<{ lease: LeaseAnswer }>('POST', `${pathOf(id)}/heartbeat`, {
      body,
      headers: guards({ fence }),
      signal,
      repeatable: true,
    });
    return lease;
  }

  /**
   * Takes the lease of an agent and renews it three times in its life. A server that is away for a
   * while is tried again; the lease counts as lost when it has lapsed or somebody else holds it.
   *
   * @example
   * const lease = await stoa.agents.keepAlive(id);
   * lease.addEventListener('lost', () => process.exit(1));
   */
  async keepAlive(id: string, { holder, onLost, signal }: KeepAliveSettings = {}): Promise<LiveLease> {
    const takenMs = Date.now();
    let lease = await this.heartbeat(id, { holder, signal });
    const { last_heartbeat_at: renewedAtMs } = await this.get(id, { signal });
    // Both times are the server's, so the clock of this machine does not matter.
    const lifeMs = lease.expires_at - (renewedAtMs ?? takenMs);
    const live = new LiveLease(
      { lifeMs, takenMs },
      () => lease,
      async (ended) => {
        lease = await this.heartbeat(id, { holder, fence: lease.fence, signal: ended });
      },
    );
    if (onLost !== undefined) live.addEventListener('lost', (event) => onLost((event as LostEvent).error)); // A renewal dispatches no other event.
    signal?.addEventListener('abort', () => live.stop(), { once: true });
    return live;
  }

  /** With an idempotency key a repeat opens no second session. */
  openSession(
    id: string,
    { sessionId, idempotencyKey, fence, signal }: OpenSessionSettings = {},
  ): Promise<SessionAnswer> {
    const body = sessionId === undefined ? {} : { session_id: sessionId };
    const headers = {
      ...guards({ fence }),
      ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
    };
    return this.#transport.call('POST', `${pathOf(id)}/sessions`, {
      body,
      headers,
      signal,
      repeatable: idempotencyKey !== undefined,
    });
  }

  getSession(id: string, sessionId: string, { signal }: AgentCallSettings = {}): Promise<SessionAnswer> {
    return this.#transport.call('GET', sessionPath(id, sessionId), { signal });
  }

  listSessions(
    id: string,
    {
      signal,
      ...query
    }: { status?: 'active' | 'closed'; limit?: number; cursor?: string } & AgentCallSettings = {},
  ): Promise<Page<SessionAnswer>> {
    return this.#transport.call('GET', `${pathOf(id)}/sessions`, { query, signal });
  }

  /** Closing a closed session is no error. */
  closeSession(
    id: string,
    sessionId: string,
    { fence, signal }: Omit<AgentWriteSettings, 'ifVersion'> = {},
  ): Promise<SessionAnswer> {
    return this.#transport.call('DELETE', sessionPath(id, sessionId), {
      headers: guards({ fence }),
      signal,
      repeatable: true,
    });
  }

  /**
   * Lets the signature of a messaging identity open what the agent's user has, within the scopes given.
   *
   * @example
   * await stoa.agents.link(id, await scout.consent(id), { namespaces: ['notes'] });
   */
  link(
    id: string,
    { identity, ...consent }: LinkConsent,
    { signal, ...scopes }: { write?: boolean; namespaces?: string[] | null } & AgentCallSettings = {},
  ): Promise<IdentityLink> {
    return this.#transport.call('PUT', linkPath(identity), {
      body: { agent_id: id, ...scopes, consent },
      signal,
      repeatable: true,
    });
  }

  unlink(identity: string, { signal }: AgentCallSettings = {}): Promise<void> {
    return this.#transport.call('DELETE', linkPath(identity), { signal });
  }

  /** The identities that speak for an agent, and what each reaches. */
  listIdentities(
    id: string,
    { signal, ...query }: { limit?: number; cursor?: string } & AgentCallSettings = {},
  ): Promise<Page<IdentityLink>> {
    return this.#transport.call('GET', `${pathOf(id)}/identities`, { query, signal });
  }

  #move(id: string, verb: Verb, settings: AgentWriteSettings = {}): Promise<AgentAnswer> {
    return this.#transport.call('POST', `${pathOf(id)}/${verb}`, {
      headers: guards(settings),
      signal: settings.signal,
    });
  }
}

function pathOf(id: string): string {
  return `/v1/agents/${encodeURIComponent(id)}`;
}

function sessionPath(id: string, sessionId: string): string {
  return `${pathOf(id)}/sessions/${encodeURIComponent(sessionId)}`;
}

function linkPath(identity: string): string {
  return `/v1/identities/${encodeURIComponent(identity)}/link`;
}

function guards({ ifVersion, fence }: AgentWriteSettings): Record<string, string> {
  return {
    ...(ifVersion !== undefined && { 'if-match': `"${ifVersion}"` }),
    ...(fence !== undefined && { 'stoa-fence': String(fence) }),
  };
}
