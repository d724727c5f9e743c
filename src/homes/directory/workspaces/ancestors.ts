/**
 * The parents of tasks, which every operation on a task needs and few change. They are decoded again only
 * when their bytes change.
 */
import type { ReadAbove } from './tree.js';
import { bucketOf, recordKey } from './keys.js';
import { type Records, decodeRecord } from './rows.js';

/** Far more than are used at a time. When it is full it is cleared. */
const recordsMax = 5_000;

/**
 * The result is shared, so nobody may change it or return it to callers. It is valid while the reader sees
 * the same bytes, so it works in a transaction as well as for a plain read.
 */
export function rememberingAbove(): ReadAbove {
  const known = new Map<string, { bytes: Buffer; record: Records[keyof Records] }>();
  return <Kind extends keyof Records>(
    ...[reader, entity, id]: Parameters<ReadAbove<Kind>>
  ): Records[Kind] | undefined => {
    const bytes = reader.get(bucketOf[entity], recordKey(entity, id));
    if (bytes === undefined) return undefined;
    const before = known.get(id);
    // The prefix of an id says its kind, so the cached record has this kind.
    if (before !== undefined && (before.bytes === bytes || before.bytes.equals(bytes)))
      return before.record as Records[Kind];
    if (known.size >= recordsMax) known.clear();
    const record = decodeRecord(entity, bytes);
    known.set(id, { bytes, record });
    return record;
  };
}
