/**
 * The registry in PostgreSQL. Each write verb of the port returns a step. Any number of servers share the
 * tables.
 */
import type { Caller } from '../../../core/caller.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Writer } from '../../../core/write.js';
import type { AgentChange } from '../../../registry/lifecycle/changes.js';
import { makeSessionId } from '../../../registry/ids.js';
import { type CountedLease, checkFence, counted, leaseTimesOf } from '../../../registry/lifecycle/lease.js';
import type { SessionRecord, SessionStatus, StoredAgent, StoredUser } from '../../../registry/model.js';
import type {
  AgentFilter,
  AgentView,
  CreateAgent,
  KeyedPage,
  KeyedPageRequest,
  PutAgent,
  RegistryPort,
  UserChange,
  UserScope,
  WriteGuard,
} from '../../../registry/port.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import { agentNotFound } from '../../../registry/refusals.js';
import type { AgentVerb } from '../../../registry/lifecycle/transitions.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { DatabaseClock } from '../database/database-clock.js';
import { PostgresStep, type RowName } from '../write/step.js';
import type { Work } from '../write/work.js';
import * as agents from './agents.js';
import { RegistryCallers } from './callers.js';
import { checkCallerFence } from './fence.js';
import * as links from './links.js';
import * as lists from './lists.js';
import { migrateRegistry } from './schema.js';
import * as sessions from './sessions.js';
import { Spellings } from './spellings.js';
import { sweepRegistry } from './sweep.js';
import * as users from './users.js';
import { type PresenceEndedHook, RegistryWork, type RemovedHook, type RenameHook } from './work.js';

export interface PostgresRegistryOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  /** Tests only: replaces the database's clock. Milliseconds since 1970. */
  readonly clock?: () => number;
}

/** Creates missing tables. */
export async function openPostgresRegistry(options: PostgresRegistryOptions): Promise<PostgresRegistry> {
  await migrateRegistry(options.sql);
  const registry = new PostgresRegistry(options);
  await registry.keepTime();
  return registry;
}

export class PostgresRegistry implements RegistryPort {
  /** Called when the presence of an agent ends: its lease is lost or released, or the agent is deleted. */
  readonly onPresenceEnded: PresenceEndedHook[] = [];
  /** Called before an agent gets another name. */
  readonly onRename: RenameHook[] = [];
  /** Called when an agent is removed: what other domains keep for it goes with it. */
  readonly onRemoved: RemovedHook[] = [];
  /** The agents in whose names requests are made; for the writer of the home too. */
  readonly callers: RegistryCallers;
  readonly limits: Limits;
  readonly #sql: PostgresSql;
  readonly #options: PostgresRegistryOptions;
  readonly #databaseClock: DatabaseClock;
  readonly #spellings: Spellings;

  constructor(options: PostgresRegistryOptions) {
    this.limits = options.limits;
    this.callers = new RegistryCallers(this);
    this.#sql = options.sql;
    this.#options = options;
    this.#databaseClock = new DatabaseClock(options.sql);
    this.#spellings = new Spellings(options.limits.agentsCachedMax);
  }

  nowMs(): number {
    return this.#options.clock?.() ?? this.#databaseClock.nowMs();
  }

  /** Compares this server's clock with the database's clock, unless that was done within the last minute. */
  keepTime(): Promise<void> {
    return this.#databaseClock.refresh();
  }

