/** Workspaces in PostgreSQL: each verb of the port is one transaction; any number of servers share the tables. */
import type { TransactionSql } from 'postgres';
import { StoaError, messageOf } from '../../errors.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { Change } from '../../core/change.js';
import type { Limits } from '../../limits.js';
import type { Sealer } from '../../secrets/sealer.js';
import type { RecordStore } from '../../transfer/port.js';
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
import { ReadyWaiters } from '../../workspaces/ready-waiters.js';
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
import {
  type PostgresSql,
  boundStatements,
  closePostgres,
  listen,
  openPostgres,
  transaction,
} from './connection.js';
import { DatabaseClock } from './database-clock.js';
import { inSteps } from './in-steps.js';
import { newerTables } from './migrate.js';
import { workspacesRecords } from './transfer-workspaces.js';
import { bulkStep } from './workspaces-bulk.js';
import * as holders from './workspaces-holders.js';
import * as lists from './workspaces-lists.js';
import { WorkspacesOutbox } from './workspaces-outbox.js';
import { resealStep, startReseal } from './workspaces-reseal.js';
import { type TableMigration, migrateWorkspacesUp, workspacesMigrations } from './workspaces-schema.js';
import * as sessions from './workspaces-sessions.js';
import * as tasks from './workspaces-tasks.js';
import { Work, readyChannel } from './workspaces-work.js';

export interface PostgresWorkspacesOptions {
  limits: Limits;
  sealer: Sealer;
  /** Puts changes into the feed, right after the commit that they tell of. */
  announce: (changes: readonly Change[]) => Promise<void>;
  /** Faults that no caller waits for. */
  onError?: (error: unknown) => void;
  /** Milliseconds since 1970, instead of the database's clock; for tests. */
  clock?: () => number;
  sweepIntervalMs?: number;
  connectionsMax?: number;
  /** The versions of the tables, instead of this program's; for tests. */
  migrations?: readonly TableMigration[];
}

/** How the verbs come to a transaction. */
type Transact = <T>(body: (work: Work) => Promise<T>) => Promise<T>;

