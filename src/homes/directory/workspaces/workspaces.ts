/** Workspaces in the data directory: each write verb of the port is a step in the owner's shard. */
import { step, stepWithRoot } from '../step.js';
import { userKey } from '../../../identity/user-key.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
import type { WorkspacesPort } from '../../../workspaces/port.js';
import { ReadyWaiters } from '../../../workspaces/tasks/ready-waiters.js';
import { BulkWork } from './bulk/bulk.js';
import type { DependantsContext } from './tasks/dependants.js';
import * as verbs from './verbs.js';
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

  readonly createWorkspace: WorkspacesPort['createWorkspace'] = (owner, id, input) => {
    const key = userKey(owner);
    return stepWithRoot(this.#kernel.storeOf(key), (tx, root) => {
      this.#kernel.enterIn(root, id, key);
      this.#onOwner(tx, owner);
      return verbs.createWorkspace(tx, owner, id, input);
    });
  };

  readonly getWorkspace: WorkspacesPort['getWorkspace'] = async (owner, id, deleted) =>
    findWorkspace(this.#shards.of(owner, 'workspace', id), owner, id, deleted);

  readonly listWorkspaces: WorkspacesPort['listWorkspaces'] = async (owner, request) => {
    if (owner === null) return lists.listAllWorkspaces(this.#kernel.stores, request);
    return lists.listWorkspacesOf(this.#kernel.storeOf(userKey(owner)), owner, request);
  };

  readonly decideWorkspace: WorkspacesPort['decideWorkspace'] = (owner, id, event, rule) =>
    step(this.#shards.of(owner, 'workspace', id), (tx) => verbs.decideWorkspace(tx, owner, id, event, rule));

  readonly purgeWorkspace: WorkspacesPort['purgeWorkspace'] = (owner, id, ifVersion) =>
    step(this.#shards.of(owner, 'workspace', id), (tx) => {
      verbs.purgeWorkspace(tx, owner, id, ifVersion);
      this.bulk.kickAfter(tx);
    });

  readonly createProject: WorkspacesPort['createProject'] = (owner, workspaceId, id, input) =>
    stepWithRoot(this.#shards.of(owner, 'workspace', workspaceId), (tx, root) => {
      this.#shards.enter(root, id, () => owner ?? findWorkspace(tx, owner, workspaceId).owner_id);
      return verbs.createProject(tx, owner, workspaceId, id, input);
    });

  readonly getProject: WorkspacesPort['getProject'] = async (owner, id, deleted) =>
    findProject(this.#shards.of(owner, 'project', id), owner, id, deleted).project;

  readonly listProjects: WorkspacesPort['listProjects'] = async (owner, workspaceId, request) => {
    const store = this.#shards.of(owner, 'workspace', workspaceId);
    findWorkspace(store, owner, workspaceId);
    return lists.listProjectsOf(store, workspaceId, request);
  };

  readonly decideProject: WorkspacesPort['decideProject'] = (owner, id, event, rule) =>
    step(this.#shards.of(owner, 'project', id), (tx) => {
      // Claims that waited before the deletion may find a task now.
      if (event === 'restored') tx.onDurable(() => this.waiters.wake(id, null, Infinity));
      return verbs.decideProject(tx, owner, id, event, rule);
    });

  readonly purgeProject: WorkspacesPort['purgeProject'] = (owner, id, ifVersion) =>
    step(this.#shards.of(owner, 'project', id), (tx) => {
      verbs.purgeProject(tx, owner, id, ifVersion);
      this.bulk.kickAfter(tx);
    });

  readonly createSession: WorkspacesPort['createSession'] = (owner, projectId, id, input) =>
    stepWithRoot(this.#shards.of(owner, 'project', projectId), (tx, root) => {
      this.#shards.enter(root, id, () => owner ?? findProject(tx, owner, projectId).workspace.owner_id);
      return sessions.createSession(tx, owner, projectId, id, input, this.#kernel.limits);
    });

  readonly getSession: WorkspacesPort['getSession'] = async (owner, id) =>
    findSession(this.#shards.of(owner, 'session', id), owner, id).session;

  readonly listSessions: WorkspacesPort['listSessions'] = async (owner, projectId, request) => {
    const store = this.#shards.of(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return lists.listSessionsOf(store, projectId, request);
  };

  readonly activeSession: WorkspacesPort['activeSession'] = async (owner, projectId) => {
    const store = this.#shards.of(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return sessions.activeSession(store, projectId) ?? null;
  };

  readonly updateSession: WorkspacesPort['updateSession'] = (owner, id, patch, ifVersion) =>
    step(this.#shards.of(owner, 'session', id), (tx) =>
      sessions.updateSession(tx, owner, id, patch, ifVersion),
    );

  readonly deleteSession: WorkspacesPort['deleteSession'] = (owner, id, ifVersion) =>
    step(this.#shards.of(owner, 'session', id), (tx) => {
      sessions.deleteSession(tx, owner, id, ifVersion);
      this.bulk.kickAfter(tx);
    });

  readonly createTask: WorkspacesPort['createTask'] = (owner, sessionId, id, input) =>
    stepWithRoot(this.#shards.of(owner, 'session', sessionId), (tx, root) => {
      this.#shards.enter(root, id, () => owner ?? findSession(tx, owner, sessionId).workspace.owner_id);
      return this.tasks.create(tx, owner, sessionId, id, input);
    });

  readonly getTask: WorkspacesPort['getTask'] = async (owner, id) =>
    findTask(this.#shards.of(owner, 'task', id), owner, id).task;

  readonly listTasks: WorkspacesPort['listTasks'] = async (owner, request) => {
    if (request.project !== undefined) {
      const store = this.#shards.of(owner, 'project', request.project);
      const { workspace } = findProject(store, owner, request.project);
      return listTasksOf(store, workspace.owner_id, request);
    }
    if (owner === null) return listAllTasks(this.#kernel.stores, request);
    return listTasksOf(this.#kernel.storeOf(userKey(owner)), owner, request);
  };

  readonly listSessionTasks: WorkspacesPort['listSessionTasks'] = async (owner, sessionId, request) => {
    const store = this.#shards.of(owner, 'session', sessionId);
    findSession(store, owner, sessionId);
    return lists.listSessionTasksOf(store, sessionId, request);
  };

  readonly listReady: WorkspacesPort['listReady'] = async (owner, projectId, after, limit) => {
    const store = this.#shards.of(owner, 'project', projectId);
    findProject(store, owner, projectId);
    return lists.listReadyOf(store, projectId, after, limit);
  };

  readonly updateTask: WorkspacesPort['updateTask'] = (owner, id, patch, ifVersion) =>
    step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.update(tx, owner, id, patch, ifVersion));

  readonly deleteTask: WorkspacesPort['deleteTask'] = (owner, id, ifVersion) =>
    step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.delete(tx, owner, id, ifVersion));

  readonly claimTask: WorkspacesPort['claimTask'] = (owner, projectId, holder, leaseSeconds, filter) =>
    step(this.#shards.of(owner, 'project', projectId), (tx) =>
      this.tasks.claim(tx, owner, projectId, holder, leaseSeconds, filter),
    );

  readonly heartbeatTask: WorkspacesPort['heartbeatTask'] = (owner, id, fence, by) =>
    step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.heartbeat(tx, owner, id, fence, by));

  readonly renewClaims: WorkspacesPort['renewClaims'] = (owner, holder, after) =>
    step(this.#kernel.storeOf(userKey(owner)), (tx) => this.tasks.renewClaims(tx, owner, holder, after));

  readonly decideTask: WorkspacesPort['decideTask'] = (owner, id, rule, event) =>
    step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.decide(tx, owner, id, rule, event));

  readonly completeTask: WorkspacesPort['completeTask'] = (owner, id, rule) =>
    this.decideTask(owner, id, rule);

  readonly retryTask: WorkspacesPort['retryTask'] = (owner, id, reason) =>
    step(this.#shards.of(owner, 'task', id), (tx) => this.tasks.retry(tx, owner, id, reason));

  readonly requireTaskVersion: WorkspacesPort['requireTaskVersion'] = (owner, id, version) =>
    step(this.#shards.forCheck(owner, id), (tx) => requireTaskVersion(tx, owner, id, version));

  readonly requireClaim: WorkspacesPort['requireClaim'] = (owner, id, fence) =>
    step(this.#shards.forCheck(owner, id), (tx) => requireClaim(tx, owner, id, fence, this.#kernel.outages));

  readonly beginReseal: WorkspacesPort['beginReseal'] = () => this.#reseal.begin();

  readonly reseal: WorkspacesPort['reseal'] = (onProgress) => this.#reseal.run(onProgress);

  readonly close: WorkspacesPort['close'] = async () => {
    this.waiters.close();
    await this.bulk.close();
  };
}
