/** Workspaces on the embedded store: each verb of the port is one transaction of the owner's shard. */
import { StoaError, messageOf } from '../../errors.js';
import { userKey } from '../../identity/user-key.js';
import type { Kernel } from '../../kernel/kernel.js';
import { type Idempotency } from '../../core/idempotency.js';
import { once } from '../../kernel/once.js';
import type { Store } from '../../kernel/store.js';
import type { Transaction } from '../../kernel/transaction.js';
import type { Sealer } from '../../secrets/sealer.js';
import type {
  Claim,
  Project,
  SessionStatus,
  Task,
  TaskLease,
  TaskStatus,
  WorkSession,
  Workspace,
} from '../../workspaces/model.js';
import type {
  ClaimOptions,
  ListRequest,
  Listed,
  NamedListRequest,
  Owner,
  Reporter,
  WorkspacesPort,
} from '../../workspaces/port.js';
import { ReadyWaiters, type Ticket } from '../../workspaces/ready-waiters.js';
import type {
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
} from '../../workspaces/schemas.js';
import { notFound } from '../../workspaces/workspaces.js';
import { BulkWork } from './workspaces-bulk.js';
import { type DependantsContext, dependantsStep } from './workspaces-dependants.js';
import * as holders from './workspaces-holders.js';
import * as lists from './workspaces-lists.js';
import { type Migration, migrateWorkspaces } from './workspaces-migrations.js';
import { purgeStep } from './workspaces-purge.js';
import { ReadyLines } from './workspaces-ready-line.js';
import { resealStep, startReseal } from './workspaces-reseal.js';
import * as sessions from './workspaces-sessions.js';
import { leaseTimer } from './workspaces-task-rows.js';
import { TaskVerbs } from './workspaces-tasks.js';
import { findProject, findSession, findTask, findWorkspace } from './workspaces-tree.js';

export { workspacesFamilies } from './workspaces-keys.js';

export interface EmbeddedWorkspacesOptions {
  sealer: Sealer;
  /** Called in the transaction of an owner's new workspace: a user exists from its first write. */
  onOwner?: (tx: Transaction, user: string) => void;
  migrations?: readonly Migration[];
  /** Faults that no caller waits for. */
  onError?: (error: unknown) => void;
}

/** Brings the stored layout up to date and registers the timers. */
export async function openEmbeddedWorkspaces(
  kernel: Kernel,
  options: EmbeddedWorkspacesOptions,
): Promise<EmbeddedWorkspaces> {
  for (const store of kernel.stores) await migrateWorkspaces(store, options.migrations);
  return new EmbeddedWorkspaces(kernel, options);
}

export class EmbeddedWorkspaces implements WorkspacesPort {
  readonly tasks: TaskVerbs;
  readonly waiters: ReadyWaiters;
  /** Purges, long lines of dependants and re-keyings. */
  readonly bulk: BulkWork;
  readonly #lines: ReadyLines;
  readonly #context: DependantsContext;
  readonly #kernel: Kernel;
  readonly #options: EmbeddedWorkspacesOptions;
  readonly #onOwner: (tx: Transaction, user: string) => void;
  readonly #resealed = new Set<(records: number) => void>();

