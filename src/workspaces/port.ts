/** What workspaces need of storage: reads that answer, and writes as steps. */
import type { Step } from '../core/write.js';
import type {
  Claim,
  ListedTask,
  Project,
  SessionStatus,
  Task,
  TaskLease,
  TaskStatus,
  WorkSession,
  Workspace,
  WorkspaceStatus,
} from './model.js';
import type { TaskEvent } from './changes.js';
import type { ClaimFilter } from './tasks/claim-filter.js';
import type { ReadyWaiters } from './tasks/ready-waiters.js';
import type { TaskRule } from './tasks/tasks.js';
import type { NewProject, NewSession, NewTask, NewWorkspace, SessionPatch, TaskPatch } from './schemas.js';

/** The user whose records are meant; null means all users, for the operator. */
export type Owner = string | null;

/**
 * The names under which a signed agent holds claims. Null for the user and the operator, who may report on
 * any claim.
 */
export type Reporter = readonly (string | null)[] | null;

/** A page ends at the first of the two limits. The first record fits always. */
export interface PageSize {
  limit: number;
  /** Bytes of all records, about. */
  bytesMax?: number | undefined;
}

/** One page of a list, in the order of ids, which is the order of creation. */
export interface ListRequest<Status> extends PageSize {
  status?: Status | undefined;
  /** What the page before ended with, as that page answered it. */
  after: string | null;
}

/** A page of tasks over all projects of the owner. */
export interface TaskListRequest extends ListRequest<TaskStatus> {
  /** Only tasks that this agent holds now. */
  holder?: string | undefined;
  project?: string | undefined;
  label?: string | undefined;
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

/** How a workspace or a project changes. */
export type RecordChange = 'updated' | 'deleted' | 'restored';

/** Decides how a workspace or a project changes. */
export type RecordRule<Changed extends Workspace | Project> = (before: Changed, nowMs: number) => Changed;

/** `again`: outdated entries were removed, and there may be more after them. */
export type ClaimOutcome = Claim | 'none' | 'again';

/**
 * A step writes a record with all its index entries, counters and the active slot. What is missing,
 * another owner's or deleted is `not_found`. Secrets come sealed, and are answered so.
 */
export interface WorkspacesPort {
  createWorkspace(owner: string, id: string, input: NewWorkspace): Step<Workspace>;
  getWorkspace(owner: Owner, id: string, deleted: boolean): Promise<Workspace>;
  listWorkspaces(owner: Owner, request: NamedListRequest): Promise<Listed<Workspace>>;
  /** Changes a workspace as the rule decides. Only `restored` finds deleted workspaces. */
  decideWorkspace(
    owner: Owner,
    id: string,
    event: RecordChange,
    rule: RecordRule<Workspace>,
  ): Step<Workspace>;
  purgeWorkspace(owner: Owner, id: string, ifVersion: number | undefined): Step<void>;

  createProject(owner: Owner, workspaceId: string, id: string, input: NewProject): Step<Project>;
  getProject(owner: Owner, id: string, deleted: boolean): Promise<Project>;
  listProjects(owner: Owner, workspaceId: string, request: NamedListRequest): Promise<Listed<Project>>;
  decideProject(owner: Owner, id: string, event: RecordChange, rule: RecordRule<Project>): Step<Project>;
  purgeProject(owner: Owner, id: string, ifVersion: number | undefined): Step<void>;

  createSession(owner: Owner, projectId: string, id: string, input: NewSession): Step<WorkSession>;
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
  ): Step<WorkSession>;
  deleteSession(owner: Owner, id: string, ifVersion: number | undefined): Step<void>;

  createTask(owner: Owner, sessionId: string, id: string, input: NewTask): Step<Task>;
  getTask(owner: Owner, id: string): Promise<Task>;
  listTasks(owner: Owner, request: TaskListRequest): Promise<Listed<ListedTask>>;
  listSessionTasks(owner: Owner, sessionId: string, request: ListRequest<TaskStatus>): Promise<Listed<Task>>;
  /** The tasks that could be claimed now, in the order in which they would be. */
  listReady(owner: Owner, projectId: string, after: string | null, limit: number): Promise<Listed<Task>>;
  updateTask(owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): Step<Task>;
  deleteTask(owner: Owner, id: string, ifVersion: number | undefined): Step<void>;

  /** Gives the first ready task of the project that the filter accepts to the holder. */
  claimTask(
    owner: Owner,
    projectId: string,
    holder: string,
    leaseSeconds: number,
    filter: ClaimFilter,
  ): Step<ClaimOutcome>;
  heartbeatTask(owner: Owner, id: string, fence: number, by: Reporter): Step<TaskLease>;
  /**
   * Renews claims of the holder that are not over, of tasks after an id. Answers the last task that it looked
   * at, or null at the end. The tasks do not change.
   */
  renewClaims(owner: string, holder: string, after: string): Step<string | null>;
  /** Changes a task as the rule decides. `event` is announced instead of the name of the new status. */
  decideTask(owner: Owner, id: string, rule: TaskRule, event?: TaskEvent): Step<Task>;
  /** The same for a completion. Many callers complete tasks at the same time, so a home may group them. */
  completeTask(owner: Owner, id: string, rule: TaskRule): Step<Task>;
  /** Returns a task that failed or was cancelled to the queue, with all its attempts. */
  retryTask(owner: Owner, id: string, reason: string | undefined): Step<Task>;

  /** Refuses a write unless the task has this version. */
  requireTaskVersion(owner: Owner, id: string, version: number): Step<void>;
  /** Refuses a write unless this fencing number holds the task. */
  requireClaim(owner: Owner, id: string, fence: number): Step<void>;

  /** Waiting claims. The home wakes them when a task may be ready on any server. */
  readonly waiters: ReadyWaiters;
  /**
   * Notes that every stored secret goes under the current key; the steps follow by themselves, also after a
   * restart.
   */
  beginReseal(): Promise<void>;
  /** The same, until all are done. Answers how many records changed. */
  reseal(onProgress: (resealed: number) => void): Promise<number>;
  close(): Promise<void>;
}