  createAgent(input: CreateAgent): PostgresStep<AgentView> {
    const agentId = this.callers.makeId(input.user, input.name);
    return this.#step([userRow(input.user)], (work) => agents.createAgent(work, agentId, input)).map(
      this.#view,
    );
  }

  putAgent(input: PutAgent, guard: WriteGuard): PostgresStep<AgentView> {
    const rows = [userRow(input.user), agentRow(input.agentId)];
    return this.#step(rows, (work) => agents.putAgent(work, input, guard)).map(this.#view);
  }

  async getAgent(scope: UserScope, agentId: string): Promise<AgentView | undefined> {
    const agent = await lists.findAgent(this.#sql, await this.#userIdOf(scope), agentId);
    return agent === undefined ? undefined : this.#view(agent);
  }

  async agentNamed(user: string, name: string): Promise<string | undefined> {
    return lists.agentNamed(this.#sql, await this.#userIdOf(user), name);
  }

  async someNames(user: string, limit: number): Promise<string[]> {
    return lists.someNames(this.#sql, await this.#userIdOf(user), limit);
  }

  async listAgents(
    scope: UserScope,
    filter: AgentFilter,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<AgentView>> {
    const found = await lists.listAgents(this.#sql, await this.#userIdOf(scope), filter, page);
    return { ...found, items: found.items.map(this.#view) };
  }

  async countAgents(user: string): Promise<number> {
    await this.#userIdOf(user);
    return (await users.getUser(this.#sql, user))?.agents ?? 0;
  }

  updateAgent(
    scope: UserScope,
    agentId: string,
    change: AgentChange,
    guard: WriteGuard,
  ): PostgresStep<AgentView> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.updateAgent(work, userId, agentId, change, guard),
    ).map(this.#view);
  }

  moveAgent(scope: UserScope, agentId: string, verb: AgentVerb, guard: WriteGuard): PostgresStep<AgentView> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.moveAgent(work, userId, agentId, verb, guard),
    ).map(this.#view);
  }

  deleteSomeSessions(
    scope: UserScope,
    agentId: string,
    guard: WriteGuard,
    forgets = false,
  ): PostgresStep<boolean> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.deleteSomeSessions(work, userId, agentId, guard, forgets),
    );
  }

  deleteAgent(scope: UserScope, agentId: string, guard: WriteGuard, forgets = false): PostgresStep<void> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.deleteAgent(work, userId, agentId, guard, forgets),
    );
  }

  requireAgentVersion(scope: UserScope, agentId: string, version: number): PostgresStep<void> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.requireAgentVersion(work, userId, agentId, version),
    );
  }

  heartbeat(
    scope: UserScope,
    agentId: string,
    holder: string,
    guard: WriteGuard,
  ): PostgresStep<CountedLease> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.heartbeat(work, userId, agentId, holder, guard),
    ).map((lease) => counted(lease, this.#leaseTimes()));
  }

  releaseLease(
    scope: UserScope,
    agentId: string,
    holder: string | null,
    guard: WriteGuard,
  ): PostgresStep<void> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.releaseLease(work, userId, agentId, holder, guard),
    );
  }

  requireLease(scope: UserScope, agentId: string, fence: number): PostgresStep<void> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      agents.requireLease(work, userId, agentId, fence),
    );
  }

  async checkFence(user: string, agentId: string, fence: number | null): Promise<void> {
    const agent = await this.getAgent(user, agentId);
    checkFence(agent?.lease ?? null, fence, this.#leaseTimes(), this.nowMs());
  }

  /** `checkFence` inside a write. The lease is locked, so it cannot change before the write commits. */
  checkCallerFence(work: Work, caller: Pick<Caller, 'user' | 'agentId' | 'fence'>): Promise<void> {
    return checkCallerFence(work, caller, this.#options.clock);
  }

  openSession(
    scope: UserScope,
    agentId: string,
    sessionId: string | null,
    guard: WriteGuard,
  ): PostgresStep<SessionRecord> {
    const id = sessionId ?? makeSessionId(this.nowMs());
    return this.#agentStep(scope, agentId, (work, userId) =>
      sessions.openSession(work, userId, agentId, id, guard),
    );
  }

  async getSession(scope: UserScope, sessionId: string): Promise<SessionRecord | undefined> {
    return sessions.findSession(this.#sql, await this.#userIdOf(scope), sessionId);
  }

  async listSessions(
    scope: UserScope,
    agentId: string,
    status: SessionStatus | undefined,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<SessionRecord>> {
    return sessions.listSessions(this.#sql, await this.#ownerOf(scope, agentId), status, page);
  }

  closeSession(
    scope: UserScope,
    agentId: string | null,
    sessionId: string,
    guard: WriteGuard,
  ): PostgresStep<SessionRecord> {
    const rows = agentId === null ? [] : [agentRow(agentId)];
    return this.#scoped(scope, rows, (work, userId) =>
      sessions.closeSession(work, userId, agentId, sessionId, guard),
    );
  }

  putUser(user: string, change: UserChange): PostgresStep<StoredUser> {
    return this.#step([userRow(user)], (work) => users.putUser(work, user, change));
  }

  async getUser(user: string): Promise<StoredUser | undefined> {
    await this.#userIdOf(user);
    return users.getUser(this.#sql, user);
  }

  listUsers(page: KeyedPageRequest): Promise<KeyedPage<StoredUser>> {
    return lists.listUsers(this.#sql, page);
  }

  recordUserCall(user: string): PostgresStep<void> {
    return this.#step([userRow(user)], (work) => users.recordUserCall(work, user));
  }

  recordAgentCall(user: string, agent: string): PostgresStep<void> {
    return this.#step([], (work) => this.callers.saw(work, { user, agent }));
  }

  isSeenLately(user: string, agent: string): boolean {
    return this.callers.isFresh({ user, agent }, this.nowMs());
  }

  agentIdIn(work: Work, agent: ActingAgent, acts: boolean): Promise<string | undefined> {
    return this.callers.idIn(work, agent, acts);
  }

  linkIdentity(scope: UserScope, agentId: string, identity: string): PostgresStep<void> {
    return this.#agentStep(scope, agentId, (work, userId) =>
      links.linkIdentity(work, userId, agentId, identity),
    );
  }

  unlinkIdentity(scope: UserScope, identity: string): PostgresStep<void> {
    return this.#scoped(scope, [], (work, userId) => links.unlinkIdentity(work, userId, identity));
  }

  async listIdentities(
    scope: UserScope,
    agentId: string,
    page: KeyedPageRequest,
  ): Promise<KeyedPage<string>> {
    return links.listIdentities(this.#sql, await this.#ownerOf(scope, agentId), page);
  }

  async linkedAgent(identity: string): Promise<AgentView | undefined> {
    const agent = await lists.findLinkedAgent(this.#sql, identity, links.linkOwnerId(identity));
    return agent === undefined ? undefined : this.#view(agent);
  }

  async isLinked(user: string, agentId: string, identity: string): Promise<boolean> {
    const linked = await query(
      this.#sql,
      'SELECT 1 FROM registry.identity_links WHERE user_id = $1 AND agent_id = $2 AND identity = $3',
      [users.userIdOf(user), agentId, identity],
    );
    return linked.length > 0;
  }

  identitiesOf(user: string, agent: string): Promise<readonly string[]> {
    return links.identitiesOf(this.#sql, users.userIdOf(user), agent);
  }

  /** Creates the user with its first write, in any domain. Refuses a second spelling of a known user. */
  async ensureUser(work: Work, user: string): Promise<void> {
    await users.ensureUser(this.partOf(work), user);
  }

  /** The registry's view of a transaction. */
  partOf(work: Work): RegistryWork {
    return work.part(this.#part);
  }

  /** Refuses a second spelling of a known user. */
  checkUser(user: string): void | Promise<void> {
    return this.#spellings.check(this.#sql, user);
  }

  sweep(writer: Writer, isOver?: () => boolean): Promise<void> {
    return sweepRegistry(this, writer, isOver);
  }

  readonly #part = (work: Work): RegistryWork =>
    new RegistryWork(work, {
      clock: this.#options.clock,
      hooks: this.onPresenceEnded,
      renameHooks: this.onRename,
      removedHooks: this.onRemoved,
      recent: this.callers.recent,
    });

  #step<T>(rows: readonly RowName[], run: (work: RegistryWork) => Promise<T>): PostgresStep<T> {
    return new PostgresStep(rows, (work) => run(this.partOf(work)));
  }

  #agentStep<T>(
    scope: UserScope,
    agentId: string,
    run: (work: RegistryWork, userId: string | null) => Promise<T>,
  ): PostgresStep<T> {
    return this.#scoped(scope, [agentRow(agentId)], run);
  }

  /** A step with the user id of the scope, or null for all users. */
  #scoped<T>(
    scope: UserScope,
    rows: readonly RowName[],
    run: (work: RegistryWork, userId: string | null) => Promise<T>,
  ): PostgresStep<T> {
    return this.#step(rows, async (work) => run(work, await this.#userIdOf(scope, work.sql)));
  }

  /** The id of the scope's user (64 hex digits), or null for all users. */
  async #userIdOf(scope: string, sql?: Queryable): Promise<string>;
  async #userIdOf(scope: UserScope, sql?: Queryable): Promise<string | null>;
  async #userIdOf(scope: UserScope, sql: Queryable = this.#sql): Promise<string | null> {
    if (scope === null) return null;
    await this.#spellings.check(sql, scope);
    return users.userIdOf(scope);
  }

  async #ownerOf(scope: UserScope, agentId: string): Promise<{ userId: string; agentId: string }> {
    const agent = await this.getAgent(scope, agentId);
    if (agent === undefined) throw agentNotFound(agentId);
    return { userId: agent.record.user_id, agentId };
  }

  #leaseTimes(): ReturnType<typeof leaseTimesOf> {
    return leaseTimesOf(this.limits, []);
  }

  readonly #view = (agent: StoredAgent): AgentView => ({
    ...agent,
    lease: agent.lease && counted(agent.lease, this.#leaseTimes()),
  });
}

function userRow(user: string): RowName {
  return { table: 'users', key: users.userIdOf(user) };
}

function agentRow(agentId: string): RowName {
  return { table: 'agents', key: agentId };
}
