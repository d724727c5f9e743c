/** What workspaces need of storage: their atomic operations. */
import type { Idempotency } from '../core/idempotency.js';
import type {
  Claim,
  Project,
  SessionStatus,
  Task,
  TaskLease,
  TaskStatus,
  WorkSession,
  Workspace,
  WorkspaceStatus,
} from './model.js';
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
} from './schemas.js';

/** Whose things are meant; null is the operator, who reaches everybody's. */
export type Owner = string | null;

/** The names under which a signed agent holds claims; null is who may report on any: the user and the operator. */
export type Reporter = readonly (string | null)[] | null;

/** One page of a list, in the order of ids, which is the order of creation. */
export interface ListRequest<Status> {
  status?: Status | undefined;
  /** What the page before ended with, as that page answered it. */
  after: string | null;
  limit: number;
}

export interface NamedListRequest extends ListRequest<WorkspaceStatus> {
  name?: string | undefined;
  path?: string | undefined;
  deleted: boolean;
}

export interface Listed<T> {
  items: T[];
  /** Where the next page begins, or null at the end. */
  next: string | null;
}

export interface ClaimOptions {
  holder: string;
  leaseSeconds: number;
  waitMs: number;
  /** Ends the wait: the caller is gone. */
  signal?: AbortSignal | undefined;
}

/**
 * Every verb is one transaction with all index entries, counters and the active slot. What is
 * missing, another owner's or deleted is `not_found`. Secrets come sealed, and are answered so.
 */
export interface WorkspacesPort {
  createWorkspace(
    owner: string,
    id: string,
    input: NewWorkspace,
    idempotency: Idempotency | null,
  ): Promise<Workspace>;
  getWorkspace(owner: Owner, id: string, deleted: boolean): Promise<Workspace>;
  listWorkspaces(owner: Owner, request: NamedListRequest): Promise<Listed<Workspace>>;
  updateWorkspace(
    owner: Owner,
    id: string,
    patch: WorkspacePatch,
    ifVersion: number | undefined,
  ): Promise<Workspace>;
  deleteWorkspace(owner: Owner, id: string, ifVersion: number | undefined): Promise<Workspace>;
  restoreWorkspace(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): Promise<Workspace>;
  purgeWorkspace(owner: Owner, id: string, ifVersion: number | undefined): Promise<void>;

  createProject(
    owner: Owner,
    workspaceId: string,
    id: string,
    input: NewProject,
    idempotency: Idempotency | null,
  ): Promise<Project>;
  getProject(owner: Owner, id: string, deleted: boolean): Promise<Project>;
  listProjects(owner: Owner, workspaceId: string, request: NamedListRequest): Promise<Listed<Project>>;
  updateProject(
    owner: Owner,
    id: string,
    patch: ProjectPatch,
    ifVersion: number | undefined,
  ): Promise<Project>;
  deleteProject(owner: Owner, id: string, ifVersion: number | undefined): Promise<Project>;
  restoreProject(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): Promise<Project>;
  purgeProject(owner: Owner, id: string, ifVersion: number | undefined): Promise<void>;

  createSession(
    owner: Owner,
    projectId: string,
    id: string,
    input: NewSession,
    idempotency: Idempotency | null,
  ): Promise<WorkSession>;
  getSession(owner: Owner, id: string): Promise<WorkSession>;
  listSessions(
    owner: Owner,
    projectId: string,
    request: ListRequest<SessionStatus>,
  ): Promise<Listed<WorkSession>>;
  activeSession(owner: Owner, projectId: string): Promise<WorkSession | null>;
  updateSession(
    owner: Owner,
    id: string,
    patch: SessionPatch,
    ifVersion: number | undefined,
  ): Promise<WorkSession>;
  deleteSession(owner: Owner, id: string, ifVersion: number | undefined): Promise<void>;

  createTask(
    owner: Owner,
    sessionId: string,
    id: string,
    input: NewTask,
    idempotency: Idempotency | null,
  ): Promise<Task>;
  getTask(owner: Owner, id: string): Promise<Task>;
  listTasks(owner: Owner, sessionId: string, request: ListRequest<TaskStatus>): Promise<Listed<Task>>;
  /** The tasks that could be claimed now, in the order in which they would be. */
  listReady(owner: Owner, projectId: string, after: string | null, limit: number): Promise<Listed<Task>>;
  updateTask(owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): Promise<Task>;
  deleteTask(owner: Owner, id: string, ifVersion: number | undefined): Promise<void>;

  /** Null when nothing became ready in the time that the caller waits. */
  claimTask(owner: Owner, projectId: string, options: ClaimOptions): Promise<Claim | null>;
  heartbeatTask(owner: Owner, id: string, fence: number, by?: Reporter): Promise<TaskLease>;
  completeTask(owner: Owner, id: string, input: CompleteRequest, by?: Reporter): Promise<Task>;
  failTask(owner: Owner, id: string, input: FailRequest, by?: Reporter): Promise<Task>;
  cancelTask(owner: Owner, id: string, reason: string | undefined): Promise<Task>;

  /** The same workspaces for writes that `check` may still refuse: it is called in the transaction that writes, as its last step before the commit. */
  guarded?(check: () => void): WorkspacesPort;
  /** Notes that every stored secret goes under the current key; the steps follow by themselves, also after a restart. */
  beginReseal(): Promise<void>;
  /** The same, until all are done. Answers how many records changed. */
  reseal(onProgress: (resealed: number) => void): Promise<number>;
  /** Sends claims that wait away with nothing. */
  stopWaiting(): void;
  close(): Promise<void>;
}
