/** A task, its lease, its timer, its index entries and its dependencies, written and removed together. */
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Task, TaskLease } from '../../../workspaces/model.js';
import { type HeldTask, satisfies } from '../../../workspaces/tasks.js';
import { buckets, indexKey, indexPrefix, taskIndexes } from './keys.js';
import {
  type StoredLease,
  dropIndex,
  putIndex,
  readLease,
  readRecord,
  removeLease,
  removeRecord,
  writeLease,
  writeTask,
} from './rows.js';

export const leaseTimer = 'workspaces.lease';

/** The part of a task's place that does not change. */
export interface TaskHome {
  projectId: string;
  ownerId: string;
}

/** A task with its lease as it is stored. */
export interface StoredTask extends HeldTask {
  lease: StoredLease | undefined;
}

export function readHeld(reader: Reader, task: Task): StoredTask {
  return { task, lease: readLease(reader, task.id) };
}

/** The tasks that it still waits for. Only a pending task that was never claimed can have any. */
export function unfinishedDependencies(reader: Reader, task: Task): string[] {
  return task.depends_on.filter((id) => !satisfies(readRecord(reader, 'task', id)));
}

export function isReady(reader: Reader, task: Task): boolean {
  return (
    task.status === 'pending' &&
    (task.depends_on.length === 0 || unfinishedDependencies(reader, task).length === 0)
  );
}

/** Writes a new task; it waits at each task that is unfinished. */
export function addTask(tx: Transaction, task: Task, home: TaskHome): boolean {
  const waitsFor = unfinishedDependencies(tx, task);
  for (const id of waitsFor) putIndex(tx, indexKey('task', 'dependency', id, task.id), task.id);
  writeTask(tx, undefined, task, { ...home, ready: waitsFor.length === 0 });
  return waitsFor.length === 0;
}

/** Writes what became of a task and its lease, and moves the timer where the holder changed. */
export function changeHeld(tx: Transaction, before: StoredTask, after: HeldTask, home: TaskHome): void {
  const wasReady = isReady(tx, before.task);
  writeTask(tx, { task: before.task, place: { ...home, ready: wasReady } }, after.task, {
    ...home,
    ready: isReady(tx, after.task),
  });
  if (before.task.status === 'pending' && !wasReady && after.task.status !== 'pending')
    forgetDependencies(tx, after.task);
  if (after.lease !== undefined) storeLease(tx, after.task.id, before.lease, after.lease);
}

/** Only a new holder and a lost one touch the timer; a heartbeat leaves it, and it looks again when it rings. */
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

/** Removes a task and all that belongs to it. Counters are the caller's affair. */
export function removeTask(tx: Transaction, task: Task, home: TaskHome): void {
  const lease = readLease(tx, task.id);
  if (lease !== undefined) {
    if (lease.holder !== null)
      tx.unschedule({ atMs: lease.timerAtMs, kind: leaseTimer, reference: Buffer.from(task.id) });
    removeLease(tx, task.id);
  }
  forgetDependencies(tx, task);
  // The ready entry goes whether or not it is there: deleting what is missing is no error.
  removeRecord(tx, 'task', task.id, taskIndexes(task, { ...home, ready: true }));
}

export function dependants(reader: Reader, taskId: string, limit: number): string[] {
  return Array.from(
    reader.range(buckets.indexes, { ...prefixRange(indexPrefix('task', 'dependency', taskId)), limit }),
    ({ value }) => value.toString(),
  );
}

function forgetDependencies(tx: Transaction, task: Task): void {
  for (const id of task.depends_on) dropIndex(tx, indexKey('task', 'dependency', id, task.id));
}
