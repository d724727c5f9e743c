/** Reads the entry of a marked thing from its record. */
import type { EntryName, FindKind } from '../../../find/model.js';
import type { WaitingEntry } from '../../../find/segments/segment.js';
import type { Reader } from '../kernel/transaction.js';

/** Undefined if the thing does not exist, has expired or is not to be found. */
export type EntrySource = (
  reader: Reader,
  partition: Buffer,
  name: EntryName,
  nowMs: number,
) => WaitingEntry | undefined;

export type EntrySources = Readonly<Record<FindKind, EntrySource>>;
