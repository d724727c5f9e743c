/** The shard of each entry of workspaces: the shard of the owner of its workspace. */
import { userKey } from '../../../identity/user-key.js';
import type { Placement } from '../kernel/shards/reshard.js';
import type { Reader } from '../kernel/transaction.js';
import { bulkMark } from './bulk/bulk.js';
import { buckets, entityOf, idOfKey, unescapePart } from './keys.js';
import type { PurgeMark } from './bulk/purge.js';
import { readRecord } from './rows.js';

/** The key is `entity:id`. */
const byRecordKey: Placement = ({ key }, source) => placeOf(source, idOfKey(key));
/** The value of every index entry is the id of its record. */
const byIndexedId: Placement = ({ value }, source) => placeOf(source, value.toString());

export const workspacesPlacements: Readonly<Record<string, Placement>> = {
  [buckets.workspaces]: byRecordKey,
  [buckets.projects]: byRecordKey,
  [buckets.sessions]: byRecordKey,
  [buckets.tasks]: byRecordKey,
  [buckets.leases]: byRecordKey,
  [buckets.indexes]: byIndexedId,
  [buckets.metadata]: ({ key }, source) => {
    const [, kind, ...rest] = key.toString().split(':').map(unescapePart);
    const id = rest.at(-1) ?? '';
    if (kind === 'open_tasks') return placeOf(source, id);
    // The version of the layout, and the marks of a re-keying, are in every shard. So are marks whose owner is not
    // known, of claims to release and of dependants of a deleted task: the other shards find nothing to do.
    const owner = kind === 'work' ? ownerOf(source, id) : undefined;
    return owner === undefined ? 'every' : userKey(owner);
  },
};

/** The ids of workspaces are looked up without their user. */
export function workspaceDirectoryIds(family: string, key: Buffer): readonly string[] {
  const isRecord =
    family === buckets.workspaces ||
    family === buckets.projects ||
    family === buckets.sessions ||
    family === buckets.tasks;
  return isRecord ? [idOfKey(key)] : [];
}

/**
 * An entry whose workspace is gone, and is not being purged, stays in shard 00, where `stoa doctor` finds it.
 */
function placeOf(source: Reader, id: string): Buffer | 'root' {
  const owner = ownerOf(source, id);
  return owner === undefined ? 'root' : userKey(owner);
}

function ownerOf(source: Reader, id: string): string | undefined {
  const entity = entityOf(id);
  if (entity === undefined) return undefined;
  const record = readRecord(source, entity, id);
  if (record === undefined) return purgedOwner(source, id);
  if ('owner_id' in record) return record.owner_id;
  if ('workspace_id' in record) return ownerOf(source, record.workspace_id);
  return ownerOf(source, 'project_id' in record ? record.project_id : record.session_id);
}

/** The owner, while a purge is running. */
function purgedOwner(source: Reader, id: string): string | undefined {
  const mark = bulkMark(source, 'purge', id);
  // Only startPurge writes such marks.
  return mark === undefined ? undefined : (JSON.parse(mark) as PurgeMark).ownerId;
}
