/** Tasks in the data directory: verbs over a transaction. */
import { prefixRange } from '../../kernel/engine.js';
import { type Outage, extendedByOutages } from '../../../../core/outages.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import {
  type Claim,
  type Task,
  type TaskLease,
  type WorkSession,
  heldStatuses,
  isOpen,
} from '../../../../workspaces/model.js';
import type { ClaimOutcome, Owner, Reporter } from '../../../../workspaces/port.js';
import type { NewTask, TaskPatch } from '../../../../workspaces/schemas.js';
import { activeNow, afterTask, checkTakesTasks } from '../../../../workspaces/rules/sessions.js';
import type { ClaimFilter } from '../../../../workspaces/tasks/claim-filter.js';
import { expireQuestion } from '../../../../workspaces/tasks/questions.js';
import { checkDependency, retryTask } from '../../../../workspaces/tasks/retry.js';
import * as rules from '../../../../workspaces/tasks/tasks.js';
import { checkVersion, notFound } from '../../../../workspaces/rules/workspaces.js';
import { type DependantsContext, becameReady, settleDependants } from './dependants.js';
import { markBulk } from '../bulk/bulk.js';
import { isReady, sessionRecords } from '../indexes.js';
import { buckets, indexPrefix, indexedText } from '../keys.js';
import { nextReady } from './next-ready.js';
import { type ReadyLines, readyLine } from './ready-line.js';
import { readLease, readRecord, writeLease } from '../rows.js';
import { wakeSession } from '../sessions.js';
import {
  type StoredTask,
  addTask,
  changeHeld,
  homeOf,
  leaseTimer,
  placedTask,
  readHeld,
  removeTask,
  storeLease,
  timerOfTask,
} from './rows.js';
import {
  type SessionPath,
  type TaskPath,
  countOpenTasks,
  findProject,
  findSession,
  findTask,
  sessionPath,
} from '../tree.js';
import { type TaskEvent, taskChanged } from '../../../../workspaces/changes.js';

export interface TaskVerbsOptions {
  limits: Limits;
  context: DependantsContext;
  outages: () => readonly Outage[];
}

/** The claims that a lost agent had, beyond the first step. */
interface ReleaseMark {
  readonly ownerId: string;
  readonly holder: string;
  /** Later claims stay: the agent is back. */
  readonly untilMs: number;
  /** The last task that a step has looked at. */
  readonly after: string;
}

export class TaskVerbs {
  readonly #limits: Limits;
  readonly #context: DependantsContext;
  readonly #lines: ReadyLines;
  readonly #outages: () => readonly Outage[];

  constructor(options: TaskVerbsOptions) {
    this.#limits = options.limits;
    this.#context = options.context;
    this.#lines = options.context.lines;
    this.#outages = options.outages;
  }

