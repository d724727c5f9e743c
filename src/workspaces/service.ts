/** Workspaces, projects, sessions and tasks as callers use them. */
import { type Caller, requireWriteScope } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import { type Step, type Writer, writeOne } from '../core/write.js';
import type { Limits } from '../core/settings/limits.js';
import type { Page } from '../core/paging.js';
import type { Sealer } from '../secrets/sealer.js';
import { validate } from '../core/validation/validate.js';
import { ownerOf } from './authorise.js';
import { checkListBounds, checkTaskListBounds } from './bounds.js';
import { claimOrWait } from './tasks/claiming.js';
import { openConfig } from './secrets/config-secrets.js';
import { checkId } from './ids.js';
import type { Claim, JsonObject, ListedTask, Project, Task, WorkSession, Workspace } from './model.js';
import { Pages } from './lists/pages.js';
import type { WorkspacesPort } from './port.js';
import { References } from './references.js';
import * as schemas from './schemas.js';
import { type Heartbeat, WorkspacesSteps, masked, maskedProject, normalised } from './steps.js';

export interface WorkspacesServiceOptions {
  /** Runs the steps of `port`: both belong to the same home. */
  writer: Writer;
  port: WorkspacesPort;
  limits: Limits;
  sealer: Sealer;
}

/** What changes need beside their body. */
export interface ChangeOptions {
  ifVersion?: number | undefined;
}

export interface CreateOptions {
  idempotency?: Idempotency | null | undefined;
}

export interface ClaimOptions extends CreateOptions {
  /** Ends the wait: the caller is gone. */
  signal?: AbortSignal | undefined;
}

type Unchecked = unknown;

export class WorkspacesService {
  readonly port: WorkspacesPort;
  readonly steps: WorkspacesSteps;
  /** Finds workspaces and projects by their names and ids. */
  readonly references: References;
  readonly #writer: Writer;
  readonly #limits: Limits;
  readonly #sealer: Sealer;
  readonly #pages: Pages;

  constructor(options: WorkspacesServiceOptions) {
    this.port = options.port;
    this.steps = new WorkspacesSteps(options);
    this.#writer = options.writer;
    this.#limits = options.limits;
    this.#sealer = options.sealer;
    this.#pages = new Pages(options.limits);
    this.references = new References(options.port, options.limits);
  }

  // Workspaces

  async createWorkspace(caller: Caller, body: Unchecked, options: CreateOptions = {}): Promise<Workspace> {
    return this.#write(caller, this.steps.createWorkspace(caller, body), options);
  }

  /** With `deleted`, also finds a deleted workspace that is not purged yet. */
  async getWorkspace(caller: Caller, id: string, options: { deleted?: boolean } = {}): Promise<Workspace> {
    return masked(
      await this.port.getWorkspace(
        ownerOf(caller),
        await this.references.workspace(caller, id),
        options.deleted ?? false,
      ),
    );
  }

