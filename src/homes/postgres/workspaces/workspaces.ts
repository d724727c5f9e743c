/** Workspaces in PostgreSQL: each write verb of the port is a step; any number of servers share the tables. */
import type { StoaError } from '../../../core/errors.js';
import { PostgresStep } from '../step.js';
import type { Work } from '../work.js';
import type { PostgresWriter } from '../writer.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Sealer } from '../../../secrets/sealer.js';
import type { RecordStore } from '../../../transfer/port.js';
import type {
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
  WorkspacesPort,
} from '../../../workspaces/port.js';
import { ReadyWaiters } from '../../../workspaces/tasks/ready-waiters.js';
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
} from '../../../workspaces/schemas.js';
import type { PostgresSql } from '../connection.js';
import type { DatabaseClock } from '../database-clock.js';
import { newerTables } from '../migrate.js';
import type { KnownUsers } from '../known-users.js';
import { takeTurn } from '../turns.js';
import { workspacesRecords } from '../transfer/workspaces.js';
import { bulkStep } from './bulk.js';
import * as holders from './holders.js';
import * as lists from './lists.js';
import { ReadyCalls } from './ready-calls.js';
import { resealStep, startReseal } from './reseal.js';
import { type TableMigration, migrateWorkspacesUp, workspacesMigrations } from './schema.js';
import * as sessions from './sessions.js';
import * as tasks from './tasks.js';
import { type Left, WorkspacesWork } from './work.js';

export interface PostgresWorkspacesOptions {
  readonly limits: Limits;
  readonly clock: DatabaseClock;
  readonly sealer: Sealer;
  readonly users: KnownUsers;
  /** Faults that no caller waits for. */
  readonly onError: (error: unknown, about: string) => void;
  readonly sweepIntervalMs?: number | undefined;
  /** The versions of the tables, instead of this program's; for tests. */
  readonly migrations?: readonly TableMigration[] | undefined;
}

const defaultSweepMs = 1_000;

/** Makes the tables where they are missing, listens for ready tasks, and begins to sweep. */
export async function openPostgresWorkspaces(
  sql: PostgresSql,
  writer: PostgresWriter,
  options: PostgresWorkspacesOptions,
): Promise<PostgresWorkspaces> {
  await migrateWorkspacesUp(sql, options.limits, options.migrations);
  const port = new PostgresWorkspaces(sql, writer, options);
  await port.start();
  return port;
}

export class PostgresWorkspaces implements WorkspacesPort {
  readonly waiters: ReadyWaiters;
  readonly #sql: PostgresSql;
  readonly #writer: PostgresWriter;
  readonly #options: PostgresWorkspacesOptions;
  readonly #calls: ReadyCalls;
  #sweeping: NodeJS.Timeout | undefined;
  #background: Promise<void> = Promise.resolve();
  /** Who waits for a re-keying, told of each step. */
  readonly #resealed = new Set<(records: number) => void>();
  #closing = false;
  /** Why nothing is written any more. */
  #newer: StoaError | undefined;

