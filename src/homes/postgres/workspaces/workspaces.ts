/** Workspaces in PostgreSQL: each write verb of the port is a step; any number of servers share the tables. */
import { type Caller, operatorCaller } from '../../../core/caller.js';
import type { Change } from '../../../core/change.js';
import { writeOne } from '../../../core/write.js';
import { type StoaError, messageOf } from '../../../core/errors.js';
import { migrateAnswers } from '../kept-answers.js';
import { PostgresStep } from '../step.js';
import type { Work } from '../work.js';
import { PostgresWriter } from '../writer.js';
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
import { ReadyWaiters } from '../../../workspaces/ready-waiters.js';
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
import { type PostgresSql, boundStatements, closePostgres, listen, openPostgres } from '../connection.js';
import { DatabaseClock } from '../database-clock.js';
import { documentsOf } from '../datastore/counts.js';
import { inSteps } from '../in-steps.js';
import { newerTables } from '../migrate.js';
import { workspacesRecords } from '../transfer/workspaces.js';
import { bulkStep } from './bulk.js';
import * as holders from './holders.js';
import * as lists from './lists.js';
import { WorkspacesOutbox } from './outbox.js';
import { resealStep, startReseal } from './reseal.js';
import { type TableMigration, migrateWorkspacesUp, workspacesMigrations } from './schema.js';
import * as sessions from './sessions.js';
import * as tasks from './tasks.js';
import { type Left, WorkspacesWork, readyChannel } from './work.js';

export interface PostgresWorkspacesOptions {
  limits: Limits;
  sealer: Sealer;
  /** Puts changes into the feed, right after the commit that they tell of. */
  announce: (changes: readonly Change[]) => Promise<void>;
  /** Refuses a caller whose lease has passed on. */
  checkFence: (caller: Caller) => void;
  /** Whether the documents of the data store are in this database. */
  hasDocuments?: boolean;
  /** Faults that no caller waits for. */
  onError?: (error: unknown) => void;
  /** Milliseconds since 1970, instead of the database's clock; for tests. */
  clock?: () => number;
  sweepIntervalMs?: number;
  connectionsMax?: number;
  /** The versions of the tables, instead of this program's; for tests. */
  migrations?: readonly TableMigration[];
}

/** Who writes what no caller asked for: lapsed leases, bulk work, imports. */
const background = operatorCaller();
const defaultSweepMs = 1_000;

/** Opens the database, makes the tables where they are missing, and listens for ready tasks. */
export async function openPostgresWorkspaces(
  url: URL,
  options: PostgresWorkspacesOptions,
): Promise<PostgresWorkspaces> {
  const sql = await openPostgres(url, {
    limits: options.limits,
    ...(options.connectionsMax !== undefined && { connectionsMax: options.connectionsMax }),
  });
  try {
    await migrateAnswers(sql);
    await migrateWorkspacesUp(sql, options.limits, options.migrations);
    boundStatements(sql, options.limits);
    const port = new PostgresWorkspaces(sql, options);
    await port.start();
    return port;
  } catch (error) {
    await closePostgres(sql, 1);
    throw error;
  }
}

export class PostgresWorkspaces implements WorkspacesPort {
  readonly waiters: ReadyWaiters;
  /** Runs the steps of this port. */
  readonly writer: PostgresWriter;
  readonly #sql: PostgresSql;
  readonly #options: PostgresWorkspacesOptions;
  readonly #onError: (error: unknown) => void;
  readonly #clock: DatabaseClock;
  #sweeping: NodeJS.Timeout | undefined;
  #background: Promise<void> = Promise.resolve();
  /** Who waits for a re-keying, told of each step. */
  readonly #resealed = new Set<(records: number) => void>();
  #closing = false;
  /** Why nothing is written any more. */
  #newer: StoaError | undefined;
  readonly #outbox: WorkspacesOutbox;

  constructor(sql: PostgresSql, options: PostgresWorkspacesOptions) {
    const { limits, checkFence, hasDocuments } = options;
    this.writer = new PostgresWriter({
      sql,
      limits,
      checkFence,
      nowMs: () => this.nowMs(),
      documentsOf: hasDocuments === true ? documentsOf : undefined,
    });
    this.#sql = sql;
    this.#clock = new DatabaseClock(sql);
    this.#options = options;
    this.waiters = new ReadyWaiters(limits.claimsWaitingMax);
    this.#onError = options.onError ?? ((error) => process.emitWarning(`workspaces: ${messageOf(error)}`));
    this.#outbox = new WorkspacesOutbox({ sql, announce: options.announce, onError: this.#onError });
  }

