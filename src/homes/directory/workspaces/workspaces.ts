/** Workspaces in the data directory: each write verb of the port is a step in the owner's shard. */
import { type DirectoryStep, step, stepWithRoot } from '../step.js';
import { userKey } from '../../../identity/user-key.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
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
import { BulkWork } from './bulk/bulk.js';
import type { DependantsContext } from './tasks/dependants.js';
import * as holders from './holders.js';
import * as lists from './lists.js';
import { OwnerShards } from './owner-shards.js';
import { Reseal } from './bulk/reseal.js';
import { type DirectoryWorkspacesOptions, workspacesParts } from './parts.js';
import * as sessions from './sessions.js';
import { listAllTasks, listTasksOf } from './tasks/list.js';
import { requireClaim, requireTaskVersion } from './tasks/checks.js';
import { TaskVerbs } from './tasks/tasks.js';
import { findProject, findSession, findTask, findWorkspace } from './tree.js';

export class DirectoryWorkspaces implements WorkspacesPort {
  readonly tasks: TaskVerbs;
  readonly waiters: ReadyWaiters;
  /** Purges, long lines of dependants and re-keyings. */
  readonly bulk: BulkWork;
  readonly context: DependantsContext;
  readonly #kernel: Kernel;
  readonly #onOwner: (tx: Transaction, user: string) => void;
  readonly #reseal: Reseal;
  readonly #shards: OwnerShards;

  constructor(kernel: Kernel, options: DirectoryWorkspacesOptions) {
    const parts = workspacesParts(kernel, options);
    this.#kernel = kernel;
    this.#shards = new OwnerShards(kernel);
    this.#onOwner = options.onOwner ?? (() => undefined);
    this.#reseal = parts.reseal;
    this.waiters = parts.context.waiters;
    this.bulk = parts.context.bulk;
    this.tasks = parts.tasks;
    this.context = parts.context;
  }

