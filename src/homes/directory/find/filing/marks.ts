/**
 * Marks: what was written since it was filed. A write only leaves a mark, in its own transaction; the words
 * are read from the record by the next search or when the mark is filed. So a write costs one small row more,
 * and a key that is written a thousand times is read once.
 */
import type { EntryName } from '../../../../find/model.js';
import { ByteReader, ByteWriter } from '../../../../find/segments/bytes.js';
import type { ChangedFacts } from '../../../../find/segments/changes.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { findFamilies, markKey, markedName } from '../rows.js';

export interface Mark {
  readonly key: Buffer;
  readonly name: EntryName;
  /** Differs for each write of the mark; it begins with the time. The new facts follow if the words are the same. */
  readonly stamp: Buffer;
}

const stampBytes = 8;
/** A write in the same millisecond has a higher number. */
let sequence = 0;

/** Notes that a thing was written or removed. */
export function markEntry(tx: Transaction, partition: Buffer, name: EntryName): void {
  putMark(tx, markKey(partition, name));
}

/** As `markEntry`, for a caller that has built the key already. */
export function putMark(tx: Transaction, key: Buffer): void {
  tx.put(findFamilies.marks, key, newStamp(tx.nowMs));
}

/**
 * Notes that a thing was written with the words that it has in the index. If its words wait already, they still
 * do.
 */
export function putChange(tx: Transaction, key: Buffer, { version, author, timeMs }: ChangedFacts): void {
  const stored = tx.get(findFamilies.marks, key);
  if (stored !== undefined && stored.length === stampBytes) {
    putMark(tx, key);
    return;
  }
  const writer = new ByteWriter();
  writer.bytes(newStamp(tx.nowMs));
  writer.number(version);
  writer.time(timeMs);
  writer.number(author === null ? 0 : 1);
  writer.utf8(author ?? '');
  tx.put(findFamilies.marks, key, writer.take());
}

/** Whether the words of the thing are the same. */
export function isChange({ stamp }: Mark): boolean {
  return stamp.length > stampBytes;
}

/** The new facts of a thing whose words are the same; null for a mark of its words. */
export function changeOf(mark: Mark): ChangedFacts | null {
  if (!isChange(mark)) return null;
  const { name, stamp } = mark;
  const reader = new ByteReader(stamp, stampBytes);
  const [version, timeMs, hasAuthor] = [reader.number(), reader.time(), reader.number() === 1];
  return { name, version, timeMs, author: hasAuthor ? stamp.toString('utf8', reader.at) : null };
}

export function newStamp(nowMs: number): Buffer {
  const stamp = Buffer.allocUnsafe(stampBytes);
  stamp.writeUIntBE(nowMs, 0, 6);
  sequence = (sequence + 1) & 0xffff;
  stamp.writeUInt16BE(sequence, 6);
  return stamp;
}

/** The first marks of a partition, or all of them. */
export function readMarks(reader: Reader, partition: Buffer, limit?: number): Mark[] {
  const marks: Mark[] = [];
  const bounds = { ...prefixRange(partition), ...(limit !== undefined && { limit }) };
  for (const { key, value } of reader.range(findFamilies.marks, bounds)) {
    const name = markedName(key);
    if (name !== undefined) marks.push({ key, name, stamp: value });
  }
  return marks;
}

/** Whether the partition has at least so many marks. */
export function hasMarks(reader: Reader, partition: Buffer, count: number): boolean {
  let seen = 0;
  for (const _mark of reader.range(findFamilies.marks, { ...prefixRange(partition), limit: count }))
    seen += 1;
  return seen === count;
}

export function markedAtMs(stamp: Buffer): number {
  return stamp.length < 6 ? 0 : stamp.readUIntBE(0, 6);
}
