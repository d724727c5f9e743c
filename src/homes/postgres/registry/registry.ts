/**
 * The registry in PostgreSQL. Each write verb of the port returns a step. Any number of servers share the
 * tables.
 */
import type { Limits } from '../../../core/settings/limits.js';
import type { Writer } from '../../../core/write.js';
import { makeSessionId } from '../../../registry/ids.js';
import { checkFence, counted, leaseTimesOf } from '../../../registry/lifecycle/lease.js';
import type { StoredAgent } from '../../../registry/model.js';
import type { AgentView, RegistryPort, UserScope } from '../../../registry/port.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import { agentNotFound, secondSpelling } from '../../../registry/refusals.js';
import { type PostgresSql, type Queryable } from '../database/connection.js';
import { migrate } from '../database/migrate.js';
import { PostgresStep, type RowName } from '../write/step.js';
import type { Work } from '../write/work.js';
import * as agents from './agents.js';
import { RegistryCallers } from './callers.js';
import * as links from './links.js';
import * as lists from './lists.js';
import { registryTables } from './schema.js';
import * as sessions from './sessions.js';
import { Spellings } from './spellings.js';
import { sweepRegistry } from './sweep.js';
import * as users from './users.js';
import { type PresenceEndedHook, RegistryWork, type RemovedHook, type RenameHook } from './work.js';

export interface PostgresRegistryOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  /** This server's estimate of the database's clock. */
  readonly nowMs: () => number;
  /** Whether notices of other servers arrive (`Removals`). Suites of one domain have none. */
  readonly isReceiving?: () => boolean;
  /** Tests only: replaces the database's clock. Milliseconds since 1970. */
  readonly clock?: () => number;
}

