/** Pages of tasks over all projects of an owner, from the narrowest index for the filters. */
import { prefixRange } from '../../kernel/engine.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import type { Reader } from '../../kernel/transaction.js';
import { type ListedTask, type Task, heldStatuses, taskStatuses } from '../../../../workspaces/model.js';
import { PageRoom } from '../../../../workspaces/lists/page-room.js';
import type { Listed, TaskListRequest } from '../../../../workspaces/port.js';
import { leaseEnd } from '../../../../workspaces/tasks/tasks.js';
import { buckets, indexPrefix, indexedText } from '../keys.js';
import { acrossShards, keyAfter, listRecords, scannedPerItem } from '../lists.js';
import { readLease, readRecord } from '../rows.js';
import { isHidden, sessionPath } from '../tree.js';

/**
 * In the order of ids, which is the order of creation. Without a status, the index has one range for each
 * status, and the ranges are merged. A page that reads many tasks that other filters drop ends early.
 */
export async function listTasksOf(
  reader: Reader,
  ownerId: string,
  request: TaskListRequest,
): Promise<Listed<ListedTask>> {
  const prefixes = prefixesOf(ownerId, request);
  const { limit } = request;
  const items: ListedTask[] = [];
  const room = new PageRoom(request);
  let last = request.after;
  let scanned = 0;
  const slices = new Slices();
  for (;;) {
    const after = last;
    const parts = prefixes.map((prefix) => idsAfter(reader, prefix, after, limit + 1));
    // A range that has more ids says nothing about those after its last one.
    const ends = parts.filter((ids) => ids.length > limit).map((ids) => ids.at(-1) ?? '');
    const end = ends.toSorted()[0];
    for (const id of parts.flat().toSorted()) {
      if (end !== undefined && id > end) break;
      if (room.isFull || scanned >= limit * scannedPerItem) return { items, next: last };
      scanned += 1;
      last = id;
      const task = readRecord(reader, 'task', id);
      const listed = task === undefined ? undefined : listedTask(reader, task, request);
      if (listed !== undefined) {
        items.push(listed);
        room.take(listed);
      }
      await slices.pause();
    }
    if (end === undefined) return { items, next: null };
  }
}

/** Tasks of every owner, for the operator: owner after owner. */
export function listAllTasks(
  readers: readonly Reader[],
  request: TaskListRequest,
): Promise<Listed<ListedTask>> {
  const prefix = Buffer.from('idx:task:owner:');
  return acrossShards(readers, request, async (reader, page) => {
    const listed: ListedTask[] = [];
    const { next } = await listRecords(reader, 'task', prefix, page, (task) => {
      const item = listedTask(reader, task, request);
      if (item !== undefined) listed.push(item);
      return item !== undefined;
    });
    return { items: listed, next };
  });
}

function prefixesOf(ownerId: string, { status, holder, project, label }: TaskListRequest): Buffer[] {
  if (holder !== undefined) return [indexPrefix('task', 'claimed', ownerId, indexedText(holder))];
  const statuses = status === undefined ? taskStatuses : [status];
  return statuses.map((each) => {
    if (label !== undefined) return indexPrefix('task', 'label', ownerId, label, each);
    return project === undefined
      ? indexPrefix('task', 'owner', ownerId, each)
      : indexPrefix('task', 'project', project, each);
  });
}

function idsAfter(reader: Reader, prefix: Buffer, after: string | null, limit: number): string[] {
  const { lt } = prefixRange(prefix);
  const start = after === null ? { gte: prefix } : { gt: keyAfter(prefix, after) };
  return Array.from(
    reader.range(buckets.indexes, { ...start, ...(lt !== undefined && { lt }), limit }),
    ({ value }) => value.toString(),
  );
}

/** Undefined if a filter drops the task, or if its project or workspace is deleted. */
function listedTask(
  reader: Reader,
  task: Task,
  { status, holder, project, label }: TaskListRequest,
): ListedTask | undefined {
  const isMeant =
    (status === undefined || task.status === status) &&
    (holder === undefined || (task.claimed_by === holder && heldStatuses.includes(task.status))) &&
    (label === undefined || task.labels.includes(label));
  const path = isMeant ? sessionPath(reader, task.session_id) : undefined;
  if (path === undefined || isHidden(path) || (project !== undefined && path.project.id !== project))
    return undefined;
  const lease = heldStatuses.includes(task.status) ? readLease(reader, task.id) : undefined;
  return { ...task, project_id: path.project.id, lease_expires_at: leaseEnd(lease) };
}
