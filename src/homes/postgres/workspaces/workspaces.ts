/**
 * Workspaces in PostgreSQL: the port. Each write verb returns a step. Any number of servers share the tables.
 */
import { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import type { RecordStore } from '../../../transfer/port.js';
import type {
  ListedTask,
  Project,
  SessionStatus,
  Task,
  TaskLease,
  TaskStatus,
  WorkSession,
  Workspace,
} from '../../../workspaces/model.js';
import type {
  ClaimOutcome,
  ListRequest,
  Listed,
  NamedListRequest,
  Owner,
  Reporter,
  TaskListRequest,
  WorkspacesPort,
} from '../../../workspaces/port.js';
import type { ClaimFilter } from '../../../workspaces/tasks/claim-filter.js';
import { ReadyWaiters } from '../../../workspaces/tasks/ready-waiters.js';
import type {
  AnswerRequest,
  AskRequest,
  CompleteRequest,
  FailRequest,
  NewProject,
  NewSession,
  NewTask,
  NewWorkspace,
  ProjectPatch,
  SessionPatch,
  TaskPatch,
  WorkspacePatch,
} from '../../../workspaces/schemas.js';
import type { PostgresSql } from '../database/connection.js';
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

  createWorkspace(owner: string, id: string, input: NewWorkspace): PostgresStep<Workspace> {
    return new PostgresStep([], async (work) => {
      await this.#options.users.ensure(work, owner);
      return workspaceVerbs.createWorkspace(work.part(this.#part), owner, id, input);
    });
  }

  getWorkspace(owner: Owner, id: string, deleted: boolean): Promise<Workspace> {
    return workspaceVerbs.findWorkspace(this.#sql, owner, id, { deleted });
  }

  listWorkspaces(owner: Owner, request: NamedListRequest): Promise<Listed<Workspace>> {
    return lists.listWorkspaces(this.#sql, owner, request);
  }

  updateWorkspace(
    owner: Owner,
    id: string,
    patch: WorkspacePatch,
    ifVersion: number | undefined,
  ): PostgresStep<Workspace> {
    return this.#step((work) => workspaceVerbs.updateWorkspace(work, owner, id, patch, ifVersion));
  }

  deleteWorkspace(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<Workspace> {
    return this.#step((work) => workspaceVerbs.deleteWorkspace(work, owner, id, ifVersion));
  }

  restoreWorkspace(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): PostgresStep<Workspace> {
    return this.#step((work) => workspaceVerbs.restoreWorkspace(work, owner, id, name, ifVersion));
  }

  purgeWorkspace(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<void> {
    return this.#step((work) => workspaceVerbs.purgeWorkspace(work, owner, id, ifVersion));
  }

  createProject(owner: Owner, workspaceId: string, id: string, input: NewProject): PostgresStep<Project> {
    return this.#step((work) => projects.createProject(work, owner, workspaceId, id, input));
  }

  async getProject(owner: Owner, id: string, deleted: boolean): Promise<Project> {
    return (await projects.findProject(this.#sql, owner, id, { deleted })).project;
  }

  async listProjects(owner: Owner, workspaceId: string, request: NamedListRequest): Promise<Listed<Project>> {
    const workspace = await workspaceVerbs.findWorkspace(this.#sql, owner, workspaceId);
    return lists.listProjects(this.#sql, workspace.owner_id, workspaceId, request);
  }

  updateProject(
    owner: Owner,
    id: string,
    patch: ProjectPatch,
    ifVersion: number | undefined,
  ): PostgresStep<Project> {
    return this.#step((work) => projects.updateProject(work, owner, id, patch, ifVersion));
  }

  deleteProject(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<Project> {
    return this.#step((work) => projects.deleteProject(work, owner, id, ifVersion));
  }

  restoreProject(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): PostgresStep<Project> {
    return this.#step((work) => projects.restoreProject(work, owner, id, name, ifVersion));
  }

  purgeProject(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<void> {
    return this.#step((work) => projects.purgeProject(work, owner, id, ifVersion));
  }

  createSession(owner: Owner, projectId: string, id: string, input: NewSession): PostgresStep<WorkSession> {
    return this.#step((work) => sessions.createSession(work, owner, projectId, id, input));
  }

  async getSession(owner: Owner, id: string): Promise<WorkSession> {
    return (await sessions.findSession(this.#sql, owner, id)).session;
  }

  async listSessions(
    owner: Owner,
    projectId: string,
    request: ListRequest<SessionStatus>,
  ): Promise<Listed<WorkSession>> {
    const { workspace } = await projects.findProject(this.#sql, owner, projectId);
    return lists.listSessions(this.#sql, workspace.owner_id, projectId, request);
  }

  async activeSession(owner: Owner, projectId: string): Promise<WorkSession | null> {
    const { workspace } = await projects.findProject(this.#sql, owner, projectId);
    return sessions.activeSession(this.#sql, workspace.owner_id, projectId);
  }

  updateSession(
    owner: Owner,
    id: string,
    patch: SessionPatch,
    ifVersion: number | undefined,
  ): PostgresStep<WorkSession> {
    return this.#step((work) => sessions.updateSession(work, owner, id, patch, ifVersion));
  }

  deleteSession(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<void> {
    return this.#step((work) => sessions.deleteSession(work, owner, id, ifVersion));
  }

  createTask(owner: Owner, sessionId: string, id: string, input: NewTask): PostgresStep<Task> {
    const create = (work: WorkspacesWork): Promise<Task> =>
      tasks.createTask(work, owner, sessionId, id, input);
    // Each dependency is a round trip, for which the other writes of a group would wait.
    return (input.depends_on ?? []).length > 0 ? this.#step(create) : this.#grouped.create(id, create);
  }

  async getTask(owner: Owner, id: string): Promise<Task> {
    return (await findTask(this.#sql, owner, id)).held.task;
  }

  async listTasks(owner: Owner, request: TaskListRequest): Promise<Listed<ListedTask>> {
    const ownerId =
      request.project === undefined
        ? owner
        : (await projects.findProject(this.#sql, owner, request.project)).workspace.owner_id;
    return ownerId === null
      ? taskLists.listAllTasks(this.#sql, request)
      : taskLists.listTasks(this.#sql, ownerId, request);
  }

  async listSessionTasks(
    owner: Owner,
    sessionId: string,
    request: ListRequest<TaskStatus>,
  ): Promise<Listed<Task>> {
    const { ownerId } = await sessions.findSession(this.#sql, owner, sessionId);
    return lists.listSessionTasks(this.#sql, ownerId, sessionId, request);
  }

  async listReady(
    owner: Owner,
    projectId: string,
    after: string | null,
    limit: number,
  ): Promise<Listed<Task>> {
    const { workspace } = await projects.findProject(this.#sql, owner, projectId);
    return lists.listReady(this.#sql, workspace.owner_id, projectId, after, limit);
  }

  updateTask(owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): PostgresStep<Task> {
    return this.#taskStep(id, (work) => tasks.updateTask(work, owner, id, patch, ifVersion));
  }

  deleteTask(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<void> {
    return this.#taskStep(id, (work) => tasks.deleteTask(work, owner, id, ifVersion));
  }

  claimTask(
    owner: Owner,
    projectId: string,
    holder: string,
    leaseSeconds: number,
    filter: ClaimFilter,
  ): PostgresStep<ClaimOutcome> {
    return this.#grouped.claim({ owner, projectId, holder, leaseSeconds, filter });
  }

  heartbeatTask(owner: Owner, id: string, fence: number, by: Reporter): PostgresStep<TaskLease> {
    return this.#taskStep(id, (work) => claims.heartbeatTask(work, owner, id, fence, by));
  }

  renewClaims(owner: string, holder: string): PostgresStep<void> {
    return this.#step((work) => claims.renewClaims(work, owner, holder));
  }

  completeTask(owner: Owner, id: string, input: CompleteRequest, by: Reporter): PostgresStep<Task> {
    return this.#grouped.complete(id, (work) => claims.completeTask(work, owner, id, input, by));
  }

  failTask(owner: Owner, id: string, input: FailRequest, by: Reporter): PostgresStep<Task> {
    return this.#taskStep(id, (work) => claims.failTask(work, owner, id, input, by));
  }

  cancelTask(owner: Owner, id: string, reason: string | undefined): PostgresStep<Task> {
    return this.#taskStep(id, (work) => claims.cancelTask(work, owner, id, reason));
  }

  releaseTask(owner: Owner, id: string, reason: string | undefined): PostgresStep<Task> {
    return this.#taskStep(id, (work) => claims.releaseTask(work, owner, id, reason));
  }

  retryTask(owner: Owner, id: string, reason: string | undefined): PostgresStep<Task> {
    return this.#taskStep(id, (work) => tasks.retryTask(work, owner, id, reason));
  }

  askQuestion(owner: Owner, id: string, input: AskRequest, by: Reporter): PostgresStep<Task> {
    return this.#taskStep(id, (work) => claims.askQuestion(work, owner, id, input, by));
  }

  answerQuestion(
    owner: Owner,
    id: string,
    input: AnswerRequest,
    answeredBy: string,
    by: Reporter,
  ): PostgresStep<Task> {
    return this.#taskStep(id, (work) => claims.answerQuestion(work, owner, id, input, answeredBy, by));
  }

  requireTaskVersion(owner: Owner, id: string, version: number): PostgresStep<void> {
    return this.#taskStep(id, (work) => tasks.requireTaskVersion(work, owner, id, version));
  }

  requireClaim(owner: Owner, id: string, fence: number): PostgresStep<void> {
    return this.#taskStep(id, (work) => claims.requireClaim(work, owner, id, fence));
  }

  /**
   * Makes the tasks of an agent ready again, in the transaction that ends its presence. `names`: its id and
   * name.
   */
  releaseClaims(work: Work, ownerId: string, names: readonly string[]): Promise<void> {
    return claims.releaseClaims(work.part(this.#part), ownerId, names);
  }

  /** Whether a task is claimed under one of these names. */
  holdsClaims(work: Work, ownerId: string, names: readonly string[]): Promise<boolean> {
    return claims.holdsClaims(work.part(this.#part), ownerId, names);
  }

  beginReseal(): Promise<void> {
    return this.#background.beginReseal();
  }

  reseal(onProgress: (resealed: number) => void): Promise<number> {
    return this.#background.reseal(onProgress);
  }

  /** Handles expired leases and questions, start times, sessions past their limits, and bulk work. */
  sweep(): Promise<void> {
    return this.#background.sweep();
  }

  /** Resolves when the background work that was started so far has ended. */
  idle(): Promise<void> {
    return this.#background.idle();
  }

  async close(): Promise<void> {
    this.waiters.close();
    await this.#background.close();
    await this.#notices.close();
  }

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
