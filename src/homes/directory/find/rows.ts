/**
 * The rows of the search index in a data directory. A partition holds the documents and tasks of one user, in the
 * user's shard, or the messages of all rooms, in shard 00.
 */
import type { EntryName, FindKind } from '../../../find/model.js';
import { findKinds } from '../../../find/model.js';
import { ByteReader, ByteWriter } from '../../../find/segments/bytes.js';

export const findFamilies = {
  /**
   * Partition ‖ kind ‖ collection ‖ 0 ‖ id → stamp: this thing was written since it was filed. For a message, id ‖ 0 ‖
   * room: the oldest are filed first, so that a segment has the messages of one time. New facts follow the stamp if
   * the words are the same.
   */
  marks: 'find/marks',
  /** Partition ‖ segment → its state. */
  segments: 'find/segments',
  /** Partition ‖ segment → the names of its entries, and what stays with their words. */
  catalogs: 'find/catalogs',
  /** Partition ‖ segment → the facts of its entries that may change without their words. */
  facts: 'find/facts',
  /** Partition ‖ segment → one bit for each entry that was written again or deleted. */
  dead: 'find/dead',
  /** Partition ‖ segment ‖ first term ‖ 0 ‖ first place → terms with their lists. */
  blocks: 'find/blocks',
  /** Document → its words, if the document is in a store beside the directory. */
  entries: 'find/entries',
  /** User ‖ note → what a write of the store beside the directory may change, until its end is recorded. */
  storeWrites: 'find/store-writes',
  /** Partition ‖ scope → how far filing everything again has come. That of all users is with the messages. */
  reindex: 'find/reindex',
} as const;

/** As long as the key of a user. */
export const partitionBytes = 32;
/** The partition of messages. No user has this key: it is not a hash. */
export const messagesPartition = Buffer.alloc(partitionBytes, 0xff);
const segmentBytes = 6;
export const segmentKeyBytes = partitionBytes + segmentBytes;

export function markKey(partition: Buffer, { kind, collection, id }: EntryName): Buffer {
  const name = kind === 'messages' ? `${id}\0${collection}` : `${collection}\0${id}`;
  return Buffer.concat([partition, Buffer.of(findKinds.indexOf(kind)), Buffer.from(name)]);
}

/** The name in the key of a mark; undefined for a key that is damaged. */
export function markedName(key: Buffer): EntryName | undefined {
  const kind: FindKind | undefined = findKinds[key[partitionBytes] ?? -1];
  const end = key.indexOf(0, partitionBytes + 1);
  if (kind === undefined || end < 0) return undefined;
  const [first, second] = [key.toString('utf8', partitionBytes + 1, end), key.toString('utf8', end + 1)];
  return kind === 'messages'
    ? { kind, collection: second, id: first }
    : { kind, collection: first, id: second };
}

export function segmentKey(partition: Buffer, segment: number): Buffer {
  const key = Buffer.allocUnsafe(segmentKeyBytes);
  partition.copy(key);
  key.writeUIntBE(segment, partitionBytes, segmentBytes);
  return key;
}

export function blockKey(partition: Buffer, segment: number, first: string, from: number): Buffer {
  const place = Buffer.allocUnsafe(4);
  place.writeUInt32BE(from);
  return Buffer.concat([segmentKey(partition, segment), Buffer.from(`${first}\0`), place]);
}

export function firstTermOf(key: Buffer): string {
  return key.toString('utf8', segmentKeyBytes, key.length - 5);
}

/** `whole`: searched. `partial`: being written by a merge, or being removed; it is not searched. */
export interface SegmentRow {
  readonly segment: number;
  readonly state: 'whole' | 'partial';
  readonly entries: number;
  readonly dead: number;
  /** Since when it has dead entries; null if it has none. */
  readonly deadSinceMs: number | null;
  /** When the next of its entries expires; null for never. */
  readonly nextExpiryMs: number | null;
  /** The time of its newest entry. */
  readonly newestMs: number;
  /** How often its facts were written again. */
  readonly revision: number;
}

export function encodeSegment(row: Omit<SegmentRow, 'segment'>): Buffer {
  const writer = new ByteWriter();
  writer.number(row.state === 'whole' ? 1 : 0);
  writer.number(row.entries);
  writer.number(row.dead);
  writer.number(row.deadSinceMs ?? 0);
  writer.number(row.nextExpiryMs ?? 0);
  writer.number(row.newestMs);
  writer.number(row.revision);
  return writer.take();
}

export function decodeSegment(key: Buffer, value: Buffer): SegmentRow {
  const reader = new ByteReader(value);
  return {
    segment: key.readUIntBE(partitionBytes, segmentBytes),
    state: reader.number() === 1 ? 'whole' : 'partial',
    entries: reader.number(),
    dead: reader.number(),
    deadSinceMs: reader.number() || null,
    nextExpiryMs: reader.number() || null,
    newestMs: reader.number(),
    revision: reader.number(),
  };
}