  constructor(sql: PostgresSql, writer: PostgresWriter, options: PostgresWorkspacesOptions) {
    this.#sql = sql;
    this.#writer = writer;
    this.#options = options;
    this.waiters = new ReadyWaiters(options.limits.claimsWaitingMax);
    this.#calls = new ReadyCalls({
      sql,
      waiters: this.waiters,
      onError: (error) => options.onError(error, 'waking claims that wait'),
    });
  }

  async start(): Promise<void> {
    await this.#calls.start();
    const intervalMs = this.#options.sweepIntervalMs ?? defaultSweepMs;
    this.#sweeping = setInterval(() => this.#inBackground(() => this.#sweepInTurn(intervalMs)), intervalMs);
    this.#sweeping.unref();
    this.#inBackground(() => this.#settle());
  }

  createWorkspace(owner: string, id: string, input: NewWorkspace): PostgresStep<Workspace> {
    return new PostgresStep([], async (work) => {
      await this.#options.users.ensure(work, owner);
      return holders.createWorkspace(work.part(this.#part), owner, id, input);
    });
  }

  getWorkspace(owner: Owner, id: string, deleted: boolean): Promise<Workspace> {
    return holders.findWorkspace(this.#sql, owner, id, { deleted });
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
    return this.#step((work) => holders.updateWorkspace(work, owner, id, patch, ifVersion));
  }

  deleteWorkspace(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<Workspace> {
    return this.#step((work) => holders.deleteWorkspace(work, owner, id, ifVersion));
  }

  restoreWorkspace(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): PostgresStep<Workspace> {
    return this.#step((work) => holders.restoreWorkspace(work, owner, id, name, ifVersion));
  }

  purgeWorkspace(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<void> {
    return this.#step((work) => holders.purgeWorkspace(work, owner, id, ifVersion));
  }

  createProject(owner: Owner, workspaceId: string, id: string, input: NewProject): PostgresStep<Project> {
    return this.#step((work) => holders.createProject(work, owner, workspaceId, id, input));
  }

  async getProject(owner: Owner, id: string, deleted: boolean): Promise<Project> {
    return (await holders.findProject(this.#sql, owner, id, { deleted })).project;
  }

  async listProjects(owner: Owner, workspaceId: string, request: NamedListRequest): Promise<Listed<Project>> {
    const workspace = await holders.findWorkspace(this.#sql, owner, workspaceId);
    return lists.listProjects(this.#sql, workspace.owner_id, workspaceId, request);
  }

  updateProject(
    owner: Owner,
    id: string,
    patch: ProjectPatch,
    ifVersion: number | undefined,
  ): PostgresStep<Project> {
    return this.#step((work) => holders.updateProject(work, owner, id, patch, ifVersion));
  }

  deleteProject(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<Project> {
    return this.#step((work) => holders.deleteProject(work, owner, id, ifVersion));
  }

  restoreProject(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): PostgresStep<Project> {
    return this.#step((work) => holders.restoreProject(work, owner, id, name, ifVersion));
  }

  purgeProject(owner: Owner, id: string, ifVersion: number | undefined): PostgresStep<void> {
    return this.#step((work) => holders.purgeProject(work, owner, id, ifVersion));
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
    const { workspace } = await holders.findProject(this.#sql, owner, projectId);
    return lists.listSessions(this.#sql, workspace.owner_id, projectId, request);
  }

  async activeSession(owner: Owner, projectId: string): Promise<WorkSession | null> {
    const { workspace } = await holders.findProject(this.#sql, owner, projectId);
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
    return this.#step((work) => tasks.createTask(work, owner, sessionId, id, input));
  }

  async getTask(owner: Owner, id: string): Promise<Task> {
    return (await tasks.findTask(this.#sql, owner, id)).held.task;
  }

  async listTasks(owner: Owner, sessionId: string, request: ListRequest<TaskStatus>): Promise<Listed<Task>> {
    const { ownerId } = await sessions.findSession(this.#sql, owner, sessionId);
    return lists.listTasks(this.#sql, ownerId, sessionId, request);
  }

  async listReady(
    owner: Owner,
    projectId: string,
    after: string | null,
    limit: number,
  ): Promise<Listed<Task>> {
    const { workspace } = await holders.findProject(this.#sql, owner, projectId);
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
  ): PostgresStep<ClaimOutcome> {
    return this.#step((work) => tasks.claimTask(work, owner, projectId, holder, leaseSeconds));
  }

  heartbeatTask(owner: Owner, id: string, fence: number, by: Reporter): PostgresStep<TaskLease> {
    return this.#taskStep(id, (work) => tasks.heartbeatTask(work, owner, id, fence, by));
  }

  completeTask(owner: Owner, id: string, input: CompleteRequest, by: Reporter): PostgresStep<Task> {
    return this.#taskStep(id, (work) => tasks.completeTask(work, owner, id, input, by));
  }

  failTask(owner: Owner, id: string, input: FailRequest, by: Reporter): PostgresStep<Task> {
    return this.#taskStep(id, (work) => tasks.failTask(work, owner, id, input, by));
  }

  cancelTask(owner: Owner, id: string, reason: string | undefined): PostgresStep<Task> {
    return this.#taskStep(id, (work) => tasks.cancelTask(work, owner, id, reason));
  }

  requireTaskVersion(owner: Owner, id: string, version: number): PostgresStep<void> {
    return this.#taskStep(id, (work) => tasks.requireTaskVersion(work, owner, id, version));
  }

  requireClaim(owner: Owner, id: string, fence: number): PostgresStep<void> {
    return this.#taskStep(id, (work) => tasks.requireClaim(work, owner, id, fence));
  }

  /** Takes back what an agent had claimed, under its id or its name, in the transaction in which its presence is lost. */
  releaseClaims(work: Work, ownerId: string, names: readonly string[]): Promise<void> {
    return tasks.releaseClaims(work.part(this.#part), ownerId, names);
  }

  async beginReseal(): Promise<void> {
    await this.#transact((work) => startReseal(work, this.#options.sealer));
    this.#inBackground(() => this.#settle());
  }

  async reseal(onProgress: (resealed: number) => void): Promise<number> {
    let resealed = 0;
    const listener = (records: number): void => {
      resealed += records;
      onProgress(resealed);
    };
    this.#resealed.add(listener);
    try {
      await this.#transact((work) => startReseal(work, this.#options.sealer));
      while (!this.#closing && (await this.#reseal()));
    } finally {
      this.#resealed.delete(listener);
    }
    return resealed;
  }

  /** A step of a re-keying that was begun here or cut off; false when there is none. */
  async #reseal(): Promise<boolean> {
    const records = await this.#transact((work) => resealStep(work, this.#options.sealer));
    if (records === null) return false;
    for (const listener of this.#resealed) listener(records);
    return true;
  }

  /** Does what is due: lapsed leases, sessions past their limits, bulk work. */
  async sweep(): Promise<void> {
    await this.#lookForNewer();
    if (this.#newer !== undefined) return;
    const stepMax = this.#options.limits.sweepStepMax;
    while (!this.#closing && (await this.#transact((work) => tasks.returnLapsed(work, stepMax))) === stepMax);
    while (
      !this.#closing &&
      (await this.#transact((work) => sessions.endDueSessions(work, stepMax))) === stepMax
    );
    await this.#settle();
  }

  /** Every server looks whether the tables are still its own; one of them sweeps. */
  async #sweepInTurn(intervalMs: number): Promise<void> {
    await this.#lookForNewer();
    if (this.#newer === undefined && (await takeTurn(this.#sql, 'workspaces', intervalMs)))
      await this.sweep();
  }

  /** Resolves when what runs in the background has ended. */
  idle(): Promise<void> {
    return this.#background;
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#sweeping);
    this.waiters.close();
    await this.#background;
    await this.#calls.close();
  }

  /** Every kind of record for exports and imports. */
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
    return new PostgresStep([{ table: 'tasks', key: id }], (work) => run(work.part(this.#part)));
  }

  readonly #part = (work: Work): WorkspacesWork => {
    if (this.#newer !== undefined) throw this.#newer;
    return new WorkspacesWork(work, (left) => this.#afterCommit(left));
  };

  /** A write that no caller asked for. */
  #transact<T>(run: (work: WorkspacesWork) => Promise<T>): Promise<T> {
    return this.#writer.transact((work) => run(work.part(this.#part)));
  }

  #afterCommit({ ready, work }: Left): void {
    this.#calls.call(ready);
    if (work) this.#inBackground(() => this.#settle());
  }

  /** Marked work until none is left. */
  async #settle(): Promise<void> {
    if (this.#newer !== undefined) return;
    while (!this.#closing && (await this.#transact((work) => bulkStep(work))));
    while (!this.#closing && (await this.#reseal()));
  }

  /** A newer program that changes the tables must not find what this one would go on writing. */
  async #lookForNewer(): Promise<void> {
    if (this.#newer !== undefined) return;
    this.#newer = await newerTables(
      this.#sql,
      'workspaces',
      (this.#options.migrations ?? workspacesMigrations).length,
    );
    if (this.#newer !== undefined) this.#options.onError(this.#newer, 'looking at the tables of workspaces');
  }

  /** One thing after the other; what fails is reported and tried again with the next sweep. */
  #inBackground(body: () => Promise<void>): void {
    if (this.#closing) return;
    this.#background = this.#background.then(body).catch((error: unknown) => {
      if (!this.#closing) this.#options.onError(error, 'background work on workspaces');
    });
  }
}
