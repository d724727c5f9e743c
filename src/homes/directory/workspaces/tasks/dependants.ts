/** Updates the tasks that depend on a task that has ended: they become ready, or are cancelled. */
import type { Transaction } from '../../kernel/transaction.js';
import type { Project, Task, Workspace } from '../../../../workspaces/model.js';
import type { ReadyWaiters } from '../../../../workspaces/tasks/ready-waiters.js';
import { blockedForever, cancelTask, endsWithoutResult } from '../../../../workspaces/tasks/tasks.js';
import { type BulkWork, markBulk } from '../bulk/bulk.js';
import { isReady, taskRecords } from '../indexes.js';
import { indexKey } from '../keys.js';
import type { ReadyLines } from './ready-line.js';
import { dropIndex, readRecord } from '../rows.js';
import { changeHeld, dependants, homeOf, placedTask, readHeld } from './rows.js';
import { countOpenTasks, sessionPath } from '../tree.js';
import { taskBlocked, taskReady } from '../../../../workspaces/changes.js';

/** `completed` makes dependants ready; `never` cancels them. */
export type DependencyOutcome = 'completed' | 'never';

export interface DependantsContext {
  waiters: ReadyWaiters;
  lines: ReadyLines;
  bulk: BulkWork;
  /** Rows in one step; the rest follows in further ones. */
  rowsMax: number;
}

/** Updates as many dependants as fit into one step, and the dependants of cancelled ones. */
export function settleDependants(
  tx: Transaction,
  context: DependantsContext,
  taskId: string,
  outcome: DependencyOutcome,
): void {
  const open = [{ taskId, outcome }];
  let left = context.rowsMax;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const ids = left === 0 ? [] : dependants(tx, next.taskId, left);
    for (const id of ids) {
      dropIndex(tx, indexKey('task', 'dependency', next.taskId, id));
      const cancelled = settleOne(tx, context, id, next.taskId, next.outcome);
      if (cancelled) open.push({ taskId: id, outcome: 'never' });
    }
    // A full step may have left some dependants. The next step follows right after this transaction.
    if (ids.length === left) continueLater(tx, context, next.taskId, next.outcome);
    left -= ids.length;
  }
}

/** The next step after a full one. */
export function dependantsStep(tx: Transaction, context: DependantsContext, value: string): string | null {
  const [outcome, taskId] = value.split(' ');
  if (taskId === undefined) return null;
  const task = readRecord(tx, 'task', taskId);
  // A task that was retried meanwhile can still be completed.
  if (outcome === 'never' && task !== undefined && !endsWithoutResult(task)) return null;
  settleDependants(tx, context, taskId, outcome === 'completed' ? 'completed' : 'never');
  return dependants(tx, taskId, 1).length === 0 ? null : value;
}

function continueLater(
  tx: Transaction,
  context: DependantsContext,
  taskId: string,
  outcome: DependencyOutcome,
): void {
  if (dependants(tx, taskId, 1).length === 0) return;
  markBulk(tx, 'dependants', taskId, `${outcome} ${taskId}`);
  context.bulk.kickAfter(tx);
}

/** Later transactions see the task at once; waiting claims are woken when it is on disk. */
export function becameReady(
  tx: Transaction,
  { lines, waiters }: Pick<DependantsContext, 'lines' | 'waiters'>,
  task: Task,
  projectId: string,
): void {
  lines.added(projectId, task);
  tx.onDurable(() => waiters.wake(projectId, task.labels));
}

/** True if the dependant was cancelled. */
function settleOne(
  tx: Transaction,
  context: DependantsContext,
  id: string,
  dependency: string,
  outcome: DependencyOutcome,
): boolean {
  const task = readRecord(tx, 'task', id);
  if (task === undefined || task.status !== 'pending') return false;
  // While its session is being purged, the purge removes it.
  const path = sessionPath(tx, task.session_id);
  if (path === undefined) return false;
  if (outcome === 'never') {
    cancelBlocked(tx, path, task, dependency);
    return true;
  }
  const place = homeOf(path);
  const placed = placedTask(tx, task, place);
  if (isReady(placed)) {
    taskRecords.move(tx, { ...placed, waitsFor: [dependency] }, placed);
    tx.change(taskReady(task, place));
    becameReady(tx, context, task, path.project.id);
  }
  return false;
}

function cancelBlocked(
  tx: Transaction,
  { project, workspace }: { project: Project; workspace: Workspace },
  task: Task,
  dependency: string,
): void {
  const held = readHeld(tx, task);
  const after = cancelTask(held, blockedForever(dependency), tx.nowMs);
  if (after === undefined) return;
  const place = homeOf({ project, workspace });
  changeHeld(tx, held, after, place);
  countOpenTasks(tx, { workspace, project, sessionId: task.session_id }, -1);
  tx.change(taskBlocked(after.task, place, dependency));
}
