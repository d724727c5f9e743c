/** What the registry needs of storage: its atomic operations, one method each. */
import type { Idempotency } from '../kernel/once.js';
import type { AgentChange, NewAgent } from './changes.js';
import type { LeaseTimes } from './lease.js';
import type { AgentState, Lease, SessionRecord, SessionStatus, StoredAgent, StoredUser } from './model.js';
import type { AgentVerb } from './transitions.js';

/** Whose things are meant: a readable user id, or null for every user's. */
export type UserScope = string | null;

/** What a writer claims to know; a backend checks it in the same transaction. */
export interface WriteGuard {
  /** The fencing number of the writer, or null where it shows none. */
  fence: number | null;
  ifVersion?: number | undefined;
}

export interface AgentFilter {
  status?: AgentState | undefined;
  name?: string | undefined;
  label?: { name: string; value: string | null } | undefined;
}

/** Items after a key; `nextKey` is null at the end. */
export interface KeyedPage<T> {
  items: T[];
  nextKey: Buffer | null;
}

export interface KeyedPageRequest {
  after: Buffer | null;
  limit: number;
}

export type CreateAgent = Omit<NewAgent, 'agentId' | 'userId'>;
export type PutAgent = Omit<NewAgent, 'userId'> & Pick<AgentChange, 'status' | 'errorMessage'>;

export interface UserChange {
  email?: string | undefined;
  agentsMax?: number | null | undefined;
}

/** A thing that is not there, or not in the scope, is `not_found` in every method that writes, undefined in those that read. */
export interface RegistryPort {
  /** How leases are counted here, the server's down times included. */
  leaseTimes(): LeaseTimes;
  nowMs(): number;

  createAgent(input: CreateAgent, idempotency: Idempotency | null): Promise<StoredAgent>;
  putAgent(input: PutAgent, guard: WriteGuard): Promise<StoredAgent>;
  /** At once: whoever reads an agent waits for nothing. */
  getAgent(scope: UserScope, agentId: string): StoredAgent | undefined;
  listAgents(scope: UserScope, filter: AgentFilter, page: KeyedPageRequest): Promise<KeyedPage<StoredAgent>>;
  countAgents(user: string): Promise<number>;
  updateAgent(
    scope: UserScope,
    agentId: string,
    change: AgentChange,
    guard: WriteGuard,
  ): Promise<StoredAgent>;
  moveAgent(scope: UserScope, agentId: string, verb: AgentVerb, guard: WriteGuard): Promise<StoredAgent>;
  deleteAgent(scope: UserScope, agentId: string, guard: WriteGuard): Promise<void>;

  heartbeat(scope: UserScope, agentId: string, holder: string, guard: WriteGuard): Promise<Lease>;
  /** Without a holder, whoever holds it. */
  releaseLease(scope: UserScope, agentId: string, holder: string | null, guard: WriteGuard): Promise<void>;

  openSession(
    scope: UserScope,
    agentId: string,
    sessionId: string | null,
    guard: WriteGuard,
    idempotency: Idempotency | null,
  ): Promise<SessionRecord>;
  getSession(scope: UserScope, sessionId: string): Promise<SessionRecord | undefined>;
  listSessions(
    scope: UserScope,
    agentId: string,
    status: SessionStatus | undefined,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<SessionRecord>>;
  /** With an agent, only where the session is that agent's. */
  closeSession(
    scope: UserScope,
    agentId: string | null,
    sessionId: string,
    guard: WriteGuard,
  ): Promise<SessionRecord>;

  putUser(user: string, change: UserChange): Promise<StoredUser>;
  getUser(user: string): Promise<StoredUser | undefined>;
  listUsers(page: KeyedPageRequest): Promise<KeyedPage<StoredUser>>;
  /** Notes that the user called, lazily; a user that is not there stays so. */
  sawUser(user: string): Promise<void>;

  linkIdentity(scope: UserScope, agentId: string, identity: string): Promise<void>;
  /** In the order of their ids. */
  listIdentities(scope: UserScope, agentId: string, page: KeyedPageRequest): Promise<KeyedPage<string>>;
  unlinkIdentity(identity: string): Promise<void>;
  linkedAgent(identity: string): Promise<StoredAgent | undefined>;
  /** At once, as every signed request asks for it. */
  isLinked(user: string, agentId: string, identity: string): boolean;
  /** The identities that speak for the agent of that name or id. */
  identitiesOf(user: string, agent: string): readonly string[];
}