/** The verbs inside somebody else's transaction, and what is to be done when it has been committed. */
export interface JoinedWorkspaces {
  port: WorkspacesPort;
  settle(): Promise<void>;
}

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
  readonly #sql: PostgresSql;
  readonly #options: PostgresWorkspacesOptions;
  readonly #waiters: ReadyWaiters;
  readonly #onError: (error: unknown) => void;
  readonly #clock: DatabaseClock;
  #sweeping: NodeJS.Timeout | undefined;
  #background: Promise<void> = Promise.resolve();
  /** Who waits for a re-keying, told of each step. */
  readonly #resealed = new Set<(records: number) => void>();
  #closing = false;
  /** Why nothing is written any more. */
  #newer: StoaError | undefined;
  readonly #transact: Transact;
  readonly #outbox: WorkspacesOutbox;

  constructor(
    sql: PostgresSql,
    options: PostgresWorkspacesOptions,
    transact?: Transact,
    waiters?: ReadyWaiters,
  ) {
    this.#transact = transact ?? ((body) => this.#transactAlone(body));
    this.#sql = sql;
    this.#clock = new DatabaseClock(sql);
    this.#options = options;
    this.#waiters = waiters ?? new ReadyWaiters(options.limits.claimsWaitingMax);
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
      () => this.#waiters.wakeAll(),
    );
    const intervalMs = this.#options.sweepIntervalMs ?? defaultSweepMs;
    this.#sweeping = setInterval(() => this.#inBackground(() => this.sweep()), intervalMs);
    this.#sweeping.unref();
    this.#inBackground(() => this.#settle());
  }

  createWorkspace(
    owner: string,
    id: string,
    input: NewWorkspace,
    idempotency: Idempotency | null,
  ): Promise<Workspace> {
    return this.#transact((work) =>
      work.once(idempotency, () => holders.createWorkspace(work, owner, id, input)),
    );
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
  ): Promise<Workspace> {
    return this.#transact((work) => holders.updateWorkspace(work, owner, id, patch, ifVersion));
  }

  deleteWorkspace(owner: Owner, id: string, ifVersion: number | undefined): Promise<Workspace> {
    return this.#transact((work) => holders.deleteWorkspace(work, owner, id, ifVersion));
  }

  restoreWorkspace(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): Promise<Workspace> {
    return this.#transact((work) => holders.restoreWorkspace(work, owner, id, name, ifVersion));
  }

  purgeWorkspace(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    return this.#transact((work) => holders.purgeWorkspace(work, owner, id, ifVersion));
  }

  createProject(
    owner: Owner,
    workspaceId: string,
    id: string,
    input: NewProject,
    idempotency: Idempotency | null,
  ): Promise<Project> {
    return this.#transact((work) =>
      work.once(idempotency, () => holders.createProject(work, owner, workspaceId, id, input)),
    );
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
  ): Promise<Project> {
    return this.#transact((work) => holders.updateProject(work, owner, id, patch, ifVersion));
  }

  deleteProject(owner: Owner, id: string, ifVersion: number | undefined): Promise<Project> {
    return this.#transact((work) => holders.deleteProject(work, owner, id, ifVersion));
  }

  restoreProject(
    owner: Owner,
    id: string,
    name: string | undefined,
    ifVersion: number | undefined,
  ): Promise<Project> {
    return this.#transact((work) => holders.restoreProject(work, owner, id, name, ifVersion));
  }

  purgeProject(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    return this.#transact((work) => holders.purgeProject(work, owner, id, ifVersion));
  }

  createSession(
    owner: Owner,
    projectId: string,
    id: string,
    input: NewSession,
    idempotency: Idempotency | null,
  ): Promise<WorkSession> {
    return this.#transact((work) =>
      work.once(idempotency, () => sessions.createSession(work, owner, projectId, id, input)),
    );
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
  ): Promise<WorkSession> {
    return this.#transact((work) => sessions.updateSession(work, owner, id, patch, ifVersion));
  }

  deleteSession(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    return this.#transact((work) => sessions.deleteSession(work, owner, id, ifVersion));
  }

  createTask(
    owner: Owner,
    sessionId: string,
    id: string,
    input: NewTask,
    idempotency: Idempotency | null,
  ): Promise<Task> {
    return this.#transact((work) =>
      work.once(idempotency, () => tasks.createTask(work, owner, sessionId, id, input)),
    );
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

  updateTask(owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): Promise<Task> {
    return this.#transact((work) => tasks.updateTask(work, owner, id, patch, ifVersion));
  }

  deleteTask(owner: Owner, id: string, ifVersion: number | undefined): Promise<void> {
    return this.#transact((work) => tasks.deleteTask(work, owner, id, ifVersion));
  }

  async claimTask(owner: Owner, projectId: string, options: ClaimOptions): Promise<Claim | null> {
    const untilMs = performance.now() + options.waitMs;
    const claim = (): Promise<Claim | null> =>
      this.#transact((work) => tasks.claimTask(work, owner, projectId, options.holder, options.leaseSeconds));
    for (;;) {
      const leftMs = untilMs - performance.now();
      if (options.waitMs === 0 || leftMs <= 0) return claim();
      // The place in the line is taken before looking, so that no call is missed in between.
      const ticket = this.#waiters.enter(projectId);
      const claimed = await claim().catch((error: unknown) => {
        ticket.leave();
        // The task that it was woken for is for the next in the line.
        if (error instanceof StoaError && error.code === 'fenced') this.#waiters.wake(projectId);
        throw error;
      });
      if (claimed !== null) {
        // A call that came meanwhile is for the next in the line.
        if (!ticket.leave()) this.#waiters.wake(projectId);
        return claimed;
      }
      if (!(await ticket.wait(leftMs, options.signal))) return null;
      if (options.signal?.aborted === true) {
        this.#waiters.wake(projectId);
        return null;
      }
    }
  }

  heartbeatTask(owner: Owner, id: string, fence: number, by: Reporter = null): Promise<TaskLease> {
    return this.#transact((work) => tasks.heartbeatTask(work, owner, id, fence, by));
  }

  completeTask(owner: Owner, id: string, input: CompleteRequest, by: Reporter = null): Promise<Task> {
    return this.#transact((work) => tasks.completeTask(work, owner, id, input, by));
  }

  failTask(owner: Owner, id: string, input: FailRequest, by: Reporter = null): Promise<Task> {
    return this.#transact((work) => tasks.failTask(work, owner, id, input, by));
  }

  cancelTask(owner: Owner, id: string, reason: string | undefined): Promise<Task> {
    return this.#transact((work) => tasks.cancelTask(work, owner, id, reason));
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
    await inSteps(this.#sql, 'DELETE FROM workspaces.idempotency', {
      table: 'workspaces.idempotency',
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

  stopWaiting(): void {
    this.#waiters.close();
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#sweeping);
    this.#waiters.close();
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

  /** The same verbs inside a transaction that is open already. */
  within(tx: TransactionSql): JoinedWorkspaces {
    const left = { announces: false, work: false };
    const port = new PostgresWorkspaces(this.#sql, this.#options, async (body) => {
      if (this.#newer !== undefined) throw this.#newer;
      const work = new Work(tx, this.nowMs(), this.#options.limits);
      const result = await body(work);
      left.announces = (await work.finish()) || left.announces;
      left.work ||= work.leftWork;
      return result;
    });
    return { port, settle: () => this.#afterCommit(left.announces, left.work) };
  }

  guarded(check: () => void): WorkspacesPort {
    const transact: Transact = (body) =>
      this.#transactAlone(async (work) => {
        const result = await body(work);
        check();
        return result;
      });
    return new PostgresWorkspaces(this.#sql, this.#options, transact, this.#waiters);
  }

  async #transactAlone<T>(body: (work: Work) => Promise<T>): Promise<T> {
    if (this.#newer !== undefined) throw this.#newer;
    const { result, announces, leftWork } = await transaction(this.#sql, async (tx) => {
      const work = new Work(tx, this.nowMs(), this.#options.limits);
      const answer = await body(work);
      return { result: answer, announces: await work.finish(), leftWork: work.leftWork };
    });
    await this.#afterCommit(announces, leftWork);
    return result;
  }

  async #afterCommit(announces: boolean, leftWork: boolean): Promise<void> {
    if (announces) await this.#outbox.announce();
    if (leftWork) this.#inBackground(() => this.#settle());
  }

  /** Marked work until none is left, and whatever another server could not announce any more. */
  async #settle(): Promise<void> {
    while (!this.#closing && (await this.#transact((work) => bulkStep(work))));
    while (!this.#closing && (await this.#reseal()));
    await this.#outbox.announce();
  }

  #heard(payload: string): void {
    const [projectId = '', count = '1'] = payload.split(' ');
    this.#waiters.wake(projectId, Number(count));
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
