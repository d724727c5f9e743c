/** The rows of the ready index, in the order of claiming. */
import { accepts } from '../../../../workspaces/tasks/claim-filter.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Transaction } from '../../kernel/transaction.js';
import { buckets, indexPrefix, labelsOfReadyKey } from '../keys.js';
import { type ReadyEntry, type ReadyLine, type ReadyPart, frontEntriesMax } from './ready-line.js';

/** Entries of the ready index that a claim reads in one transaction. */
const readKeysMax = 2_000;

/** The next entries of a line that its filter accepts, after a key or from the beginning. */
export function readReady(tx: Transaction, line: ReadyLine, after: string | undefined): ReadyPart {
  const within = prefixRange(indexPrefix('task', 'ready', line.projectId, line.line));
  const { gte: _beginning, ...behind } = within;
  const bounds = after === undefined ? within : { ...behind, gt: Buffer.from(after) };
  const entries: ReadyEntry[] = [];
  let read = 0;
  let last: string | undefined;
  for (const { key, value } of tx.range(buckets.indexes, { ...bounds, limit: readKeysMax })) {
    last = key.toString();
    read += 1;
    if (accepts(line.filter, labelsOfReadyKey(last))) entries.push({ key: last, taskId: value.toString() });
    if (entries.length === frontEntriesMax) return { entries, until: last };
  }
  return { entries, until: read === readKeysMax ? last : undefined };
}