  constructor(kernel: Kernel, options: EmbeddedWorkspacesOptions, joins?: EmbeddedWorkspaces) {
    this.#kernel = kernel;
    this.#options = options;
    this.#onOwner = options.onOwner ?? (() => undefined);
    const { limits } = kernel;
    if (joins !== undefined) {
      this.waiters = joins.waiters;
      this.bulk = joins.bulk;
      this.tasks = joins.tasks;
      this.#lines = joins.#lines;
      this.#context = joins.#context;
      return;
    }
    this.#lines = new ReadyLines();
    this.waiters = new ReadyWaiters(limits.claimsWaitingMax);
    this.bulk = new BulkWork({
      stores: kernel.stores,
      steps: {
        purge: (tx, value) => purgeStep(tx, this.#context, value),
        dependants: (tx, value) => dependantsStep(tx, this.#context, value),
        reseal: (tx, value) => this.#reseal(tx, options.sealer, value),
      },
      onError: options.onError ?? ((error) => process.emitWarning(`workspaces: ${messageOf(error)}`)),
    });
    this.#context = {
      waiters: this.waiters,
      lines: this.#lines,
      bulk: this.bulk,
      rowsMax: limits.workspaceStepRowsMax,
    };
    this.tasks = new TaskVerbs({
      limits,
      waiters: this.waiters,
      lines: this.#lines,
      bulk: this.bulk,
      outages: () => kernel.outages,
    });
    kernel.handleTimer(leaseTimer, (tx, reference) => this.tasks.leaseTimerRang(tx, reference));
    kernel.handleTimer(sessions.sessionTimer, (tx, reference) =>
      sessions.sessionTimerRang(tx, reference, kernel.outages),
    );
    // What a crash has left unfinished goes on.
    this.bulk.kick();
  }

  /** The same store over another face of its kernel: a commit joins transactions there, and wakes the same waiters. */
  over(kernel: Kernel): EmbeddedWorkspaces {
    return new EmbeddedWorkspaces(kernel, this.#options, this);
  }

  async createWorkspace(
    owner: string,
    id: string,
    input: NewWorkspace,
    idempotency: Idempotency | null,
  ): Promise<Workspace> {
    return this.#create(owner, id, idempotency, (tx) => {
      this.#onOwner(tx, owner);
      return holders.createWorkspace(tx, owner, id, input);
    });
  }

  async getWorkspace(owner: Owner, id: string, deleted: boolean): Promise<Workspace> {
    return findWorkspace(this.#store(owner, 'workspace', id), owner, id, deleted);
  }

  async listWorkspaces(owner: Owner, request: NamedListRequest): Promise<Listed<Workspace>> {
    if (owner === null) return lists.listAllWorkspaces(this.#kernel.stores, request);
    return lists.listWorkspacesOf(this.#kernel.storeOf(userKey(owner)), owner, request);
  }

  async updateWorkspace(
    owner: Owner,
    id: string,
    patch: WorkspacePatch,
    ifVersion: number | undefined,
  ): Promise<Workspace> {
    return this.#store(owner, 'workspace', id).transact((tx) =>
      holders.updateWorkspace(tx, owner, id, patch, ifVersion),
    );
  }

  async deleteWorkspace(owner: Owner, id: string, ifVersion: number | undefined): Promise<Workspace> {
    return this.#store(owner, 'workspace', id).transact((tx) =>
      holders.deleteWorkspace(tx, owner, id, ifVersion),
    );
  }

  async restoreWorkspace(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): Promise<Workspace> {
    return this.#store(owner, 'workspace', id).transact((tx) =>
      holders.restoreWorkspace(tx, owner, id, name, ifVersion),
    );
  }

