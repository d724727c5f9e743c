/**
 * Removes everything below a purged workspace, project or deleted session, in bounded steps that survive a
 * restart.
 */
import { prefixRange } from '../../kernel/engine.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { type Entity, isOpen } from '../../../../workspaces/model.js';
import { type DependantsContext, settleDependants } from '../tasks/dependants.js';
import { markBulk } from './bulk.js';
import { projectRecords, sessionRecords } from '../indexes.js';
import { buckets, indexPrefix } from '../keys.js';
import { forgetOpenTasks, readRecord } from '../rows.js';
import { removeTask } from '../tasks/rows.js';

/** Each removed task updates this many dependants in the step. Further steps update the rest. */
const dependantsEachMax = 10;

/**
 * What is being removed. The record itself is already gone. The mark stays until everything below it is gone
 * too.
 */
export interface PurgeMark {
  entity: Exclude<Entity, 'task'>;
  id: string;
  ownerId: string;
  /** The project of the tasks below; empty for a workspace, which has many. */
  projectId: string;
}

export function startPurge(tx: Transaction, mark: PurgeMark): void {
  markBulk(tx, 'purge', mark.id, JSON.stringify(mark));
}

/** One step: removes at most `rowsMax` records. */
export function purgeStep(tx: Transaction, context: DependantsContext, value: string): string | null {
  // Only startPurge makes such marks.
  const mark = JSON.parse(value) as PurgeMark;
  return removeBelow(tx, context, mark) < context.rowsMax ? null : value;
}

/** Returns the number of removed records. Fewer than `rowsMax` means that nothing is left. */
function removeBelow(tx: Transaction, context: DependantsContext, mark: PurgeMark): number {
  if (mark.entity === 'project') return removeSessions(tx, mark, context.rowsMax);
  if (mark.entity === 'workspace') return removeProjects(tx, mark, context.rowsMax);
  // The project still exists: tasks of its other sessions may depend on the removed ones.
  return removeTasks(tx, mark, mark.id, context.rowsMax, (id) =>
    settleDependants(tx, { ...context, rowsMax: dependantsEachMax }, id, 'never'),
  );
}

function removeProjects(tx: Transaction, mark: PurgeMark, rowsMax: number): number {
  let removed = 0;
  for (const id of [
    ...idsBelow(tx, 'project', 'workspace', mark.id, rowsMax),
    ...idsBelow(tx, 'project', 'deleted', mark.id, rowsMax),
  ]) {
    if (removed >= rowsMax) return removed;
    removed += removeSessions(tx, { ...mark, id, projectId: id }, rowsMax - removed);
    if (removed >= rowsMax) return removed;
    const project = readRecord(tx, 'project', id);
    if (project !== undefined) projectRecords.remove(tx, project);
    removed += 1;
  }
  return removed;
}

function removeSessions(tx: Transaction, mark: PurgeMark, rowsMax: number): number {
  let removed = 0;
  for (const id of idsBelow(tx, 'session', 'project', mark.id, rowsMax)) {
    removed += removeTasks(tx, mark, id, rowsMax - removed);
    if (removed >= rowsMax) return removed;
    const session = readRecord(tx, 'session', id);
    if (session !== undefined) sessionRecords.remove(tx, session);
    removed += 1;
    if (removed >= rowsMax) return removed;
  }
  forgetOpenTasks(tx, 'project', mark.id);
  return removed;
}

function removeTasks(
  tx: Transaction,
  mark: PurgeMark,
  sessionId: string,
  rowsMax: number,
  onUnfinished: (id: string) => void = () => undefined,
): number {
  let removed = 0;
  for (const id of idsBelow(tx, 'task', 'session', sessionId, rowsMax)) {
    const task = readRecord(tx, 'task', id);
    if (task !== undefined) removeTask(tx, task, { projectId: mark.projectId, ownerId: mark.ownerId });
    if (task !== undefined && isOpen(task.status)) onUnfinished(id);
    removed += 1;
  }
  if (removed < rowsMax) forgetOpenTasks(tx, 'session', sessionId);
  return removed;
}

function idsBelow(reader: Reader, entity: Entity, type: string, parent: string, limit: number): string[] {
  return Array.from(
    reader.range(buckets.indexes, { ...prefixRange(indexPrefix(entity, type, parent)), limit }),
    ({ value }) => value.toString(),
  );
}
