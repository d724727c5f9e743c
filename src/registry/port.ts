/** What the registry needs of storage: reads that answer, and writes as steps. */
import type { Step } from '../core/write.js';
import type { AgentChange, NewAgent } from './lifecycle/changes.js';
import type { CountedLease } from './lifecycle/lease.js';
import type { AgentState, SessionRecord, SessionStatus, StoredAgent, StoredUser } from './model.js';
import type { AgentVerb } from './lifecycle/transitions.js';

/** The user whose records are meant, by the readable id; null means all users. */
export type UserScope = string | null;

/** What a writer claims to know; it is checked in the transaction that writes. */
export interface WriteGuard {
  /** The fencing number of the writer, or null if it sent none. */
  fence: number | null;
  ifVersion?: number | undefined;
}

/** An agent as a home returns it. All readers share it, so it must not be changed. */
export type AgentView = Omit<StoredAgent, 'lease'> & { readonly lease: CountedLease | null };

export interface AgentFilter {
  status?: AgentState | undefined;
  name?: string | undefined;
  label?: { name: string; value: string | null } | undefined;
}

/** Items in the order of the list; `nextKey` is the key of the last one, or null at the end. */
export interface KeyedPage<T> {
  items: T[];
  nextKey: string | null;
}

export interface KeyedPageRequest {
  after: string | null;
  limit: number;
}

export type CreateAgent = Omit<NewAgent, 'agentId' | 'userId'>;
export type PutAgent = Omit<NewAgent, 'userId'> & Pick<AgentChange, 'status' | 'errorMessage'>;

export interface UserChange {
  email?: string | undefined;
  agentsMax?: number | null | undefined;
}

/** A missing record, or one outside the scope, is `not_found` in every step and undefined in every read. */
export interface RegistryPort {
  nowMs(): number;

  createAgent(input: CreateAgent): Step<AgentView>;
  putAgent(input: PutAgent, guard: WriteGuard): Step<AgentView>;
  getAgent(scope: UserScope, agentId: string): Promise<AgentView | undefined>;
  /** The id of the user's agent with this name. Without a promise if the home has it in memory. */
  agentNamed(user: string, name: string): string | undefined | Promise<string | undefined>;
  /** Some names of the user's agents, to suggest one instead of an unknown name. */
  someNames(user: string, limit: number): Promise<string[]>;
  /** In the order of user id and agent id, whose digits together are the key. */
  listAgents(scope: UserScope, filter: AgentFilter, page: KeyedPageRequest): Promise<KeyedPage<AgentView>>;
  countAgents(user: string): Promise<number>;
  updateAgent(scope: UserScope, agentId: string, change: AgentChange, guard: WriteGuard): Step<AgentView>;
  moveAgent(scope: UserScope, agentId: string, verb: AgentVerb, guard: WriteGuard): Step<AgentView>;
  /**
   * Removes some closed sessions of an agent that is about to be deleted. Returns whether too many for one
   * write may be left.
   */
  deleteSomeSessions(scope: UserScope, agentId: string, guard: WriteGuard, forgets?: boolean): Step<boolean>;
  /** Only an agent at rest. With `forgets`, also one that is not present, whatever its state. */
  deleteAgent(scope: UserScope, agentId: string, guard: WriteGuard, forgets?: boolean): Step<void>;
  /** Refuses a commit if the agent has another version; an agent that does not exist has version 0. */
  requireAgentVersion(scope: UserScope, agentId: string, version: number): Step<void>;

  heartbeat(scope: UserScope, agentId: string, holder: string | null, guard: WriteGuard): Step<CountedLease>;
  /** Without a holder, for any holder. */
  releaseLease(scope: UserScope, agentId: string, holder: string | null, guard: WriteGuard): Step<void>;
  /** Refuses a commit if the lease has another number; without a lease the number is 0. */
  requireLease(scope: UserScope, agentId: string, fence: number): Step<void>;
  /**
   * Throws `fenced` if the number is lower than that of the agent's lease. Does nothing for an agent that
   * does not exist.
   */
  checkFence(user: string, agentId: string, fence: number | null): Promise<void>;

  /** Without a session id a new one is made. */
  openSession(
    scope: UserScope,
    agentId: string,
    sessionId: string | null,
    guard: WriteGuard,
  ): Step<SessionRecord>;
  getSession(scope: UserScope, sessionId: string): Promise<SessionRecord | undefined>;
  /** In the order of their ids, whose digits are the key. */
  listSessions(
    scope: UserScope,
    agentId: string,
    status: SessionStatus | undefined,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<SessionRecord>>;
  /** With an agent, only if the session belongs to that agent. */
  closeSession(
    scope: UserScope,
    agentId: string | null,
    sessionId: string,
    guard: WriteGuard,
  ): Step<SessionRecord>;

  putUser(user: string, change: UserChange): Step<StoredUser>;
  getUser(user: string): Promise<StoredUser | undefined>;
  /** In the order of their ids of 64 digits. */
  listUsers(page: KeyedPageRequest): Promise<KeyedPage<StoredUser>>;
  /** Records a call of the user, unless one was recorded recently. Does not create a user. */
  recordUserCall(user: string): Step<void>;
  /** Renews the presence of an agent that calls, unless that was done recently. Does not create an agent. */
  recordAgentCall(user: string, agent: string): Step<void>;

  /** Throws `already_exists` for an identity that speaks for another agent. */
  linkIdentity(scope: UserScope, agentId: string, identity: string): Step<void>;
  /** Does nothing for an identity without a link. */
  unlinkIdentity(scope: UserScope, identity: string): Step<void>;
  /** In the order of their ids. */
  listIdentities(scope: UserScope, agentId: string, page: KeyedPageRequest): Promise<KeyedPage<string>>;
  linkedAgent(identity: string): Promise<AgentView | undefined>;
  /**
   * Whether the identity speaks for this agent of the user, and the agent exists. Every signed request asks
   * for it.
   */
  isLinked(user: string, agentId: string, identity: string): Promise<boolean>;
  /**
   * The identities that speak for the agent of that name or id. Without a promise if the home has them in
   * memory.
   */
  identitiesOf(user: string, agent: string): readonly string[] | Promise<readonly string[]>;
}