/** Creates missing tables. */
export async function openPostgresRegistry(options: PostgresRegistryOptions): Promise<PostgresRegistry> {
  await migrate(options.sql, registryTables);
  return new PostgresRegistry(options);
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
  readonly #spellings: Spellings;

  constructor(options: PostgresRegistryOptions) {
    this.limits = options.limits;
    this.callers = new RegistryCallers(this);
    this.#sql = options.sql;
    this.#options = options;
    this.#spellings = new Spellings(options.limits.tokensCachedMax);
  }

  /** The database was restored. */
  forgetAll(): void {
    this.#spellings.clear();
    this.callers.recent.clear();
  }

  readonly isReceiving = (): boolean => this.#options.isReceiving?.() ?? true;

  readonly nowMs: RegistryPort['nowMs'] = () => this.#options.clock?.() ?? this.#options.nowMs();

  readonly createAgent: RegistryPort['createAgent'] = (input) => {
    const agentId = this.callers.makeId(input.user, input.name);
    return this.#step([userRow(input.user)], (work) => agents.createAgent(work, agentId, input)).map(
      this.#view,
    );
  };

  readonly putAgent: RegistryPort['putAgent'] = (input, guard) => {
    const rows = [userRow(input.user), agentRow(input.agentId)];
    return this.#step(rows, (work) => agents.putAgent(work, input, guard)).map(this.#view);
  };

  readonly getAgent: RegistryPort['getAgent'] = async (scope, agentId) => {
    const agent = await lists.findAgent(this.#sql, await this.#userIdOf(scope), agentId);
    return agent === undefined ? undefined : this.#view(agent);
  };

  async agentNamed(user: string, name: string): Promise<string | undefined> {
    return lists.agentNamed(this.#sql, await this.#userIdOf(user), name);
  }

  readonly someNames: RegistryPort['someNames'] = async (user, limit) =>
    lists.someNames(this.#sql, await this.#userIdOf(user), limit);

  readonly listAgents: RegistryPort['listAgents'] = async (scope, filter, page) => {
    const found = await lists.listAgents(this.#sql, await this.#userIdOf(scope), filter, page);
    return { ...found, items: found.items.map(this.#view) };
  };

  readonly countAgents: RegistryPort['countAgents'] = async (user) => {
    await this.#userIdOf(user);
    return (await users.getUser(this.#sql, user))?.agents ?? 0;
  };

  readonly updateAgent: RegistryPort['updateAgent'] = (scope, agentId, change, guard) =>
    this.#agentStep(scope, agentId, (work, userId) =>
      agents.updateAgent(work, userId, agentId, change, guard),
    ).map(this.#view);

  readonly moveAgent: RegistryPort['moveAgent'] = (scope, agentId, verb, guard) =>
    this.#agentStep(scope, agentId, (work, userId) =>
      agents.moveAgent(work, userId, agentId, verb, guard),
    ).map(this.#view);

  readonly deleteSomeSessions: RegistryPort['deleteSomeSessions'] = (
    scope,
    agentId,
    guard,
    forgets = false,
  ) =>
    this.#agentStep(scope, agentId, (work, userId) =>
      agents.deleteSomeSessions(work, userId, agentId, guard, forgets),
    );

  readonly deleteAgent: RegistryPort['deleteAgent'] = (scope, agentId, guard, forgets = false) =>
    this.#agentStep(scope, agentId, (work, userId) =>
      agents.deleteAgent(work, userId, agentId, guard, forgets),
    );

  readonly requireAgentVersion: RegistryPort['requireAgentVersion'] = (scope, agentId, version) =>
    this.#agentStep(scope, agentId, (work, userId) =>
      agents.requireAgentVersion(work, userId, agentId, version),
    );

  readonly heartbeat: RegistryPort['heartbeat'] = (scope, agentId, holder, guard) =>
    this.#agentStep(scope, agentId, (work, userId) =>
      agents.heartbeat(work, userId, agentId, holder, guard),
    ).map((lease) => counted(lease, this.#leaseTimes()));

  readonly releaseLease: RegistryPort['releaseLease'] = (scope, agentId, holder, guard) =>
    this.#agentStep(scope, agentId, (work, userId) =>
      agents.releaseLease(work, userId, agentId, holder, guard),
    );

  readonly requireLease: RegistryPort['requireLease'] = (scope, agentId, fence) =>
    this.#agentStep(scope, agentId, (work, userId) => agents.requireLease(work, userId, agentId, fence));

  readonly checkFence: RegistryPort['checkFence'] = async (user, agentId, fence) => {
    const agent = await this.getAgent(user, agentId);
    checkFence(agent?.lease ?? null, fence, this.#leaseTimes(), this.nowMs());
  };

  readonly openSession: RegistryPort['openSession'] = (scope, agentId, sessionId, guard) => {
    const id = sessionId ?? makeSessionId(this.nowMs());
    return this.#agentStep(scope, agentId, (work, userId) =>
      sessions.openSession(work, userId, agentId, id, guard),
    );
  };

  readonly getSession: RegistryPort['getSession'] = async (scope, sessionId) =>
    sessions.findSession(this.#sql, await this.#userIdOf(scope), sessionId);

  readonly listSessions: RegistryPort['listSessions'] = async (scope, agentId, status, page) =>
    sessions.listSessions(this.#sql, await this.#ownerOf(scope, agentId), status, page);

  readonly closeSession: RegistryPort['closeSession'] = (scope, agentId, sessionId, guard) => {
    const rows = agentId === null ? [] : [agentRow(agentId)];
    return this.#scoped(scope, rows, (work, userId) =>
      sessions.closeSession(work, userId, agentId, sessionId, guard),
    );
  };

  readonly putUser: RegistryPort['putUser'] = (user, change) =>
    this.#step([userRow(user)], (work) => users.putUser(work, user, change));

  readonly getUser: RegistryPort['getUser'] = async (user) => {
    await this.#userIdOf(user);
    return users.getUser(this.#sql, user);
  };

  readonly listUsers: RegistryPort['listUsers'] = (page) => lists.listUsers(this.#sql, page);

  readonly recordUserCall: RegistryPort['recordUserCall'] = (user) =>
    this.#step([userRow(user)], (work) => users.recordUserCall(work, user));

  readonly recordAgentCall: RegistryPort['recordAgentCall'] = (user, agent) =>
    this.#step([], (work) => this.callers.saw(work, { user, agent }));

  agentIdIn(work: Work, agent: ActingAgent, acts: boolean): Promise<string | undefined> {
    return this.callers.idIn(work, agent, acts);
  }

  readonly linkIdentity: RegistryPort['linkIdentity'] = (scope, agentId, identity) =>
    this.#agentStep(scope, agentId, (work, userId) => links.linkIdentity(work, userId, agentId, identity));

  readonly unlinkIdentity: RegistryPort['unlinkIdentity'] = (scope, identity) =>
    this.#scoped(scope, [], (work, userId) => links.unlinkIdentity(work, userId, identity));

  readonly listIdentities: RegistryPort['listIdentities'] = async (scope, agentId, page) =>
    links.listIdentities(this.#sql, await this.#ownerOf(scope, agentId), page);

  readonly linkedAgent: RegistryPort['linkedAgent'] = async (identity) => {
    const agent = await lists.findLinkedAgent(this.#sql, identity, links.linkOwnerId(identity));
    return agent === undefined ? undefined : this.#view(agent);
  };

  readonly isLinked: RegistryPort['isLinked'] = (user, agentId, identity) =>
    links.isLinked(this.#sql, users.userIdOf(user), agentId, identity);

  identitiesOf(user: string, agent: string): Promise<readonly string[]> {
    return links.identitiesOf(this.#sql, users.userIdOf(user), agent);
  }

  /**
   * Creates the user with its first write, in any domain. Refuses a second spelling of a known user. Does not lock
   * a user that exists: writes lock the user last, for its agents.
   */
  async ensureUser(work: Work, user: string): Promise<void> {
    const known = await users.spellingOf(work.sql, user);
    if (known === undefined) await users.ensureUser(this.partOf(work), user);
    else if (known !== user) throw secondSpelling();
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
