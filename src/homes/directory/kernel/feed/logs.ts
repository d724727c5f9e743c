/**
 * The change feed and the redo log of a store: the numbers they gave out, those on disk, and their sizes. Only
 * increments read the redo log, and they need the log since a full backup. So a store that has made no backup
 * writes none: without it, a group has about half the bytes.
 */
import type { Change } from '../../../../core/change.js';
import type { Commit } from '../../../../feed/port.js';
import type { Engine, Entry, WriteOperation } from '../engine.js';
import { kernelFamilies } from '../families.js';
import type { Group } from '../group.js';
import { newestMark, readNewest } from './newest-transaction.js';
import {
  decodeFeed,
  decodeRedo,
  encodeFeed,
  encodeRedo,
  positionKey,
  positionOf,
  redoBytesBefore,
} from './log.js';

/** Where a log begins and ends. Empty when `last` is 0. */
export interface LogExtent {
  first: number;
  last: number;
  sizeBytes: number;
}

/** The records of a group for both logs, and the sizes of the logs with them. */
export interface GroupRecords {
  operations: WriteOperation[];
  feedBytes: number;
  redoBytes: number;
}

export class Logs {
  readonly #engine: Engine;
  /** Given to the newest transaction, durable or not. After a failed commit these fall back to the durable ones. */
  #lastSeq: number;
  #lastLsn: number;
  #durableSeq: number;
  #durableLsn: number;
  #feedBytes: number;
  #redoBytes: number;
  /** Whether groups that are committed from now on are also written to the redo log. */
  keepsRedo = false;

  constructor(engine: Engine) {
    this.#engine = engine;
    const feed = this.#endOf(kernelFamilies.changes, true);
    const redo = this.#endOf(kernelFamilies.redo, true);
    this.#lastSeq = this.#durableSeq = feed === undefined ? 0 : positionOf(feed.key);
    this.#lastLsn = this.#durableLsn = readNewest(engine).lsn;
    this.#feedBytes = feed === undefined ? 0 : decodeFeed(feed.value).bytesBefore + feed.value.length;
    this.#redoBytes = redo === undefined ? 0 : redoBytesBefore(redo.value) + redo.value.length;
  }

  /** The newest number of the feed that is on disk. */
  get durableSeq(): number {
    return this.#durableSeq;
  }

  /** The number of the newest transaction that is on disk. */
  get durableLsn(): number {
    return this.#durableLsn;
  }

  /** The number of the newest transaction, on disk or on its way there. */
  get lastLsn(): number {
    return this.#lastLsn;
  }

  /** The changes of a transaction with the number that `assign` will give them, or null without changes. */
  nextCommit(atMs: number, changes: readonly Change[]): Commit | null {
    return changes.length === 0 ? null : { seq: this.#lastSeq + 1, atMs, changes };
  }

  /** Gives out the next numbers, and returns that of the transaction. */
  assign(commit: Commit | null): number {
    if (commit !== null) this.#lastSeq = commit.seq;
    this.#lastLsn += 1;
    return this.#lastLsn;
  }

  recordsOf(group: Group): GroupRecords {
    const operations: WriteOperation[] = [];
    let [feedBytes, redoBytes] = [this.#feedBytes, this.#redoBytes];
    const lastCommit = group.commits.at(-1);
    if (lastCommit !== undefined) {
      const value = encodeFeed(feedBytes, group.commits, group.commitTexts);
      feedBytes += value.length;
      operations.push({ family: kernelFamilies.changes, key: positionKey(lastCommit.seq), value });
    }
    const lastTransaction = group.transactions.at(-1);
    if (lastTransaction !== undefined) operations.push(newestMark(lastTransaction));
    if (lastTransaction !== undefined && this.keepsRedo) {
      const value = encodeRedo(redoBytes, group.transactions, group.commitTexts);
      redoBytes += value.length;
      operations.push({ family: kernelFamilies.redo, key: positionKey(lastTransaction.lsn), value });
    }
    return { operations, feedBytes, redoBytes };
  }

  /** The group and its records are on disk. */
  becameDurable(group: Group, { feedBytes, redoBytes }: GroupRecords): void {
    this.#feedBytes = feedBytes;
    this.#redoBytes = redoBytes;
    this.#durableSeq = group.commits.at(-1)?.seq ?? this.#durableSeq;
    this.#durableLsn = group.transactions.at(-1)?.lsn ?? this.#durableLsn;
  }

  /** A commit failed: its numbers, and those after them, are given out again. */
  fallBack(): void {
    this.#lastSeq = this.#durableSeq;
    this.#lastLsn = this.#durableLsn;
  }

  feedExtent(): LogExtent {
    const first = this.#endOf(kernelFamilies.changes, false);
    if (first === undefined) return { first: 0, last: this.#durableSeq, sizeBytes: 0 };
    const record = decodeFeed(first.value);
    return {
      first: record.items[0]?.seq ?? positionOf(first.key),
      last: this.#durableSeq,
      sizeBytes: this.#feedBytes - record.bytesBefore,
    };
  }

  redoExtent(): LogExtent {
    const first = this.#endOf(kernelFamilies.redo, false);
    if (first === undefined) return { first: 0, last: this.#durableLsn, sizeBytes: 0 };
    const record = decodeRedo(first.value);
    return {
      first: record.items[0]?.lsn ?? positionOf(first.key),
      last: this.#durableLsn,
      sizeBytes: this.#redoBytes - record.bytesBefore,
    };
  }

  /** The first or the last record of a log. */
  #endOf(family: string, isLast: boolean): Entry | undefined {
    for (const entry of this.#engine.range(family, { reverse: isLast, limit: 1 })) return entry;
    return undefined;
  }
}