  async purgeWorkspace(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    await this.#store(owner, 'workspace', id).transact((tx) =>
      holders.purgeWorkspace(tx, owner, id, ifVersion),
    );
    this.bulk.kick();
  }

  async createProject(
    owner: Owner,
    workspaceId: string,
    id: string,
    input: NewProject,
    idempotency: Idempotency | null,
  ): Promise<Project> {
    const { owner_id: ownerId } = findWorkspace(
      this.#store(owner, 'workspace', workspaceId),
      owner,
      workspaceId,
    );
    return this.#create(ownerId, id, idempotency, (tx) =>
      holders.createProject(tx, owner, workspaceId, id, input),
    );
  }

  async getProject(owner: Owner, id: string, deleted: boolean): Promise<Project> {
    return findProject(this.#store(owner, 'project', id), owner, id, deleted).project;
  }

  async listProjects(owner: Owner, workspaceId: string, request: NamedListRequest): Promise<Listed<Project>> {
    const store = this.#store(owner, 'workspace', workspaceId);
    findWorkspace(store, owner, workspaceId);
    return lists.listProjectsOf(store, workspaceId, request);
  }

  async updateProject(
    owner: Owner,
    id: string,
    patch: ProjectPatch,
    ifVersion: number | undefined,
  ): Promise<Project> {
    return this.#store(owner, 'project', id).transact((tx) =>
      holders.updateProject(tx, owner, id, patch, ifVersion),
    );
  }

  async deleteProject(owner: Owner, id: string, ifVersion: number | undefined): Promise<Project> {
    return this.#store(owner, 'project', id).transact((tx) =>
      holders.deleteProject(tx, owner, id, ifVersion),
    );
  }

  async restoreProject(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): Promise<Project> {
    const store = this.#store(owner, 'project', id);
    const project = await store.transact((tx) => holders.restoreProject(tx, owner, id, name, ifVersion));
    // Claims that waited before it was deleted may find something now.
    this.waiters.wake(id, Infinity);
    return project;
  }

  async purgeProject(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    await this.#store(owner, 'project', id).transact((tx) => holders.purgeProject(tx, owner, id, ifVersion));
    this.bulk.kick();
  }

  async createSession(
    owner: Owner,
    projectId: string,
    id: string,
    input: NewSession,
    idempotency: Idempotency | null,
  ): Promise<WorkSession> {
    const { workspace } = findProject(this.#store(owner, 'project', projectId), owner, projectId);
    return this.#create(workspace.owner_id, id, idempotency, (tx) =>
      sessions.createSession(tx, owner, projectId, id, input, this.#kernel.limits),
    );
  }

  async getSession(owner: Owner, id: string): Promise<WorkSession> {
    return findSession(this.#store(owner, 'session', id), owner, id).session;
  }

  async listSessions(
    owner: Owner,
    projectId: string,
    request: ListRequest<SessionStatus>,
  ): Promise<Listed<WorkSession>> {
    const store = this.#store(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return lists.listSessionsOf(store, projectId, request);
  }

  async activeSession(owner: Owner, projectId: string): Promise<WorkSession | null> {
    const store = this.#store(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return sessions.activeSession(store, projectId) ?? null;
  }

  async updateSession(
    owner: Owner,
    id: string,
    patch: SessionPatch,
    ifVersion: number | undefined,
  ): Promise<WorkSession> {
    return this.#store(owner, 'session', id).transact((tx) =>
      sessions.updateSession(tx, owner, id, patch, ifVersion),
    );
  }

  async deleteSession(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    await this.#store(owner, 'session', id).transact((tx) =>
      sessions.deleteSession(tx, owner, id, ifVersion),
    );
    this.bulk.kick();
  }

  async createTask(
    owner: Owner,
    sessionId: string,
    id: string,
    input: NewTask,
    idempotency: Idempotency | null,
  ): Promise<Task> {
    const store = this.#store(owner, 'session', sessionId);
    if (this.#kernel.stores.length > 1)
      await this.#kernel.enter(id, userKey(findSession(store, owner, sessionId).workspace.owner_id));
    return store.transact((tx) =>
      once(tx, idempotency, () => this.tasks.create(tx, owner, sessionId, id, input)),
    );
  }

  async getTask(owner: Owner, id: string): Promise<Task> {
    return findTask(this.#store(owner, 'task', id), owner, id).task;
  }

  async listTasks(owner: Owner, sessionId: string, request: ListRequest<TaskStatus>): Promise<Listed<Task>> {
    const store = this.#store(owner, 'session', sessionId);
    findSession(store, owner, sessionId);
    return lists.listTasksOf(store, sessionId, request);
  }

  async listReady(
    owner: Owner,
    projectId: string,
    after: string | null,
    limit: number,
  ): Promise<Listed<Task>> {
    const store = this.#store(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return lists.listReadyOf(store, projectId, after, limit);
  }

  async updateTask(owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): Promise<Task> {
    return this.#store(owner, 'task', id).transact((tx) =>
      this.tasks.update(tx, owner, id, patch, ifVersion),
    );
  }

  async deleteTask(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    await this.#store(owner, 'task', id).transact((tx) => this.tasks.delete(tx, owner, id, ifVersion));
  }

  async claimTask(owner: Owner, projectId: string, options: ClaimOptions): Promise<Claim | null> {
    const store = this.#store(owner, 'project', projectId);
    const untilMs = performance.now() + options.waitMs;
    for (;;) {
      const leftMs = untilMs - performance.now();
      const outcome = await this.#claimOrQueue(
        store,
        owner,
        projectId,
        options,
        options.waitMs > 0 && leftMs > 0,
      );
      if (outcome === 'again') continue;
      if (outcome === 'none') return null;
      if (!('wait' in outcome)) return outcome;
      if (!(await outcome.wait(leftMs, options.signal))) return null;
      if (options.signal?.aborted === true) {
        // Woken, but gone: the task is for the next in the line.
        this.waiters.wake(projectId);
        return null;
      }
    }
  }

  async heartbeatTask(owner: Owner, id: string, fence: number, by: Reporter = null): Promise<TaskLease> {
    return this.#store(owner, 'task', id).transact((tx) => this.tasks.heartbeat(tx, owner, id, fence, by));
  }

  async completeTask(owner: Owner, id: string, input: CompleteRequest, by: Reporter = null): Promise<Task> {
    return this.#store(owner, 'task', id).transact((tx) => this.tasks.complete(tx, owner, id, input, by));
  }

  async failTask(owner: Owner, id: string, input: FailRequest, by: Reporter = null): Promise<Task> {
    return this.#store(owner, 'task', id).transact((tx) => this.tasks.fail(tx, owner, id, input, by));
  }

  async cancelTask(owner: Owner, id: string, reason: string | undefined): Promise<Task> {
    return this.#store(owner, 'task', id).transact((tx) => this.tasks.cancel(tx, owner, id, reason));
  }

  async beginReseal(): Promise<void> {
    for (const store of this.#kernel.stores) await store.transact(startReseal);
    this.bulk.kick();
  }

  async reseal(onProgress: (resealed: number) => void): Promise<number> {
    let resealed = 0;
    const listener = (records: number): void => {
      resealed += records;
      onProgress(resealed);
    };
    this.#resealed.add(listener);
    try {
      await this.beginReseal();
      await this.bulk.finish();
    } finally {
      this.#resealed.delete(listener);
    }
    return resealed;
  }

  stopWaiting(): void {
    this.waiters.close();
  }

  async close(): Promise<void> {
    this.waiters.close();
    await this.bulk.close();
  }

  #reseal(tx: Transaction, sealer: Sealer, from: string): string | null {
    const { next, resealed } = resealStep(tx, sealer, this.#kernel.limits.workspaceStepRowsMax, from);
    for (const listener of this.#resealed) listener(resealed);
    return next;
  }

  /** A claim, or a place in the line taken in the same transaction that found nothing. */
  async #claimOrQueue(
    store: Store,
    owner: Owner,
    projectId: string,
    options: ClaimOptions,
    mayWait: boolean,
  ): Promise<Claim | 'none' | 'again' | Ticket> {
    let ticket: Ticket | undefined;
    const claim = (tx: Transaction): Claim | 'none' | 'again' | Ticket => {
      tx.onUndone(() => this.#lines.forget(projectId));
      const outcome = this.tasks.claim(tx, owner, projectId, options.holder, options.leaseSeconds);
      if (outcome !== 'none' || !mayWait) return outcome;
      ticket = this.waiters.enter(projectId);
      return ticket;
    };
    try {
      return await store.transact(claim);
    } catch (error) {
      ticket?.leave();
      // The task that it was woken for is for the next in the line.
      if (error instanceof StoaError && error.code === 'fenced') this.waiters.wake(projectId);
      throw error;
    }
  }

  /** An id is findable before its record is there. */
  async #create<T>(
    ownerId: string,
    id: string,
    idempotency: Idempotency | null,
    body: (tx: Transaction) => T,
  ): Promise<T> {
    const key = userKey(ownerId);
    await this.#kernel.enter(id, key);
    return this.#kernel.storeOf(key).transact((tx) => once(tx, idempotency, () => body(tx)));
  }

  /** The shard of the owner; for the operator, who names none, the directory knows it. */
  #store(owner: Owner, entity: string, id: string): Store {
    const store = owner === null ? this.#kernel.locate(id) : this.#kernel.storeOf(userKey(owner));
    if (store === undefined) throw notFound(entity, id);
    return store;
  }
}
