/** The interface between the kernel and a storage engine: ordered bytes, atomic durable commits. */

import type { EngineName, StoreConfig } from '../../../core/settings/store-config.js';

/** The configuration, with the program's facts about its families. */
export interface EngineConfig extends StoreConfig {
  /**
   * Families whose rows are read one at a time and at random. A block is rarely read again soon, so the
   * engine's own cache only costs memory.
   */
  scattered_families?: readonly string[] | undefined;
}

export interface Entry {
  readonly key: Buffer;
  readonly value: Buffer;
}

/** One write. Without a value it is a deletion; deleting a missing key is not an error. */
export interface WriteOperation {
  readonly family: string;
  readonly key: Buffer;
  readonly value: Buffer | undefined;
}

/** Bounds of a scan in unsigned byte order: at most one lower and one upper bound. */
export interface RangeOptions {
  gte?: Buffer;
  gt?: Buffer;
  lte?: Buffer;
  lt?: Buffer;
  /** From the upper bound downwards. */
  reverse?: boolean;
  limit?: number;
}

/** A frozen view of every family, readable over many turns of the event loop. */
export interface Snapshot {
  /**
   * The next entries of a family in key order: at most `limit`, and fewer if they are large (`pageBytesMax`).
   * An empty list is the end. Each family has its own cursor.
   */
  next(family: string, limit: number): Entry[];
  close(): Promise<void>;
}

export interface FamilyStats {
  entries: number;
  sizeBytes: number;
  /** True if the engine only estimates, like RocksDB. */
  estimated: boolean;
}

export interface EngineStats {
  /** Bytes on disk (or in memory) of the whole database. */
  sizeBytes: number;
  families: Record<string, FamilyStats>;
}

export interface CommitOptions {
  /** The commit removes stored data: it may use the space that is reserved for this on a nearly full disk. */
  frees?: boolean;
}

/**
 * An ordered store of bytes in named families. Eight methods are all that the kernel needs. Reads are
 * synchronous and see exactly the commits that have resolved. Keys have 1 to 1,978 bytes (the limit of LMDB,
 * which all engines use); values may be empty. Buffers that a read returns belong to the caller. An unknown
 * family is a programming error and throws.
 */
export interface Engine {
  readonly name: EngineName;
  get(family: string, key: Buffer): Buffer | undefined;
  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[];
  /** A lazy scan. It must be consumed without awaiting in between: the view is that of one turn. */
  range(family: string, options: RangeOptions): Iterable<Entry>;
  /**
   * Applies all operations or none. Resolves only when they are on disk (with `sync_writes`). A later
   * operation on the same key wins. Rejects with code `disk_full` if nothing was written because the disk is
   * full (trying again is safe), and with `engine` if the outcome is not known.
   */
  commit(operations: readonly WriteOperation[], options?: CommitOptions): Promise<void>;
  /** Whether the disk has space for a group of transactions that store data. */
  hasRoom(): boolean;
  snapshot(): Snapshot;
  stats(): EngineStats;
  close(): Promise<void>;
}

/**
 * A page of a snapshot ends with the entry that exceeds this size, because the caller keeps the page in
 * memory.
 */
export const pageBytesMax = 4 * 1024 * 1024;

/** The longest key that every engine accepts. */
export const keyBytesMax = 1978;

/** The bounds of exactly the keys that begin with `prefix`. */
export function prefixRange(prefix: Buffer): RangeOptions {
  const after = keyAfterPrefix(prefix);
  return after === undefined ? { gte: prefix } : { gte: prefix, lt: after };
}

/** The first key after every key with this prefix, or undefined if the prefix is all 0xff. */
export function keyAfterPrefix(prefix: Buffer): Buffer | undefined {
  let end = prefix.length;
  while (end > 0 && prefix[end - 1] === 0xff) end -= 1;
  if (end === 0) return undefined;
  const after = Buffer.from(prefix.subarray(0, end));
  after[end - 1] = (after[end - 1] as number) + 1;
  return after;
}
