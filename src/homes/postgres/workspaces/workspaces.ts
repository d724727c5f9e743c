/**
 * Workspaces in PostgreSQL: the port. Each write verb returns a step. Any number of servers share the tables.
 */
import { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import type { RecordStore } from '../../../transfer/port.js';
import type { Task } from '../../../workspaces/model.js';
import type { WorkspacesPort } from '../../../workspaces/port.js';
import { ReadyWaiters } from '../../../workspaces/tasks/ready-waiters.js';
import type { PostgresSql, Queryable } from '../database/connection.js';
import { workspacesRecords } from '../transfer/workspaces.js';
import { WorkspacesBackground } from './background.js';
import * as claims from './tasks/claims.js';
import * as lists from './lists.js';
import * as projects from './project-verbs.js';
import { ReadyNotices } from './tasks/ready-notices.js';
import type { PostgresWorkspacesOptions } from './open.js';
import * as sessions from './sessions.js';
import * as taskLists from './tasks/lists.js';
import { GroupedTasks } from './tasks/grouped.js';
import { findTask, taskRow } from './tasks/rows.js';
import * as tasks from './tasks/tasks.js';
import { type CommitEffects, WorkspacesWork } from './work.js';
import * as workspaceVerbs from './workspace-verbs.js';

const defaultSweepMs = 1_000;

export class PostgresWorkspaces implements WorkspacesPort {
  readonly waiters: ReadyWaiters;
  readonly #sql: PostgresSql;
  readonly #writer: PostgresWriter;
  readonly #options: PostgresWorkspacesOptions;
  readonly #notices: ReadyNotices;
  readonly #background: WorkspacesBackground;
  readonly #grouped: GroupedTasks;

  constructor(sql: PostgresSql, writer: PostgresWriter, options: PostgresWorkspacesOptions) {
    this.#sql = sql;
    this.#writer = writer;
    this.#options = options;
    this.waiters = new ReadyWaiters(options.limits.claimsWaitingMax);
    this.#notices = new ReadyNotices({
      sql,
      waiters: this.waiters,
      onError: (error) => options.onError(error, 'waking waiting claims'),
    });
    this.#grouped = new GroupedTasks(writer, this.#part);
    this.#background = new WorkspacesBackground({
      ...options,
      sql,
      transact: (run) => this.#transact(run),
      sweepIntervalMs: options.sweepIntervalMs ?? defaultSweepMs,
    });
  }

  async start(): Promise<void> {
    await this.#notices.start();
    this.#background.start();
  }

  readonly createWorkspace: WorkspacesPort['createWorkspace'] = (owner, id, input) =>
    new PostgresStep([], async (work) => {
      await this.#options.users.ensure(work, owner);
      return workspaceVerbs.createWorkspace(work.part(this.#part), owner, id, input);
    });

  readonly getWorkspace: WorkspacesPort['getWorkspace'] = (owner, id, deleted) =>
    workspaceVerbs.findWorkspace(this.#sql, owner, id, { deleted });

  readonly listWorkspaces: WorkspacesPort['listWorkspaces'] = (owner, request) =>
    lists.listWorkspaces(this.#sql, owner, request);

  readonly decideWorkspace: WorkspacesPort['decideWorkspace'] = (owner, id, event, rule) =>
    this.#step((work) => workspaceVerbs.decideWorkspace(work, owner, id, event, rule));

  readonly purgeWorkspace: WorkspacesPort['purgeWorkspace'] = (owner, id, ifVersion) =>
    this.#step((work) => workspaceVerbs.purgeWorkspace(work, owner, id, ifVersion));

  readonly createProject: WorkspacesPort['createProject'] = (owner, workspaceId, id, input) =>
    this.#step((work) => projects.createProject(work, owner, workspaceId, id, input));

  readonly getProject: WorkspacesPort['getProject'] = async (owner, id, deleted) =>
    (await projects.findProject(this.#sql, owner, id, { deleted })).project;

  readonly listProjects: WorkspacesPort['listProjects'] = async (owner, workspaceId, request) => {
    const workspace = await workspaceVerbs.findWorkspace(this.#sql, owner, workspaceId);
    return lists.listProjects(this.#sql, workspace.owner_id, workspaceId, request);
  };

  readonly decideProject: WorkspacesPort['decideProject'] = (owner, id, event, rule) =>
    this.#step((work) => projects.decideProject(work, owner, id, event, rule));

  readonly purgeProject: WorkspacesPort['purgeProject'] = (owner, id, ifVersion) =>
    this.#step((work) => projects.purgeProject(work, owner, id, ifVersion));

  readonly createSession: WorkspacesPort['createSession'] = (owner, projectId, id, input) =>
    this.#step((work) => sessions.createSession(work, owner, projectId, id, input));

  readonly getSession: WorkspacesPort['getSession'] = async (owner, id) =>
    (await sessions.findSession(this.#sql, owner, id)).session;

  readonly listSessions: WorkspacesPort['listSessions'] = async (owner, projectId, request) => {
    const { workspace } = await projects.findProject(this.#sql, owner, projectId);
    return lists.listSessions(this.#sql, workspace.owner_id, projectId, request);
  };

  readonly activeSession: WorkspacesPort['activeSession'] = async (owner, projectId) => {
    const { workspace } = await projects.findProject(this.#sql, owner, projectId);
    return sessions.activeSession(this.#sql, workspace.owner_id, projectId);
  };

  readonly updateSession: WorkspacesPort['updateSession'] = (owner, id, patch, ifVersion) =>
    this.#step((work) => sessions.updateSession(work, owner, id, patch, ifVersion));

  readonly deleteSession: WorkspacesPort['deleteSession'] = (owner, id, ifVersion) =>
    this.#step((work) => sessions.deleteSession(work, owner, id, ifVersion));

  readonly createTask: WorkspacesPort['createTask'] = (owner, sessionId, id, input) => {
    const create = (work: WorkspacesWork): Promise<Task> =>
      tasks.createTask(work, owner, sessionId, id, input);
    // Each dependency is a round trip, for which the other writes of a group would wait.
    return (input.depends_on ?? []).length > 0 ? this.#step(create) : this.#grouped.create(id, create);
  };

  readonly getTask: WorkspacesPort['getTask'] = async (owner, id) =>
    (await findTask(this.#sql, owner, id)).held.task;

  readonly listTasks: WorkspacesPort['listTasks'] = async (owner, request) => {
    const ownerId =
      request.project === undefined
        ? owner
        : (await projects.findProject(this.#sql, owner, request.project)).workspace.owner_id;
    return ownerId === null
      ? taskLists.listAllTasks(this.#sql, request)
      : taskLists.listTasks(this.#sql, ownerId, request);
  };

  readonly listSessionTasks: WorkspacesPort['listSessionTasks'] = async (owner, sessionId, request) => {
    const { ownerId } = await sessions.findSession(this.#sql, owner, sessionId);
    return lists.listSessionTasks(this.#sql, ownerId, sessionId, request);
  };

  readonly listReady: WorkspacesPort['listReady'] = async (owner, projectId, after, limit) => {
    const { workspace } = await projects.findProject(this.#sql, owner, projectId);
    return lists.listReady(this.#sql, workspace.owner_id, projectId, after, limit);
  };

  readonly updateTask: WorkspacesPort['updateTask'] = (owner, id, patch, ifVersion) =>
    this.#taskStep(id, (work) => tasks.updateTask(work, owner, id, patch, ifVersion));

  readonly deleteTask: WorkspacesPort['deleteTask'] = (owner, id, ifVersion) =>
    this.#taskStep(id, (work) => tasks.deleteTask(work, owner, id, ifVersion));

  readonly claimTask: WorkspacesPort['claimTask'] = (owner, projectId, holder, leaseSeconds, filter) =>
    this.#grouped.claim({ owner, projectId, holder, leaseSeconds, filter });

  readonly heartbeatTask: WorkspacesPort['heartbeatTask'] = (owner, id, fence, by) =>
    this.#taskStep(id, (work) => claims.heartbeatTask(work, owner, id, fence, by));

  readonly renewClaims: WorkspacesPort['renewClaims'] = (owner, holder) =>
    this.#step((work) => claims.renewClaims(work, owner, holder));

  readonly decideTask: WorkspacesPort['decideTask'] = (owner, id, rule, event) =>
    this.#taskStep(id, (work) => claims.decideTask(work, owner, id, rule, event));

  readonly completeTask: WorkspacesPort['completeTask'] = (owner, id, rule) =>
    this.#grouped.complete(id, (work) => claims.completeTask(work, owner, id, rule));

  readonly retryTask: WorkspacesPort['retryTask'] = (owner, id, reason) =>
    this.#taskStep(id, (work) => tasks.retryTask(work, owner, id, reason));

  readonly requireTaskVersion: WorkspacesPort['requireTaskVersion'] = (owner, id, version) =>
    this.#taskStep(id, (work) => tasks.requireTaskVersion(work, owner, id, version));

  readonly requireClaim: WorkspacesPort['requireClaim'] = (owner, id, fence) =>
    this.#taskStep(id, (work) => claims.requireClaim(work, owner, id, fence));

  /**
   * Makes the tasks of an agent ready again, in the transaction that ends its presence. `names`: its id and
   * name.
   */
  releaseClaims(work: Work, ownerId: string, names: readonly string[]): Promise<void> {
    return claims.releaseClaims(work.part(this.#part), ownerId, names);
  }

  /** Whether a task is claimed under one of these names. */
  holdsClaims(on: Queryable, ownerId: string, names: readonly string[]): Promise<boolean> {
    return claims.holdsClaims(on, ownerId, names);
  }

  readonly beginReseal: WorkspacesPort['beginReseal'] = () => this.#background.beginReseal();

  readonly reseal: WorkspacesPort['reseal'] = (onProgress) => this.#background.reseal(onProgress);

  /** Handles expired leases and questions, start times, sessions past their limits, and bulk work. */
  sweep(): Promise<void> {
    return this.#background.sweep();
  }

  /** Resolves when the background work that was started so far has ended. */
  idle(): Promise<void> {
    return this.#background.idle();
  }

  readonly close: WorkspacesPort['close'] = async () => {
    this.waiters.close();
    await this.#background.close();
    await this.#notices.close();
  };

  /** The record types of exports and imports. */
  records(): [type: string, store: RecordStore][] {
    return workspacesRecords({
      sql: this.#sql,
      sealer: this.#options.sealer,
      transact: (body) => this.#transact(body),
      ensureUser: (work, user) => work.ensureUser(this.#options.users, user),
    });
  }

  #step<T>(run: (work: WorkspacesWork) => Promise<T>): PostgresStep<T> {
    return new PostgresStep([], (work) => run(work.part(this.#part)));
  }

  #taskStep<T>(id: string, run: (work: WorkspacesWork) => Promise<T>): PostgresStep<T> {
    return new PostgresStep([taskRow(id)], (work) => run(work.part(this.#part)));
  }

  readonly #part = (work: Work): WorkspacesWork => {
    return new WorkspacesWork(work, (effects) => this.#afterCommit(effects));
  };

  #transact<T>(run: (work: WorkspacesWork) => Promise<T>): Promise<T> {
    return this.#writer.transact((work) => run(work.part(this.#part)));
  }

  #afterCommit({ ready, hasBulkWork }: CommitEffects): void {
    this.#notices.publish(ready);
    if (hasBulkWork) this.#background.settleSoon();
  }
}