  create(tx: Transaction, owner: Owner, sessionId: string, id: string, input: NewTask): Task {
    const path = findSession(tx, owner, sessionId);
    checkTakesTasks(path.session);
    const task = rules.newTask(id, sessionId, input, this.#limits, tx.nowMs);
    for (const dependency of task.depends_on) this.#checkDependency(tx, path, dependency);
    const ready = addTask(tx, task, homeOf(path));
    countOpenTasks(tx, { ...path, sessionId }, 1);
    this.#showActivity(tx, path.session);
    tx.change(taskChanged('created', task, homeOf(path)));
    if (ready) becameReady(tx, this.#context, task, path.project.id);
    return task;
  }

  update(tx: Transaction, owner: Owner, id: string, patch: TaskPatch, ifVersion: number | undefined): Task {
    const path = findTask(tx, owner, id);
    checkVersion(path.task, ifVersion);
    const before = readHeld(tx, path.task);
    const task = rules.changeTask(path.task, patch, tx.nowMs);
    changeHeld(tx, before, { task, lease: before.lease }, homeOf(path));
    if (isReady(placedTask(tx, task, homeOf(path)))) becameReady(tx, this.#context, task, path.project.id);
    tx.change(taskChanged('updated', task, homeOf(path)));
    return task;
  }

  delete(tx: Transaction, owner: Owner, id: string, ifVersion: number | undefined): void {
    const path = findTask(tx, owner, id);
    checkVersion(path.task, ifVersion);
    removeTask(tx, path.task, homeOf(path));
    if (isOpen(path.task.status)) countOpenTasks(tx, { ...path, sessionId: path.session.id }, -1);
    if (path.task.status !== 'completed') settleDependants(tx, this.#context, id, 'never');
    tx.change(taskChanged('deleted', path.task, homeOf(path)));
  }

  /**
   * Gives the first ready task that the filter accepts to the holder. The cost does not depend on the number
   * of waiting tasks, except for tasks before it that `without` or `skills` exclude.
   */
  claim(
    tx: Transaction,
    owner: Owner,
    projectId: string,
    holder: string,
    leaseSeconds: number,
    filter: ClaimFilter,
  ): ClaimOutcome {
    const path = findProject(tx, owner, projectId);
    const found = nextReady(tx, this.#lines, path, readyLine(projectId, filter), this.#limits);
    return typeof found === 'string' ? found : this.#give(tx, found, holder, leaseSeconds);
  }

  heartbeat(tx: Transaction, owner: Owner, id: string, fence: number, by: Reporter): TaskLease {
    const path = findTask(tx, owner, id);
    const held = readHeld(tx, path.task);
    const lease = rules.renewLease(held, fence, tx.nowMs, this.#endOf, by);
    storeLease(tx, id, held.lease, lease);
    noteHeld(tx, lease);
    this.#showActivity(tx, path.session);
    return lease;
  }

  decide(tx: Transaction, owner: Owner, id: string, rule: rules.TaskRule, event?: TaskEvent): Task {
    const path = findTask(tx, owner, id);
    const held = readHeld(tx, path.task);
    return this.#end(tx, path, held, rule(held, tx.nowMs, this.#endOf), event);
  }

  retry(tx: Transaction, owner: Owner, id: string, reason: string | undefined): Task {
    const path = findTask(tx, owner, id);
    const held = readHeld(tx, path.task);
    const after = retryTask(held, reason, tx.nowMs);
    checkTakesTasks(path.session);
    for (const dependency of after.task.depends_on) {
      const found = readRecord(tx, 'task', dependency);
      if (found !== undefined) checkDependency(dependency, found);
    }
    this.#showActivity(tx, path.session);
    return this.#end(tx, path, held, after, 'retried');
  }

  /** The timer fires when the lease of the claim would have ended. The handler sees later heartbeats. */
  onLeaseTimer(tx: Transaction, reference: Buffer): void {
    const id = reference.toString();
    const lease = readLease(tx, id);
    const task = readRecord(tx, 'task', id);
    if (lease === undefined || lease.holder === null || task === undefined) return;
    if (!heldStatuses.includes(task.status)) return;
    const endsAtMs = this.#endOf(lease);
    if (endsAtMs > tx.nowMs) {
      tx.schedule({ atMs: endsAtMs, kind: leaseTimer, reference });
      writeLease(tx, id, { ...lease, timerAtMs: endsAtMs });
      return;
    }
    const path = sessionPath(tx, task.session_id);
    if (path !== undefined)
      this.#end(
        tx,
        { ...path, task },
        { task, lease },
        rules.loseHolder({ task, lease }, rules.lapsedReason(lease), tx.nowMs),
      );
  }

  /**
   * The start time of a task is reached, or its question expires. A timer of an earlier start time or
   * question finds nothing to do.
   */
  onTaskTimer(tx: Transaction, reference: Buffer): void {
    const task = readRecord(tx, 'task', reference.toString());
    const path = task === undefined ? undefined : sessionPath(tx, task.session_id);
    if (task === undefined || path === undefined || (timerOfTask(task)?.atMs ?? Infinity) > tx.nowMs) return;
    const before = readHeld(tx, task);
    if (task.status === 'input_required') {
      this.#end(tx, { ...path, task }, before, expireQuestion(before, tx.nowMs));
      return;
    }
    const after = { task: rules.startTimeReached(task, tx.nowMs), lease: before.lease };
    changeHeld(tx, before, after, homeOf(path));
    if (!isReady(placedTask(tx, after.task, homeOf(path)))) return;
    tx.change(taskChanged('ready', after.task, homeOf(path)));
    becameReady(tx, this.#context, after.task, path.project.id);
  }

  /** Releases the tasks that an agent had claimed, under its id or its name, because its presence is lost. */
  releaseClaims(tx: Transaction, ownerId: string, holders: readonly string[]): void {
    for (const holder of holders) {
      const first: ReleaseMark = { ownerId, holder, untilMs: tx.nowMs, after: '' };
      const rest = this.releaseStep(tx, JSON.stringify(first));
      if (rest === null) continue;
      markBulk(tx, 'release', indexedText(JSON.stringify([ownerId, holder])), rest);
      this.#context.bulk.kickAfter(tx);
    }
  }

  /** One step of a release: looks at no more than `workspaceStepRowsMax` claims. */
  releaseStep(tx: Transaction, value: string): string | null {
    // Only releaseClaims makes such marks.
    const mark = JSON.parse(value) as ReleaseMark;
    const { ownerId, holder, untilMs, after } = mark;
    const { ids, last } = this.#claimedBy(tx, ownerId, holder, after);
    for (const id of ids) {
      const task = readRecord(tx, 'task', id);
      const path = task === undefined ? undefined : sessionPath(tx, task.session_id);
      if (task === undefined || path === undefined || !heldStatuses.includes(task.status)) continue;
      if (Date.parse(task.started_at ?? '') > untilMs) continue;
      const held = readHeld(tx, task);
      this.#end(
        tx,
        { ...path, task },
        held,
        rules.loseHolder(held, rules.presenceLostReason(holder), tx.nowMs),
      );
    }
    return last === null ? null : JSON.stringify({ ...mark, after: last });
  }

  /** One step: renews no more than `workspaceStepRowsMax` claims. Answers the last of them, null at the end. */
  renewClaims(tx: Transaction, ownerId: string, holder: string, after: string): string | null {
    const { ids, last } = this.#claimedBy(tx, ownerId, holder, after);
    for (const id of ids) {
      const lease = readLease(tx, id);
      if (lease !== undefined && lease.holder === holder && this.#endOf(lease) > tx.nowMs)
        storeLease(tx, id, lease, rules.renewed(lease, tx.nowMs));
    }
    return last;
  }

  /** The tasks of one step that are claimed under this name. `last` is null if there are no more. */
  #claimedBy(
    reader: Reader,
    ownerId: string,
    holder: string,
    after: string,
  ): { ids: string[]; last: string | null } {
    const { workspaceStepRowsMax: rowsMax } = this.#limits;
    const prefix = indexPrefix('task', 'claimed', ownerId, indexedText(holder));
    const bounds = { ...prefixRange(prefix), gte: Buffer.concat([prefix, Buffer.from(`${after}\0`)]) };
    const rows = reader.range(buckets.indexes, { ...bounds, limit: rowsMax });
    const ids = Array.from(rows, ({ value }) => value.toString());
    return { ids, last: ids.length < rowsMax ? null : (ids.at(-1) ?? null) };
  }

  /** Whether a task is claimed under one of these names. */
  holdsClaims(reader: Reader, ownerId: string, holders: readonly string[]): boolean {
    return holders.some((holder) => {
      const prefix = indexPrefix('task', 'claimed', ownerId, indexedText(holder));
      return Array.from(reader.range(buckets.indexes, { ...prefixRange(prefix), limit: 1 })).length > 0;
    });
  }

  readonly #endOf = (lease: TaskLease): number =>
    extendedByOutages(lease.renewedAtMs, lease.expiresAtMs, this.#outages());

  #give(tx: Transaction, path: TaskPath, holder: string, leaseSeconds: number): Claim {
    const before = readHeld(tx, path.task);
    const after = rules.claimTask(before, holder, leaseSeconds, tx.nowMs);
    changeHeld(tx, before, after, homeOf(path));
    noteHeld(tx, after.lease);
    this.#showActivity(tx, wakeSession(tx, path, path.session));
    tx.change(taskChanged('claimed', after.task, homeOf(path), { holder, fence: after.lease.fence }));
    return { task: after.task, lease: rules.claimLease(after.lease) };
  }

  /**
   * Writes a change of a claimed task, such as its end or return, and updates everything that depends on it.
   * Without `after`, that was done before.
   */
  #end(
    tx: Transaction,
    path: TaskPath,
    before: StoredTask,
    after: rules.HeldTask | undefined,
    event?: TaskEvent,
  ): Task {
    if (after === undefined) return before.task;
    const { task } = after;
    changeHeld(tx, before, after, homeOf(path));
    const open = Number(isOpen(task.status)) - Number(isOpen(before.task.status));
    if (open !== 0) countOpenTasks(tx, { ...path, sessionId: path.session.id }, open);
    if (task.status === 'completed' || task.status === 'failed')
      sessionRecords.rewrite(tx, afterTask(path.session, task, tx.nowMs));
    const kind = event ?? rules.eventOf(before.task, task);
    tx.change(taskChanged(kind, task, homeOf(path), rules.factsOf(before.task)));
    if (isReady(placedTask(tx, task, homeOf(path)))) becameReady(tx, this.#context, task, path.project.id);
    if (task.status === 'completed') settleDependants(tx, this.#context, task.id, 'completed');
    if (rules.endsWithoutResult(task)) settleDependants(tx, this.#context, task.id, 'never');
    return task;
  }

  #checkDependency(tx: Transaction, path: SessionPath, id: string): void {
    const dependency = readRecord(tx, 'task', id);
    const session = dependency === undefined ? undefined : readRecord(tx, 'session', dependency.session_id);
    if (dependency === undefined || session?.project_id !== path.project.id) throw notFound('task', id);
    checkDependency(id, dependency);
  }

  /**
   * Updates the session's last activity, but not with every heartbeat, because the record is much larger than
   * a lease.
   */
  #showActivity(tx: Transaction, session: WorkSession): void {
    const quietMs = tx.nowMs - Date.parse(session.last_active);
    if (quietMs < this.#limits.workSessionActivitySeconds * 1_000) return;
    sessionRecords.rewrite(tx, activeNow(session, tx.nowMs));
  }
}

/** The presence of the agent that holds the task must not end before the lease of the task. */
function noteHeld(tx: Transaction, { holder, expiresAtMs }: TaskLease): void {
  if (holder === tx.agent) tx.heldUntilMs = Math.max(tx.heldUntilMs, expiresAtMs);
}