  async start(): Promise<void> {
    await this.#clock.keepRight();
    // A connection that was lost may have missed a call: after it is back, everybody looks again.
    await listen(
      this.#sql,
      readyChannel,
      (payload) => this.#heard(payload),
      () => this.waiters.wakeAll(),
    );
    const intervalMs = this.#options.sweepIntervalMs ?? defaultSweepMs;
    this.#sweeping = setInterval(() => this.#inBackground(() => this.sweep()), intervalMs);
    this.#sweeping.unref();
    this.#inBackground(() => this.#settle());
  }

  createWorkspace(owner: string, id: string, input: NewWorkspace): PostgresStep<Workspace> {
    return this.#step((work) => holders.createWorkspace(work, owner, id, input));
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
    await holders.findWorkspace(this.#sql, owner, workspaceId);
    return lists.listProjects(this.#sql, workspaceId, request);
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
    await holders.findProject(this.#sql, owner, projectId);
    return lists.listSessions(this.#sql, projectId, request);
  }

  async activeSession(owner: Owner, projectId: string): Promise<WorkSession | null> {
    await holders.findProject(this.#sql, owner, projectId);
    return sessions.activeSession(this.#sql, projectId);
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
    await sessions.findSession(this.#sql, owner, sessionId);
    return lists.listTasks(this.#sql, sessionId, request);
  }

  async listReady(
    owner: Owner,
    projectId: string,
    after: string | null,
    limit: number,
  ): Promise<Listed<Task>> {
    await holders.findProject(this.#sql, owner, projectId);
    return lists.listReady(this.#sql, projectId, after, limit);
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

  /** Takes back what an agent had claimed, under its id or its name: its presence is lost. */
  releaseClaims(ownerId: string, names: readonly string[]): void {
    this.#inBackground(() => this.#transact((work) => tasks.releaseClaims(work, ownerId, names)));
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

  /** Does what is due: lapsed leases, sessions past their limits, bulk work, changes that were not announced. */
  async sweep(): Promise<void> {
    await this.#lookForNewer();
    if (this.#newer !== undefined) return;
    await this.#clock.keepRight();
    const stepMax = this.#options.limits.sweepStepMax;
    while (!this.#closing && (await this.#transact((work) => tasks.returnLapsed(work, stepMax))) === stepMax);
    while (
      !this.#closing &&
      (await this.#transact((work) => sessions.endDueSessions(work, stepMax))) === stepMax
    );
    await inSteps(this.#sql, 'DELETE FROM kept_answers', {
      table: 'kept_answers',
      where: 'expires_at <= $1',
      parameters: [new Date(this.nowMs()).toISOString()],
      rowsMax: stepMax,
      isOver: () => this.#closing,
    });
    await this.#settle();
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
    await this.#outbox.settled();
    await closePostgres(this.#sql, 5);
  }

  /** Every kind of record for exports and imports. */
  records(): [type: string, store: RecordStore][] {
    return workspacesRecords({
      sql: this.#sql,
      sealer: this.#options.sealer,
      transact: (body) => this.#transact(body),
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
    return writeOne(this.writer, { caller: background }, this.#step(run));
  }

  async #afterCommit(left: Left): Promise<void> {
    if (left.changes) await this.#outbox.announce();
    if (left.work) this.#inBackground(() => this.#settle());
  }

  /** Marked work until none is left, and whatever another server could not announce any more. */
  async #settle(): Promise<void> {
    while (!this.#closing && (await this.#transact((work) => bulkStep(work))));
    while (!this.#closing && (await this.#reseal()));
    await this.#outbox.announce();
  }

  #heard(payload: string): void {
    const [projectId = '', count = '1'] = payload.split(' ');
    this.waiters.wake(projectId, Number(count));
  }

  /** The time by which leases end. */
  nowMs(): number {
    return this.#options.clock?.() ?? this.#clock.nowMs();
  }

  /** A newer program that changes the tables must not find what this one would go on writing. */
  async #lookForNewer(): Promise<void> {
    if (this.#newer !== undefined) return;
    this.#newer = await newerTables(
      this.#sql,
      'workspaces',
      (this.#options.migrations ?? workspacesMigrations).length,
    );
    if (this.#newer !== undefined) this.#onError(this.#newer);
  }

  /** One thing after the other; what fails is reported and tried again with the next sweep. */
  #inBackground(body: () => Promise<void>): void {
    if (this.#closing) return;
    this.#background = this.#background.then(body).catch((error: unknown) => {
      if (!this.#closing) this.#onError(error);
    });
  }
}