  createWorkspace(owner: string, id: string, input: NewWorkspace): DirectoryStep<Workspace> {
    const key = userKey(owner);
    return stepWithRoot(this.#kernel.storeOf(key), (tx, root) => {
      this.#kernel.enterIn(root, id, key);
      this.#onOwner(tx, owner);
      return holders.createWorkspace(tx, owner, id, input);
    });
  }

  async getWorkspace(owner: Owner, id: string, deleted: boolean): Promise<Workspace> {
    return findWorkspace(this.#shards.of(owner, 'workspace', id), owner, id, deleted);
  }

  async listWorkspaces(owner: Owner, request: NamedListRequest): Promise<Listed<Workspace>> {
    if (owner === null) return lists.listAllWorkspaces(this.#kernel.stores, request);
    return lists.listWorkspacesOf(this.#kernel.storeOf(userKey(owner)), owner, request);
  }

  updateWorkspace(
    owner: Owner,
    id: string,
    patch: WorkspacePatch,
    ifVersion: number | undefined,
  ): DirectoryStep<Workspace> {
    return step(this.#shards.of(owner, 'workspace', id), (tx) =>
      holders.updateWorkspace(tx, owner, id, patch, ifVersion),
    );
  }

  deleteWorkspace(owner: Owner, id: string, ifVersion: number | undefined): DirectoryStep<Workspace> {
    return step(this.#shards.of(owner, 'workspace', id), (tx) =>
      holders.deleteWorkspace(tx, owner, id, ifVersion),
    );
  }

  restoreWorkspace(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): DirectoryStep<Workspace> {
    return step(this.#shards.of(owner, 'workspace', id), (tx) =>
      holders.restoreWorkspace(tx, owner, id, name, ifVersion),
    );
  }

  purgeWorkspace(owner: Owner, id: string, ifVersion: number | undefined): DirectoryStep<void> {
    return step(this.#shards.of(owner, 'workspace', id), (tx) => {
      holders.purgeWorkspace(tx, owner, id, ifVersion);
      this.bulk.kickAfter(tx);
    });
  }

  createProject(owner: Owner, workspaceId: string, id: string, input: NewProject): DirectoryStep<Project> {
    return stepWithRoot(this.#shards.of(owner, 'workspace', workspaceId), (tx, root) => {
      this.#shards.enter(root, id, () => owner ?? findWorkspace(tx, owner, workspaceId).owner_id);
      return holders.createProject(tx, owner, workspaceId, id, input);
    });
  }

  async getProject(owner: Owner, id: string, deleted: boolean): Promise<Project> {
    return findProject(this.#shards.of(owner, 'project', id), owner, id, deleted).project;
  }

  async listProjects(owner: Owner, workspaceId: string, request: NamedListRequest): Promise<Listed<Project>> {
    const store = this.#shards.of(owner, 'workspace', workspaceId);
    findWorkspace(store, owner, workspaceId);
    return lists.listProjectsOf(store, workspaceId, request);
  }

  updateProject(
    owner: Owner,
    id: string,
    patch: ProjectPatch,
    ifVersion: number | undefined,
  ): DirectoryStep<Project> {
    return step(this.#shards.of(owner, 'project', id), (tx) =>
      holders.updateProject(tx, owner, id, patch, ifVersion),
    );
  }

  deleteProject(owner: Owner, id: string, ifVersion: number | undefined): DirectoryStep<Project> {
    return step(this.#shards.of(owner, 'project', id), (tx) =>
      holders.deleteProject(tx, owner, id, ifVersion),
    );
  }

  restoreProject(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): DirectoryStep<Project> {
    return step(this.#shards.of(owner, 'project', id), (tx) => {
      // Claims that waited before the deletion may find a task now.
      tx.onDurable(() => this.waiters.wake(id, null, Infinity));
      return holders.restoreProject(tx, owner, id, name, ifVersion);
    });
  }

  purgeProject(owner: Owner, id: string, ifVersion: number | undefined): DirectoryStep<void> {
    return step(this.#shards.of(owner, 'project', id), (tx) => {
      holders.purgeProject(tx, owner, id, ifVersion);
      this.bulk.kickAfter(tx);
    });
  }

  createSession(owner: Owner, projectId: string, id: string, input: NewSession): DirectoryStep<WorkSession> {
    return stepWithRoot(this.#shards.of(owner, 'project', projectId), (tx, root) => {
      this.#shards.enter(root, id, () => owner ?? findProject(tx, owner, projectId).workspace.owner_id);
      return sessions.createSession(tx, owner, projectId, id, input, this.#kernel.limits);
    });
  }

  async getSession(owner: Owner, id: string): Promise<WorkSession> {
    return findSession(this.#shards.of(owner, 'session', id), owner, id).session;
  }

  async listSessions(
    owner: Owner,
    projectId: string,
    request: ListRequest<SessionStatus>,
  ): Promise<Listed<WorkSession>> {
    const store = this.#shards.of(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return lists.listSessionsOf(store, projectId, request);
  }

  async activeSession(owner: Owner, projectId: string): Promise<WorkSession | null> {
    const store = this.#shards.of(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return sessions.activeSession(store, projectId) ?? null;
  }

  updateSession(
    owner: Owner,
    id: string,
    patch: SessionPatch,
    ifVersion: number | undefined,
  ): DirectoryStep<WorkSession> {
    return step(this.#shards.of(owner, 'session', id), (tx) =>
      sessions.updateSession(tx, owner, id, patch, ifVersion),
    );
  }

  deleteSession(owner: Owner, id: string, ifVersion: number | undefined): DirectoryStep<void> {
    return step(this.#shards.of(owner, 'session', id), (tx) => {
      sessions.deleteSession(tx, owner, id, ifVersion);
      this.bulk.kickAfter(tx);
    });
  }

  createTask(owner: Owner, sessionId: string, id: string, input: NewTask): DirectoryStep<Task> {
    return stepWithRoot(this.#shards.of(owner, 'session', sessionId), (tx, root) => {
      this.#shards.enter(root, id, () => owner ?? findSession(tx, owner, sessionId).workspace.owner_id);
      return this.tasks.create(tx, owner, sessionId, id, input);
    });
  }

  async getTask(owner: Owner, id: string): Promise<Task> {
    return findTask(this.#shards.of(owner, 'task', id), owner, id).task;
  }

  async listTasks(owner: Owner, request: TaskListRequest): Promise<Listed<ListedTask>> {
    if (request.project !== undefined) {
      const store = this.#shards.of(owner, 'project', request.project);
      const { workspace } = findProject(store, owner, request.project);
      return listTasksOf(store, workspace.owner_id, request);
    }
    if (owner === null) return listAllTasks(this.#kernel.stores, request);
    return listTasksOf(this.#kernel.storeOf(userKey(owner)), owner, request);
  }

  async listSessionTasks(
    owner: Owner,
    sessionId: string,
    request: ListRequest<TaskStatus>,
  ): Promise<Listed<Task>> {
    const store = this.#shards.of(owner, 'session', sessionId);
    findSession(store, owner, sessionId);
    return lists.listSessionTasksOf(store, sessionId, request);
  }

  async listReady(
    owner: Owner,
    projectId: string,
    after: string | null,
    limit: number,
  ): Promise<Listed<Task>> {
    const store = this.#shards.of(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return lists.listReadyOf(store, projectId, after, limit);
  }

  updateTask(owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) =>
      this.tasks.update(tx, owner, id, patch, ifVersion),
    );
  }

  deleteTask(owner: Owner, id: string, ifVersion: number | undefined): DirectoryStep<void> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.delete(tx, owner, id, ifVersion));
  }

  claimTask(
    owner: Owner,
    projectId: string,
    holder: string,
    leaseSeconds: number,
    filter: ClaimFilter,
  ): DirectoryStep<ClaimOutcome> {
    return step(this.#shards.of(owner, 'project', projectId), (tx) =>
      this.tasks.claim(tx, owner, projectId, holder, leaseSeconds, filter),
    );
  }

  heartbeatTask(owner: Owner, id: string, fence: number, by: Reporter): DirectoryStep<TaskLease> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.heartbeat(tx, owner, id, fence, by));
  }

  renewClaims(owner: string, holder: string): DirectoryStep<void> {
    return step(this.#kernel.storeOf(userKey(owner)), (tx) => this.tasks.renewClaims(tx, owner, holder));
  }

  completeTask(owner: Owner, id: string, input: CompleteRequest, by: Reporter): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.complete(tx, owner, id, input, by));
  }

  failTask(owner: Owner, id: string, input: FailRequest, by: Reporter): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.fail(tx, owner, id, input, by));
  }

  cancelTask(owner: Owner, id: string, reason: string | undefined): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.cancel(tx, owner, id, reason));
  }

  releaseTask(owner: Owner, id: string, reason: string | undefined): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.release(tx, owner, id, reason));
  }

  retryTask(owner: Owner, id: string, reason: string | undefined): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.retry(tx, owner, id, reason));
  }

  askQuestion(owner: Owner, id: string, input: AskRequest, by: Reporter): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.ask(tx, owner, id, input, by));
  }

  answerQuestion(
    owner: Owner,
    id: string,
    input: AnswerRequest,
    answeredBy: string,
    by: Reporter,
  ): DirectoryStep<Task> {
    return step(this.#shards.of(owner, 'task', id), (tx) =>
      this.tasks.answer(tx, owner, id, input, answeredBy, by),
    );
  }

  requireTaskVersion(owner: Owner, id: string, version: number): DirectoryStep<void> {
    return step(this.#shards.forCheck(owner, id), (tx) => requireTaskVersion(tx, owner, id, version));
  }

  requireClaim(owner: Owner, id: string, fence: number): DirectoryStep<void> {
    return step(this.#shards.forCheck(owner, id), (tx) =>
      requireClaim(tx, owner, id, fence, this.#kernel.outages),
    );
  }

  beginReseal(): Promise<void> {
    return this.#reseal.begin();
  }

  reseal(onProgress: (resealed: number) => void): Promise<number> {
    return this.#reseal.run(onProgress);
  }

  async close(): Promise<void> {
    this.waiters.close();
    await this.bulk.close();
  }
}
