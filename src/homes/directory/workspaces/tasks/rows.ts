/** A task, its lease, its timer, its index entries and its dependencies, written and removed together. */
import { taskEntry, taskFacts } from '../../../../find/entries.js';
import { hasSameText } from '../../../../find/text/task-text.js';
import { userKey } from '../../../../identity/user-key.js';
import { markEntry, putChange } from '../../find/filing/marks.js';
import { markKey } from '../../find/rows.js';
import type { EntrySource } from '../../find/sources.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Reader, Timer, Transaction } from '../../kernel/transaction.js';
import type { Task, TaskLease } from '../../../../workspaces/model.js';
import { type HeldTask, satisfies } from '../../../../workspaces/tasks/tasks.js';
import { bulkMark } from '../bulk/bulk.js';
import { type PlacedTask, type TaskHome, isReady, taskRecords } from '../indexes.js';
import type { ProjectPath } from '../tree.js';
import { buckets, indexPrefix } from '../keys.js';
import { type StoredLease, readLease, readRecord, removeLease, writeLease } from '../rows.js';

export const leaseTimer = 'workspaces.lease';
/** Fires at the start time of a pending task, and when an open question expires. */
export const taskTimer = 'workspaces.task';

const waitsForNothing: readonly string[] = [];

/** A task with its stored lease. */
export interface StoredTask extends HeldTask {
  lease: StoredLease | undefined;
}

export function readHeld(reader: Reader, task: Task): StoredTask {
  return { task, lease: readLease(reader, task.id) };
}

/** A task in its place as the reader sees it. */
export function placedTask(reader: Reader, task: Task, { projectId, ownerId }: TaskHome): PlacedTask {
  // Only a pending task that was never claimed can wait for others.
  const waits = task.status === 'pending' && task.depends_on.length > 0;
  const waitsFor = waits ? task.depends_on.filter((id) => isAwaited(reader, id)) : waitsForNothing;
  return { task, projectId, ownerId, waitsFor };
}

function isAwaited(reader: Reader, id: string): boolean {
  const dependency = readRecord(reader, 'task', id);
  if (dependency !== undefined) return !satisfies(dependency);
  // A missing task was completed, or deleted. If it was deleted unfinished, a mark names it until all tasks that depend
  // on it are cancelled. The mark begins with the outcome.
  return bulkMark(reader, 'dependants', id)?.startsWith('never') === true;
}

/**
 * Writes a new task. Returns whether it is ready; otherwise it waits for each unfinished task that it depends
 * on.
 */
export function addTask(tx: Transaction, task: Task, home: TaskHome): boolean {
  const placed = placedTask(tx, task, home);
  taskRecords.put(tx, undefined, placed);
  markTask(tx, task, home);
  moveTimer(tx, undefined, task);
  return isReady(placed);
}

/** Writes the changed task and its lease, and changes the timer if the holder changed. */
export function changeHeld(tx: Transaction, before: StoredTask, after: HeldTask, home: TaskHome): void {
  taskRecords.put(tx, placedTask(tx, before.task, home), placedTask(tx, after.task, home));
  if (hasSameText(before.task, after.task)) {
    const facts = taskFacts(home.projectId, after.task);
    putChange(tx, markKey(userKey(home.ownerId), facts.name), facts);
  } else markTask(tx, after.task, home);
  moveTimer(tx, before.task, after.task);
  if (after.lease !== undefined) storeLease(tx, after.task.id, before.lease, after.lease);
}

/**
 * Only a new holder and a lost holder change the timer. A heartbeat does not; the handler of the timer checks
 * the lease again.
 */
export function storeLease(
  tx: Transaction,
  taskId: string,
  stored: StoredLease | undefined,
  lease: TaskLease,
): void {
  const timer = (atMs: number): { atMs: number; kind: string; reference: Buffer } => ({
    atMs,
    kind: leaseTimer,
    reference: Buffer.from(taskId),
  });
  const hasTimer = stored !== undefined && stored.holder !== null;
  if (lease.holder === null && hasTimer) tx.unschedule(timer(stored.timerAtMs));
  if (lease.holder !== null && !hasTimer) tx.schedule(timer(lease.expiresAtMs));
  const timerAtMs = hasTimer && lease.holder !== null ? stored.timerAtMs : lease.expiresAtMs;
  writeLease(tx, taskId, { ...lease, timerAtMs });
}

/** The timer that a task must have by itself, without its lease. */
export function timerOfTask(task: Task): Timer | undefined {
  const at = dueTime(task);
  return at === null ? undefined : { atMs: Date.parse(at), kind: taskTimer, reference: Buffer.from(task.id) };
}

function dueTime({ status, run_at, question_expires_at }: Task): string | null {
  if (status === 'pending') return run_at;
  return status === 'input_required' ? question_expires_at : null;
}

function moveTimer(tx: Transaction, before: Task | undefined, after: Task | undefined): void {
  const had = before === undefined ? undefined : timerOfTask(before);
  const has = after === undefined ? undefined : timerOfTask(after);
  if (had?.atMs === has?.atMs) return;
  if (had !== undefined) tx.unschedule(had);
  if (has !== undefined) tx.schedule(has);
}

/** Removes a task and everything that belongs to it. The caller updates the counters. */
export function removeTask(tx: Transaction, task: Task, home: TaskHome): void {
  const lease = readLease(tx, task.id);
  if (lease !== undefined) {
    if (lease.holder !== null)
      tx.unschedule({ atMs: lease.timerAtMs, kind: leaseTimer, reference: Buffer.from(task.id) });
    removeLease(tx, task.id);
  }
  moveTimer(tx, task, undefined);
  // Whether it is ready is not looked up: the rows of both cases are deleted, and deleting a missing row does
  // nothing.
  const waiting = { task, ...home, waitsFor: task.depends_on };
  taskRecords.remove(tx, waiting);
  markTask(tx, task, home);
  if (task.depends_on.length > 0) taskRecords.move(tx, { ...waiting, waitsFor: waitsForNothing }, undefined);
}

/** For the search index. */
function markTask(tx: Transaction, { id }: Task, { projectId, ownerId }: TaskHome): void {
  markEntry(tx, userKey(ownerId), { kind: 'tasks', collection: projectId, id });
}

/** The entry of a task in the search index; undefined if it does not exist. */
export const taskSource: EntrySource = (reader, _partition, { collection, id }) => {
  const task = readRecord(reader, 'task', id);
  return task === undefined ? undefined : taskEntry(collection, task);
};

export function dependants(reader: Reader, taskId: string, limit: number): string[] {
  return Array.from(
    reader.range(buckets.indexes, { ...prefixRange(indexPrefix('task', 'dependency', taskId)), limit }),
    ({ value }) => value.toString(),
  );
}

/** Where the rows of a task are filed. */
export function homeOf({ project, workspace }: ProjectPath): TaskHome {
  return { projectId: project.id, ownerId: workspace.owner_id };
}
