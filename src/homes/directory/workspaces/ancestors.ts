/** The records above tasks, which every verb of a task needs and few change: decoded anew only when their bytes are others. */
import type { ReadAbove } from './tree.js';
import { bucketOf, recordKey } from './keys.js';
import { type Records, decodeRecord } from './rows.js';

/** Far more than are worked on at a time; when it is full it starts anew. */
const recordsMax = 5_000;

/**
 * What comes out is shared: nobody may change it or hand it on to callers. Whether it still holds is
 * decided by the bytes that the reader sees, so it is as good in a transaction as for a plain read.
 */
export function rememberingAbove(): ReadAbove {
  const known = new Map<string, { bytes: Buffer; record: Records[keyof Records] }>();
  return <Kind extends keyof Records>(
    ...[reader, entity, id]: Parameters<ReadAbove<Kind>>
  ): Records[Kind] | undefined => {
    const bytes = reader.get(bucketOf[entity], recordKey(entity, id));
    if (bytes === undefined) return undefined;
    const before = known.get(id);
    // An id says by its prefix of what kind it is, so what is known under it is of this kind.
    if (before !== undefined && (before.bytes === bytes || before.bytes.equals(bytes)))
      return before.record as Records[Kind];
    if (known.size >= recordsMax) known.clear();
    const record = decodeRecord(entity, bytes);
    known.set(id, { bytes, record });
    return record;
  };
}
