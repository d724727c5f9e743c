/** Tasks in the embedded store: verbs over a transaction. */
import { StoaError } from '../../errors.js';
import { prefixRange } from '../../kernel/engine.js';
import { type Outage, extendedByOutages } from '../../kernel/outages.js';
import type { Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../limits.js';
import { type Claim, type Task, type TaskLease, type WorkSession, isOpen } from '../../workspaces/model.js';
import type { Owner } from '../../workspaces/port.js';
import type { ReadyWaiters } from '../../workspaces/ready-waiters.js';
import type { CompleteRequest, FailRequest, NewTask, TaskPatch } from '../../workspaces/schemas.js';
import { activeNow, afterTask, checkTakesTasks } from '../../workspaces/sessions.js';
import * as rules from '../../workspaces/tasks.js';
import { checkVersion, notFound } from '../../workspaces/workspaces.js';
import type { BulkWork } from './workspaces-bulk.js';
import { settleDependants } from './workspaces-dependants.js';
import { buckets, indexPrefix, indexedText, readyKey } from './workspaces-keys.js';
import type { ReadyHeads } from './workspaces-ready-heads.js';
import { dropIndex, readLease, readRecord, rewriteSession, writeLease } from './workspaces-rows.js';
import { wakeSession } from './workspaces-sessions.js';
import { addTask, changeHeld, leaseTimer, readHeld, removeTask, storeLease } from './workspaces-task-rows.js';
import { type ProjectPath, type SessionPath, type TaskPath, countOpenTasks, findProject, findSession, findTask, sessionPath } from './workspaces-tree.js';

/** `again`: nothing was given yet, but there may be more behind what was cleared away. */
export type ClaimOutcome = Claim | 'none' | 'again';

export interface TaskVerbsOptions {
  limits: Limits;
  waiters: ReadyWaiters;
  heads: ReadyHeads;
  bulk: BulkWork;
  outages: () => readonly Outage[];
}

export class TaskVerbs {
  readonly #limits: Limits;
  readonly #waiters: ReadyWaiters;
  readonly #heads: ReadyHeads;
  readonly #bulk: BulkWork;
  readonly #outages: () => readonly Outage[];

  constructor(options: TaskVerbsOptions) {
    this.#limits = options.limits;
    this.#waiters = options.waiters;
    this.#heads = options.heads;
    this.#bulk = options.bulk;
    this.#outages = options.outages;
  }

  create(tx: Transaction, owner: Owner, sessionId: string, id: string, input: NewTask): Task {
    const path = findSession(tx, owner, sessionId);
    checkTakesTasks(path.session);
    const task = rules.newTask(id, sessionId, input, this.#limits, tx.nowMs);
    for (const dependency of task.depends_on) this.#checkDependency(tx, path, dependency);
    const ready = addTask(tx, task, homeOf(path));
    countOpenTasks(tx, { ...path, sessionId }, 1);
    this.#showActivity(tx, path);
    announce(tx, 'created', task, path);
    if (ready) this.#becameReady(task, path.project.id);
    return task;
  }

  update(tx: Transaction, owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): Task {
    const path = findTask(tx, owner, id);
    checkVersion(path.task, ifVersion);
    const before = readHeld(tx, path.task);
    const task = rules.changeTask(path.task, patch, tx.nowMs);
    changeHeld(tx, before, { task, lease: before.lease }, homeOf(path));
    this.#heads.added(path.project.id, readyKey(task, path.project.id));
    announce(tx, 'updated', task, path);
    return task;
  }

  delete(tx: Transaction, owner: Owner, id: string, ifVersion: number | undefined): void {
    const path = findTask(tx, owner, id);
    checkVersion(path.task, ifVersion);
    removeTask(tx, path.task, homeOf(path));
    if (isOpen(path.task.status)) countOpenTasks(tx, { ...path, sessionId: path.session.id }, -1);
    if (path.task.status !== 'completed') this.#settle(tx, id, 'never');
    announce(tx, 'deleted', path.task, path);
  }

  /** The first ready task of the project goes to the holder. The cost does not grow with what waits. */
  claim(tx: Transaction, owner: Owner, projectId: string, holder: string, leaseSeconds: number): ClaimOutcome {
    const path = findProject(tx, owner, projectId);
    const after = this.#heads.after(projectId, tx.nowMs);
    const outcome = after === undefined ? 'none' : this.#claimAfter(tx, path, holder, leaseSeconds, after);
    // Nothing behind the head that is believed in: only a look from the beginning tells that there is nothing at all.
    return outcome === 'none' ? this.#claimAfter(tx, path, holder, leaseSeconds, undefined) : outcome;
  }

  #claimAfter(tx: Transaction, { project, workspace }: ProjectPath, holder: string, leaseSeconds: number, after: string | undefined): ClaimOutcome {
    const rowsMax = this.#limits.workspaceStepRowsMax;
    const { gte, lt } = prefixRange(indexPrefix('task', 'ready', project.id));
    const start = after === undefined ? { ...(gte !== undefined && { gte }) } : { gt: Buffer.from(after) };
    let seen = 0;
    for (const { key, value } of tx.range(buckets.indexes, { ...start, ...(lt !== undefined && { lt }), limit: rowsMax })) {
      seen += 1;
      const task = readRecord(tx, 'task', value.toString());
      const session = task === undefined ? undefined : readRecord(tx, 'session', task.session_id);
      if (task === undefined || session === undefined) {
        // Its session was deleted and the purge has not come to it yet.
        dropIndex(tx, key.toString());
        continue;
      }
      this.#heads.taken(project.id, key.toString(), after === undefined, tx.nowMs);
      return this.#give(tx, { workspace, project, session, task }, holder, leaseSeconds);
    }
    return seen === rowsMax ? 'again' : 'none';
  }

  heartbeat(tx: Transaction, owner: Owner, id: string, fence: number): TaskLease {
    const path = findTask(tx, owner, id);
    const lease = rules.renewLease(readHeld(tx, path.task), fence, tx.nowMs, this.#endOf);
    storeLease(tx, id, lease);
    this.#showActivity(tx, path);
    return lease;
  }

  complete(tx: Transaction, owner: Owner, id: string, input: CompleteRequest): Task {
    const path = findTask(tx, owner, id);
    const held = readHeld(tx, path.task);
    return this.#end(tx, path, held, rules.completeTask(held, input, tx.nowMs, this.#endOf));
  }

  fail(tx: Transaction, owner: Owner, id: string, input: FailRequest): Task {
    const path = findTask(tx, owner, id);
    const held = readHeld(tx, path.task);
    return this.#end(tx, path, held, rules.failTask(held, input, tx.nowMs, this.#endOf));
  }

  cancel(tx: Transaction, owner: Owner, id: string, reason: string | undefined): Task {
    const path = findTask(tx, owner, id);
    const held = readHeld(tx, path.task);
    return this.#end(tx, path, held, rules.cancelTask(held, reason, tx.nowMs));
  }

  /** The timer rings when the lease of the claim would have ended; heartbeats since then are seen here. */
  leaseTimerRang(tx: Transaction, reference: Buffer): void {
    const id = reference.toString();
    const lease = readLease(tx, id);
    const task = readRecord(tx, 'task', id);
    if (lease === undefined || lease.holder === null || task === undefined || task.status !== 'running') return;
    const endsAtMs = this.#endOf(lease);
    if (endsAtMs > tx.nowMs) {
      tx.schedule({ atMs: endsAtMs, kind: leaseTimer, reference });
      writeLease(tx, id, { ...lease, timerAtMs: endsAtMs });
      return;
    }
    const path = sessionPath(tx, task.session_id);
    if (path !== undefined) this.#end(tx, { ...path, task }, { task, lease }, rules.returnTask({ task, lease }, rules.lapsedReason(lease), tx.nowMs));
  }

  /** Takes back what an agent had claimed, under its id or its name: its presence is lost. What is more than one step holds lapses by itself. */
  releaseClaims(tx: Transaction, ownerId: string, holders: readonly string[]): void {
    for (const holder of holders) {
      const prefix = indexPrefix('task', 'claimed', ownerId, indexedText(holder));
      const ids = Array.from(tx.range(buckets.indexes, { ...prefixRange(prefix), limit: this.#limits.workspaceStepRowsMax }), ({ value }) => value.toString());
      for (const id of ids) {
        const task = readRecord(tx, 'task', id);
        const path = task === undefined ? undefined : sessionPath(tx, task.session_id);
        if (task === undefined || path === undefined || task.status !== 'running') continue;
        const held = readHeld(tx, task);
        this.#end(tx, { ...path, task }, held, rules.returnTask(held, rules.presenceLostReason(holder), tx.nowMs));
      }
    }
  }

  readonly #endOf = (lease: TaskLease): number => extendedByOutages(lease.renewedAtMs, lease.expiresAtMs, this.#outages());

  #give(tx: Transaction, path: TaskPath, holder: string, leaseSeconds: number): Claim {
    const before = readHeld(tx, path.task);
    const after = rules.claimTask(before, holder, leaseSeconds, tx.nowMs);
    changeHeld(tx, before, after, homeOf(path));
    this.#showActivity(tx, { ...path, session: wakeSession(tx, path, path.session) });
    announce(tx, 'claimed', after.task, path, { holder, fence: after.lease.fence });
    return { task: after.task, lease: rules.claimLease(after.lease) };
  }

  /** Writes an end or a return, with all that follows from it. Without `after` it was done before. */
  #end(tx: Transaction, path: TaskPath, before: rules.HeldTask, after: rules.HeldTask | undefined): Task {
    if (after === undefined) return before.task;
    const { task } = after;
    changeHeld(tx, before, after, homeOf(path));
    if (!isOpen(task.status)) countOpenTasks(tx, { ...path, sessionId: path.session.id }, -1);
    if (task.status === 'completed' || task.status === 'failed') rewriteSession(tx, afterTask(path.session, task, tx.nowMs));
    const facts: Record<string, string> = { from: before.task.status };
    if (before.task.claimed_by !== null) facts.holder = before.task.claimed_by;
    announce(tx, task.status === 'pending' ? 'returned' : task.status, task, path, facts);
    if (task.status === 'pending') this.#becameReady(task, path.project.id);
    if (task.status === 'completed') this.#settle(tx, task.id, 'completed');
    if (rules.endsWithoutResult(task)) this.#settle(tx, task.id, 'never');
    return task;
  }

  #becameReady(task: Task, projectId: string): void {
    this.#heads.added(projectId, readyKey(task, projectId));
    this.#waiters.wake(projectId);
  }

  #settle(tx: Transaction, taskId: string, outcome: 'completed' | 'never'): void {
    settleDependants(tx, { waiters: this.#waiters, heads: this.#heads, bulk: this.#bulk, rowsMax: this.#limits.workspaceStepRowsMax }, taskId, outcome);
  }

  #checkDependency(tx: Transaction, path: SessionPath, id: string): void {
    const dependency = readRecord(tx, 'task', id);
    const session = dependency === undefined ? undefined : readRecord(tx, 'session', dependency.session_id);
    if (dependency === undefined || session?.project_id !== path.project.id) throw notFound('task', id);
    if (rules.endsWithoutResult(dependency)) {
      throw new StoaError('conflict', `${id} is ${dependency.status}, so nothing can depend on it.`, { details: { depends_on: id, status: dependency.status } });
    }
  }

  /** Moves the session's clock, but not with every heartbeat: the record is large beside a lease. */
  #showActivity(tx: Transaction, { session }: { session: WorkSession }): void {
    const quietMs = tx.nowMs - Date.parse(session.last_active);
    if (quietMs < this.#limits.workSessionActivitySeconds * 1_000) return;
    rewriteSession(tx, activeNow(session, tx.nowMs));
  }
}

function homeOf({ project, workspace }: SessionPath): { projectId: string; ownerId: string } {
  return { projectId: project.id, ownerId: workspace.owner_id };
}

function announce(tx: Transaction, event: string, task: Task, path: SessionPath, facts: Record<string, string | number> = {}): void {
  tx.change({
    domain: 'workspaces',
    kind: `task.${event}`,
    id: task.id,
    user: path.workspace.owner_id,
    version: event === 'deleted' ? null : task.version,
    facts: { project: path.project.id, session: path.session.id, ...facts },
  });
}
