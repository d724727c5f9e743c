/** Pages of lists, read from the indexes of the directory home. */
import { keyBytesMax, prefixRange } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import { walk } from '../kernel/walk.js';
import { invalidCursor } from '../../../core/paging.js';
import type {
  Entity,
  Project,
  SessionStatus,
  Task,
  TaskStatus,
  WorkSession,
  Workspace,
} from '../../../workspaces/model.js';
import { PageRoom } from '../../../workspaces/lists/page-room.js';
import type { ListRequest, Listed, NamedListRequest, PageSize } from '../../../workspaces/port.js';
import { buckets, indexPrefix, indexedText, wholeLine } from './keys.js';
import { type Records, readRecord } from './rows.js';

/** Entries read for one page when a filter besides the index drops most of them. */
export const scannedPerItem = 50;

export function listWorkspacesOf(
  reader: Reader,
  owner: string,
  request: NamedListRequest,
): Promise<Listed<Workspace>> {
  return listNamed(reader, 'workspace', 'owner', owner, request, (workspace) => workspace.project_path);
}

export function listProjectsOf(
  reader: Reader,
  workspaceId: string,
  request: NamedListRequest,
): Promise<Listed<Project>> {
  return listNamed(reader, 'project', 'workspace', workspaceId, request, (project) => project.path);
}

export function listSessionsOf(
  reader: Reader,
  projectId: string,
  request: ListRequest<SessionStatus>,
): Promise<Listed<WorkSession>> {
  const prefix =
    request.status === undefined
      ? indexPrefix('session', 'project', projectId)
      : indexPrefix('session', 'status', projectId, request.status);
  return listRecords(reader, 'session', prefix, request, () => true);
}

export function listSessionTasksOf(
  reader: Reader,
  sessionId: string,
  request: ListRequest<TaskStatus>,
): Promise<Listed<Task>> {
  const prefix =
    request.status === undefined
      ? indexPrefix('task', 'session', sessionId)
      : indexPrefix('task', 'status', sessionId, request.status);
  return listRecords(reader, 'task', prefix, request, () => true);
}

/** In the order in which they would be claimed. */
export function listReadyOf(
  reader: Reader,
  projectId: string,
  after: string | null,
  limit: number,
): Promise<Listed<Task>> {
  return listRecords(
    reader,
    'task',
    indexPrefix('task', 'ready', projectId, wholeLine),
    { after, limit },
    (task) => readRecord(reader, 'session', task.session_id) !== undefined,
  );
}

/** Workspaces of every owner, for the operator. */
export function listAllWorkspaces(
  readers: readonly Reader[],
  request: NamedListRequest,
): Promise<Listed<Workspace>> {
  const prefix = Buffer.from(request.deleted ? 'idx:workspace:deleted:' : 'idx:workspace:owner:');
  return acrossShards(readers, request, (reader, page) =>
    listRecords(reader, 'workspace', prefix, page, (workspace) =>
      matches(workspace, workspace.project_path, request),
    ),
  );
}

/** A page over all shards, shard after shard. The cursor is the shard, and the cursor in it. */
export async function acrossShards<Item>(
  readers: readonly Reader[],
  request: PagePart,
  listIn: (reader: Reader, page: PagePart) => Promise<Listed<Item>>,
): Promise<Listed<Item>> {
  const [shardText, after] = splitOnce(request.after ?? '0 ');
  if (!/^\d{1,3}$/.test(shardText)) throw invalidCursor();
  const items: Item[] = [];
  for (let shard = Number(shardText); shard < readers.length; shard += 1) {
    const start = shard === Number(shardText) && after !== '' ? after : null;
    const limit = request.limit - items.length;
    const page = await listIn(readers[shard] as Reader, { after: start, limit, bytesMax: request.bytesMax });
    items.push(...page.items);
    if (page.next !== null) return { items, next: `${shard} ${page.next}` };
    if (items.length >= request.limit)
      return { items, next: shard + 1 < readers.length ? `${shard + 1} ` : null };
  }
  return { items, next: null };
}

/** Where a page begins, and how much it has. */
export interface PagePart extends PageSize {
  after: string | null;
}

function listNamed<Kind extends 'workspace' | 'project'>(
  reader: Reader,
  entity: Kind,
  parentType: string,
  parent: string,
  request: NamedListRequest,
  pathOf: (record: Records[Kind]) => string,
): Promise<Listed<Records[Kind]>> {
  return listRecords(reader, entity, namedPrefix(entity, parentType, parent, request), request, (record) =>
    matches(record, pathOf(record), request),
  );
}

/** The narrowest index for the filters. */
function namedPrefix(entity: Entity, parentType: string, parent: string, request: NamedListRequest): Buffer {
  if (request.deleted) return indexPrefix(entity, 'deleted', parent);
  if (request.name !== undefined) return indexPrefix(entity, 'name', parent, request.name);
  if (request.path !== undefined && request.path !== '')
    return indexPrefix(entity, 'path', parent, indexedText(request.path));
  if (request.status !== undefined) return indexPrefix(entity, 'status', parent, request.status);
  return indexPrefix(entity, parentType, parent);
}

function matches(
  record: Workspace | Project,
  path: string,
  { name, path: wanted, status }: NamedListRequest,
): boolean {
  return (
    (name === undefined || record.name === name) &&
    (wanted === undefined || path === wanted) &&
    (status === undefined || record.status === status)
  );
}

/** `after` is the part after the prefix in the last key of the page before. */
export async function listRecords<Kind extends Entity>(
  reader: Reader,
  entity: Kind,
  prefix: Buffer,
  page: PagePart,
  accepts: (record: Records[Kind]) => boolean,
): Promise<Listed<Records[Kind]>> {
  const { after, limit } = page;
  const items: Records[Kind][] = [];
  const room = new PageRoom(page);
  const { lt } = prefixRange(prefix);
  const start = after === null ? { gte: prefix } : { gt: keyAfter(prefix, after) };
  let last = after;
  let scanned = 0;
  let isMore = false;
  await walk(reader, buckets.indexes, { ...start, ...(lt !== undefined && { lt }) }, ({ key, value }) => {
    isMore = room.isFull || scanned >= limit * scannedPerItem;
    if (isMore) return false;
    scanned += 1;
    last = key.toString('utf8', prefix.length);
    const record = readRecord(reader, entity, value.toString());
    if (record !== undefined && accepts(record)) {
      items.push(record);
      room.take(record);
    }
    return true;
  });
  return { items, next: isMore ? last : null };
}

/** A cursor can be forged; no key is longer than the engines accept. */
export function keyAfter(prefix: Buffer, after: string): Buffer {
  const key = Buffer.concat([prefix, Buffer.from(after)]);
  if (key.length > keyBytesMax) throw invalidCursor();
  return key;
}

function splitOnce(text: string): [string, string] {
  const at = text.indexOf(' ');
  return [text.slice(0, at), text.slice(at + 1)];
}