  async listWorkspaces(caller: Caller, query: Unchecked = {}): Promise<Page<Workspace>> {
    const request = normalised(validate(schemas.workspaceListSchema, query));
    checkListBounds(request, this.#limits);
    const owner = ownerOf(caller);
    return this.#pages.read(caller, `workspaces ${owner}`, request, async (list) => {
      const { items, next } = await this.port.listWorkspaces(owner, list);
      return { items: items.map(masked), next };
    });
  }

  async updateWorkspace(
    caller: Caller,
    id: string,
    body: Unchecked,
    options: ChangeOptions = {},
  ): Promise<Workspace> {
    return this.#write(
      caller,
      this.steps.updateWorkspace(
        caller,
        await this.references.workspace(caller, id),
        body,
        options.ifVersion,
      ),
    );
  }

  async deleteWorkspace(caller: Caller, id: string, options: ChangeOptions = {}): Promise<Workspace> {
    return this.#write(
      caller,
      this.steps.deleteWorkspace(caller, await this.references.workspace(caller, id), options.ifVersion),
    );
  }

  async restoreWorkspace(
    caller: Caller,
    id: string,
    body: Unchecked = {},
    options: ChangeOptions = {},
  ): Promise<Workspace> {
    return this.#write(caller, this.steps.restoreWorkspace(caller, id, body, options.ifVersion));
  }

  /** Removes a deleted workspace permanently, with everything in it. */
  async purgeWorkspace(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#write(caller, this.steps.purgeWorkspace(caller, id, options.ifVersion));
  }

  /** The plain key, for programs that embed Stoa. No route answers it. */
  async revealWorkspaceKey(caller: Caller, id: string): Promise<string | null> {
    requireWriteScope(caller);
    const workspace = await this.port.getWorkspace(
      ownerOf(caller),
      await this.references.workspace(caller, id),
      false,
    );
    return workspace.claude_key === null ? null : this.#sealer.open(workspace.claude_key, workspace.id);
  }

  // Projects

  async createProject(
    caller: Caller,
    workspaceId: string,
    body: Unchecked,
    options: CreateOptions = {},
  ): Promise<Project> {
    const parent = await this.references.workspace(caller, workspaceId);
    return this.#write(caller, this.steps.createProject(caller, parent, body), options);
  }

  async getProject(caller: Caller, id: string, options: { deleted?: boolean } = {}): Promise<Project> {
    return maskedProject(
      await this.port.getProject(
        ownerOf(caller),
        await this.references.project(caller, id),
        options.deleted ?? false,
      ),
    );
  }

  async listProjects(caller: Caller, workspaceId: string, query: Unchecked = {}): Promise<Page<Project>> {
    const request = normalised(validate(schemas.workspaceListSchema, query));
    checkListBounds(request, this.#limits);
    const parent = await this.references.workspace(caller, workspaceId);
    return this.#pages.read(caller, `projects ${parent}`, request, async (list) => {
      const { items, next } = await this.port.listProjects(ownerOf(caller), parent, list);
      return { items: items.map(maskedProject), next };
    });
  }

  async updateProject(
    caller: Caller,
    id: string,
    body: Unchecked,
    options: ChangeOptions = {},
  ): Promise<Project> {
    return this.#write(
      caller,
      this.steps.updateProject(caller, await this.references.project(caller, id), body, options.ifVersion),
    );
  }

  async deleteProject(caller: Caller, id: string, options: ChangeOptions = {}): Promise<Project> {
    return this.#write(
      caller,
      this.steps.deleteProject(caller, await this.references.project(caller, id), options.ifVersion),
    );
  }

  async restoreProject(
    caller: Caller,
    id: string,
    body: Unchecked = {},
    options: ChangeOptions = {},
  ): Promise<Project> {
    return this.#write(caller, this.steps.restoreProject(caller, id, body, options.ifVersion));
  }

  async purgeProject(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#write(caller, this.steps.purgeProject(caller, id, options.ifVersion));
  }

  /** The config with its plain secrets, for programs that embed Stoa. No route answers it. */
  async revealProjectConfig(caller: Caller, id: string): Promise<JsonObject> {
    requireWriteScope(caller);
    const project = await this.port.getProject(
      ownerOf(caller),
      await this.references.project(caller, id),
      false,
    );
    return openConfig(project.config, project.id, this.#sealer);
  }

  // Sessions

  async createSession(
    caller: Caller,
    projectId: string,
    body: Unchecked = {},
    options: CreateOptions = {},
  ): Promise<WorkSession> {
    const parent = await this.references.project(caller, projectId);
    return this.#write(caller, this.steps.createSession(caller, parent, body), options);
  }

  getSession(caller: Caller, id: string): Promise<WorkSession> {
    return this.port.getSession(ownerOf(caller), checkId('session', id));
  }

  async listSessions(caller: Caller, projectId: string, query: Unchecked = {}): Promise<Page<WorkSession>> {
    const request = validate(schemas.sessionListSchema, query);
    const parent = await this.references.project(caller, projectId);
    return this.#pages.read(caller, `sessions ${parent}`, request, (list) =>
      this.port.listSessions(ownerOf(caller), parent, { ...list, status: request.status }),
    );
  }

  /** The session that holds the project's single slot, or null. */
  async activeSession(caller: Caller, projectId: string): Promise<WorkSession | null> {
    return this.port.activeSession(ownerOf(caller), await this.references.project(caller, projectId));
  }

  async updateSession(
    caller: Caller,
    id: string,
    body: Unchecked,
    options: ChangeOptions = {},
  ): Promise<WorkSession> {
    return this.#write(caller, this.steps.updateSession(caller, id, body, options.ifVersion));
  }

  async deleteSession(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#write(caller, this.steps.deleteSession(caller, id, options.ifVersion));
  }

  // Tasks

  async createTask(
    caller: Caller,
    sessionId: string,
    body: Unchecked,
    options: CreateOptions = {},
  ): Promise<Task> {
    return this.#write(caller, this.steps.createTask(caller, sessionId, body), options);
  }

  getTask(caller: Caller, id: string): Promise<Task> {
    return this.port.getTask(ownerOf(caller), checkId('task', id));
  }

  /** The tasks of all projects, in the order of creation for one user. */
  async listTasks(caller: Caller, query: Unchecked = {}): Promise<Page<ListedTask>> {
    const request = validate(schemas.taskListSchema, query);
    checkTaskListBounds(request, this.#limits);
    const { status, holder, label } = request;
    const project =
      request.project === undefined ? undefined : await this.references.project(caller, request.project);
    const filters = { status, holder, project, label: label?.normalize('NFC') };
    const owner = ownerOf(caller);
    return this.#pages.read(caller, `tasks of ${owner}`, request, ({ after, limit, bytesMax }) =>
      this.port.listTasks(owner, { ...filters, after, limit, bytesMax }),
    );
  }

  async listSessionTasks(caller: Caller, sessionId: string, query: Unchecked = {}): Promise<Page<Task>> {
    const request = validate(schemas.sessionTasksSchema, query);
    const parent = checkId('session', sessionId);
    return this.#pages.read(caller, `tasks ${parent}`, request, (list) =>
      this.port.listSessionTasks(ownerOf(caller), parent, { ...list, status: request.status }),
    );
  }

  /** What could be claimed now, in the order in which it would be. */
  async listReadyTasks(caller: Caller, projectId: string, query: Unchecked = {}): Promise<Page<Task>> {
    const request = validate(schemas.pageSchema, query);
    const parent = await this.references.project(caller, projectId);
    return this.#pages.read(caller, `ready ${parent}`, request, (list) =>
      this.port.listReady(ownerOf(caller), parent, list.after, list.limit),
    );
  }

  async updateTask(caller: Caller, id: string, body: Unchecked, options: ChangeOptions = {}): Promise<Task> {
    return this.#write(caller, this.steps.updateTask(caller, id, body, options.ifVersion));
  }

  async deleteTask(caller: Caller, id: string, options: ChangeOptions = {}): Promise<void> {
    return this.#write(caller, this.steps.deleteTask(caller, id, options.ifVersion));
  }

  /**
   * Gives the first ready task that the filters accept to the caller, with a lease. Null when there is none
   * within `wait` seconds.
   */
  async claimTask(
    caller: Caller,
    projectId: string,
    body: Unchecked = {},
    { signal, idempotency = null }: ClaimOptions = {},
  ): Promise<Claim | null> {
    const id = await this.references.project(caller, projectId);
    const { step, waitMs, filter } = this.steps.claimTask(caller, id, body);
    if (signal?.aborted === true) return null;
    const { waiters } = this.port;
    const wait = { waiters, projectId: id, filter, waitMs, signal };
    const request = { caller, idempotency, isAnswer: hasClaim };
    return claimOrWait(wait, () => writeOne(this.#writer, request, step));
  }

  async heartbeatTask(caller: Caller, id: string, body: Unchecked): Promise<Heartbeat> {
    return this.#write(caller, this.steps.heartbeatTask(caller, id, body));
  }

  async renewClaims(caller: Caller): Promise<void> {
    if (!caller.scopes.write || caller.agent === null) return;
    // A call that only reads makes no agent.
    const silent = { ...caller, agent: null, fence: null };
    for (let after: string | null = ''; after !== null;)
      after = await this.#write(silent, this.port.renewClaims(caller.user, caller.agent, after));
  }

  async completeTask(caller: Caller, id: string, body: Unchecked): Promise<Task> {
    return this.#write(caller, this.steps.completeTask(caller, id, body));
  }

  async failTask(caller: Caller, id: string, body: Unchecked): Promise<Task> {
    return this.#write(caller, this.steps.failTask(caller, id, body));
  }

  /** The holder asks a person, and the task waits for the answer. */
  async askQuestion(caller: Caller, id: string, body: Unchecked): Promise<Task> {
    return this.#write(caller, this.steps.askQuestion(caller, id, body));
  }

  /** Answers the question of a task, which returns to its holder, or to the line if the holder is lost. */
  async answerQuestion(caller: Caller, id: string, body: Unchecked): Promise<Task> {
    return this.#write(caller, this.steps.answerQuestion(caller, id, body));
  }

  async cancelTask(caller: Caller, id: string, body: Unchecked = {}): Promise<Task> {
    return this.#write(caller, this.steps.cancelTask(caller, id, body));
  }

  /** Takes a task from its holder and returns it to the queue. */
  async releaseTask(caller: Caller, id: string, body: Unchecked = {}): Promise<Task> {
    return this.#write(caller, this.steps.releaseTask(caller, id, body));
  }

  /** Returns a task that failed or was cancelled to the queue. */
  async retryTask(caller: Caller, id: string, body: Unchecked = {}): Promise<Task> {
    return this.#write(caller, this.steps.retryTask(caller, id, body));
  }

  /** Sends waiting claims away with nothing: the server is about to stop. */
  stopWaiting(): void {
    this.port.waiters.close();
  }

  /** Sends waiting claims away and finishes the step of bulk work that runs. */
  close(): Promise<void> {
    return this.port.close();
  }

  #write<Result>(caller: Caller, step: Step<Result>, { idempotency }: CreateOptions = {}): Promise<Result> {
    return writeOne(this.#writer, { caller, idempotency }, step);
  }
}

/** Only a claimed task is stored under an Idempotency-Key: a repeat after "none" looks again. */
function hasClaim([outcome]: readonly unknown[]): boolean {
  return typeof outcome !== 'string';
}
