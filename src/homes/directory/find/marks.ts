/**
 * Marks: what was written since it was filed. A write only leaves a mark, in its own transaction; the words are read
 * from the record by the next search or when the mark is filed. So a write costs one small row more, and a key that
 * is written a thousand times is read once.
 */
import type { EntryName } from '../../../find/model.js';
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { findFamilies, markKey, markedName } from './rows.js';

export interface Mark {
  readonly key: Buffer;
  readonly name: EntryName;
  /** Differs for each write of the mark; it begins with the time. */
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
  const stamp = Buffer.allocUnsafe(stampBytes);
  stamp.writeUIntBE(tx.nowMs, 0, 6);
  sequence = (sequence + 1) & 0xffff;
  stamp.writeUInt16BE(sequence, 6);
  tx.put(findFamilies.marks, key, stamp);
}

/** The first marks of a partition. */
export function readMarks(reader: Reader, partition: Buffer, limit: number): Mark[] {
  const marks: Mark[] = [];
  for (const { key, value } of reader.range(findFamilies.marks, { ...prefixRange(partition), limit })) {
    const name = markedName(key);
    if (name !== undefined) marks.push({ key, name, stamp: value });
  }
  return marks;
}

export function markedAtMs(stamp: Buffer): number {
  return stamp.length < 6 ? 0 : stamp.readUIntBE(0, 6);
}
