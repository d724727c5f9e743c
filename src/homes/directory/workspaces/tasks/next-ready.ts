/** Finds the next ready task of a project: from the front of its line in memory, then from the index. */
import type { Limits } from '../../../../core/settings/limits.js';
import type { Transaction } from '../../kernel/transaction.js';
import { isReady } from '../indexes.js';
import { readyKey } from '../keys.js';
import { dropIndex, readRecord } from '../rows.js';
import type { ProjectPath, TaskPath } from '../tree.js';
import type { ReadyEntry, ReadyLine, ReadyLines } from './ready-line.js';
import { readReady } from './ready-rows.js';
import { homeOf, placedTask } from './rows.js';

/** `again`: the entries read so far had none, and there are more. */
export function nextReady(
  tx: Transaction,
  lines: ReadyLines,
  { workspace, project }: ProjectPath,
  line: ReadyLine,
  limits: Limits,
): TaskPath | 'none' | 'again' {
  // If the transaction is undone, the entry that is taken below is put back.
  tx.onUndone(() => lines.forget(project.id));
  for (let cleared = 0; cleared < limits.workspaceStepRowsMax; cleared += 1) {
    const entry = lines.take(line, tx.nowMs) ?? lookForMore(tx, lines, line);
    if (typeof entry === 'string') return entry;
    const task = readRecord(tx, 'task', entry.taskId);
    const session = task === undefined ? undefined : readRecord(tx, 'session', task.session_id);
    if (
      task !== undefined &&
      session !== undefined &&
      isReady(placedTask(tx, task, homeOf({ workspace, project }))) &&
      readyKey(task, project.id, line.line) === entry.key
    )
      return { workspace, project, session, task };
    // It was taken, moved or cancelled since it was seen, or its session was deleted and the purge has not
    // come to it yet.
    dropIndex(tx, entry.key);
  }
  return 'again';
}

/** The next entry that the filter accepts. */
function lookForMore(tx: Transaction, lines: ReadyLines, line: ReadyLine): ReadyEntry | 'none' | 'again' {
  const known = lines.after(line, tx.nowMs);
  const more = known === undefined ? undefined : readReady(tx, line, known);
  if (more !== undefined && (more.entries.length > 0 || more.until !== undefined)) {
    lines.found(line, known, more, tx.nowMs);
    return lines.take(line, tx.nowMs) ?? 'again';
  }
  // The index has nothing after the cached position. The cache may be wrong, so read from the beginning.
  const first = readReady(tx, line, undefined);
  if (known !== undefined && first.entries.length === 0) return 'none';
  lines.found(line, undefined, first, tx.nowMs);
  return lines.take(line, tx.nowMs) ?? (first.until === undefined ? 'none' : 'again');
}
