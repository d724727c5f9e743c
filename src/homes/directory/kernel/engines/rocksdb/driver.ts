/** Reads and writes of RocksDB. */
import { messageOf, StoaError } from '../../../../../core/errors.js';
import { type EngineStats, type Entry, type RangeOptions } from '../../engine.js';
import { makePrivate } from '../../../../../core/files.js';
import { damagedData, diskFull } from '../checked.js';
import type { DriverOperation, DriverSnapshot, EngineDriver } from '../checked.js';
import { directorySizeBytes, freeBytes } from '../directory.js';
import { writeFailure } from './failures.js';
import type { Column, ColumnHandle, RocksBatch, RocksDatabase, RocksIterator } from './package.js';
import { iteratorOptions } from './package.js';

/** Entries that one call below fetches. */
const fetchEntries = 256;
const fetchEntriesFirst = 4;

/** How much memory a batch may keep between commits. A larger batch is freed. */
const keptBatchBytesMax = 1024 * 1024;

/**
 * Statistics count up to this many entries of a family, and of all families. There is no cheaper way to get a
 * size.
 */
const statsEntriesMax = 1_000;
const statsTurnEntriesMax = 5_000;
const statsTurnBytesMax = 4 * 1024 * 1024;

export class RocksDriver implements EngineDriver<Column> {
  readonly name = 'rocksdb';
  readonly families: ReadonlyMap<string, Column>;
  readonly #path: string;
  readonly #open: () => Promise<RocksDatabase>;
  /** Undefined for the moment between closing and opening again. */
  #database: RocksDatabase | undefined;
  readonly #writeOptions: { sync: boolean };
  /** Reused by each commit: growing a new batch takes a third of the time of filling it. */
  #batch: RocksBatch | undefined;
  readonly #snapshots = new Set<DriverSnapshot<Column>>();
  /**
   * After a failed write RocksDB accepts no more writes until it is opened again, whatever the reason was.
   */
  #hasFailed = false;
  /** Whether the log contains writes that are not in a table yet. */
  #hasWritten = false;

  constructor(
    path: string,
    open: () => Promise<RocksDatabase>,
    database: RocksDatabase,
    families: ReadonlyMap<string, Column>,
    sync: boolean,
  ) {
    this.families = families;
    this.#path = path;
    this.#open = open;
    this.#database = database;
    // Only a batch uses `sync`; a single put ignores it.
    this.#writeOptions = { sync };
  }

  get(family: Column, key: Buffer): Buffer | undefined {
    return this.getMany(family, [key])[0];
  }

  getMany(family: Column, keys: readonly Buffer[]): (Buffer | undefined)[] {
    const values = this.#reading((database) => database._getManySync(keys, family));
    return values.map((value) => {
      if (value === null) throw new StoaError('engine', 'RocksDB aborted reading a value.');
      return value;
    });
  }

  *range(family: Column, options: RangeOptions): Generator<Entry, void> {
    const { limit, ...bounds } = options;
    let left = limit ?? Infinity;
    const iterator = this.#iterator(family, bounds);
    try {
      // Many scans want the first entry only, so the first fetches are small.
      for (
        let finished = false, fetch = fetchEntriesFirst;
        !finished && left > 0;
        fetch = Math.min(fetch * 4, fetchEntries)
      ) {
        const page = this.#reading(() => iterator._nextvSync(Math.min(left, fetch)));
        finished = page.finished;
        const entries = entriesOf(page.rows);
        left -= entries.length;
        yield* entries;
      }
    } finally {
      this.#close(iterator);
    }
  }

  /**
   * The package writes on the calling thread only. Waiting for a turn keeps the commit invisible until then,
   * and its callers run before any other turn can read.
   */
  async write(operations: readonly DriverOperation<Column>[]): Promise<void> {
    // Checked first: after a write that fails because the disk is full, RocksDB cannot write until it is
    // opened again.
    if (freeBytes(this.#path) < roomFor(operations)) throw diskFull();
    if (this.#hasFailed) await this.#reopen();
    await new Promise<void>((resolve, reject) => {
      setImmediate(() => {
        try {
          this.#writeNow(operations);
          resolve();
        } catch (thrown) {
          this.#hasFailed = true;
          reject(writeFailure(thrown));
        }
      });
    });
  }

  hasRoom(): boolean {
    return freeBytes(this.#path) >= spareBytes;
  }

  snapshot(): DriverSnapshot<Column> {
    // Iterators that are opened within one step all see the same last commit.
    const iterators = new Map<Column, { iterator: RocksIterator; finished: boolean }>();
    for (const family of this.families.values()) {
      iterators.set(family, { iterator: this.#iterator(family, {}), finished: false });
    }
    const snapshot: DriverSnapshot<Column> = {
      next: (family, limit) => {
        const entries: Entry[] = [];
        const cursor = iterators.get(family);
        if (cursor === undefined)
          throw new StoaError(
            'disk_full',
            'The database was reopened during this read, because the disk was full.',
            { fix: 'Start the read again.' },
          );
        while (!cursor.finished && entries.length === 0) {
          const page = this.#reading(() => cursor.iterator._nextvSync(limit));
          cursor.finished = page.finished;
          entries.push(...entriesOf(page.rows));
        }
        return entries;
      },
      close: () => {
        for (const { iterator } of iterators.values()) this.#close(iterator);
        iterators.clear();
        this.#snapshots.delete(snapshot);
      },
    };
    this.#snapshots.add(snapshot);
    return snapshot;
  }

  stats(): EngineStats {
    const families: EngineStats['families'] = {};
    let entriesLeft = statsTurnEntriesMax;
    let bytesLeft = statsTurnBytesMax;
    for (const [name, family] of this.families) {
      const counted = { entries: 0, sizeBytes: 0, estimated: false };
      for (const { key, value } of this.range(family, { limit: statsEntriesMax })) {
        if (entriesLeft === 0 || bytesLeft <= 0) {
          counted.estimated = true;
          break;
        }
        counted.entries += 1;
        counted.sizeBytes += key.length + value.length;
        entriesLeft -= 1;
        bytesLeft -= key.length + value.length;
      }
      counted.estimated ||= counted.entries === statsEntriesMax;
      families[name] = counted;
    }
    return { sizeBytes: directorySizeBytes(this.#path), families };
  }

  /**
   * The package cannot flush. Closing leaves everything since the last flush in the log, where RocksDB
   * silently drops all records after a damaged one. Opening moves the log into tables, which have checksums.
   */
  async close(): Promise<void> {
    await this.#closeDatabase();
    if (this.#hasWritten) await this.#emptyLog();
    await makePrivate(this.#path);
  }

  async #emptyLog(): Promise<void> {
    try {
      await (await this.#open()).close();
    } catch (thrown) {
      // Without room for tables the log stays, and the next start reads it.
      if (!(thrown instanceof StoaError && thrown.code === 'disk_full')) throw thrown;
    }
  }

  /** Opens the database again, once there is space for its log. Reads are refused meanwhile. */
  async #reopen(): Promise<void> {
    if (freeBytes(this.#path) < this.#roomToOpen()) throw diskFull();
    for (const snapshot of this.#snapshots) snapshot.close();
    await this.#closeDatabase();
    const database = await this.#open();
    for (const [name, family] of this.families) family.column = database.columns[name] as ColumnHandle;
    this.#database = database;
    this.#hasFailed = false;
  }

  async #closeDatabase(): Promise<void> {
    const database = this.#database;
    this.#database = undefined;
    this.#batch?.close(reportNothing);
    this.#batch = undefined;
    try {
      await database?.close();
    } catch (thrown) {
      if (!this.#hasFailed)
        throw new StoaError('engine', `RocksDB could not close: ${messageOf(thrown)}.`, { cause: thrown });
      // The log that could not be written cannot be flushed either. RocksDB itself is closed by
      // then; the second call lets the package know.
      await database?.close();
    }
  }

  /** The log is written into tables. RocksDB also writes some files at each start. */
  #roomToOpen(): number {
    return 2 * directorySizeBytes(this.#path, '.log') + spareBytes;
  }

  #writeNow(operations: readonly DriverOperation<Column>[]): void {
    const batch = (this.#batch ??= this.#opened()._chainedBatch());
    let sizeBytes = 0;
    try {
      for (const { family, key, value } of operations) {
        if (value === undefined) batch._del(key, family);
        else batch._put(key, value, family);
        sizeBytes += key.length + (value?.length ?? 0);
      }
      this.#hasWritten = true;
      batch._writeSync(this.#writeOptions);
    } finally {
      this.#empty(batch, sizeBytes);
    }
  }

  #empty(batch: RocksBatch, sizeBytes: number): void {
    if (sizeBytes <= keptBatchBytesMax) {
      batch._clear();
      return;
    }
    this.#batch = undefined;
    batch.close(reportNothing);
  }

  #iterator(family: Column, bounds: RangeOptions): RocksIterator {
    const options = { ...withoutUndefined(bounds), ...family, ...iteratorOptions };
    return this.#reading((database) => database._iterator(options));
  }

  #close(iterator: RocksIterator): void {
    iterator.close(reportNothing);
  }

  #opened(): RocksDatabase {
    if (this.#database !== undefined) return this.#database;
    throw new StoaError('disk_full', 'The database is being reopened, because the disk was full.', {
      fix: 'Try again in a second.',
    });
  }

  #reading<T>(read: (database: RocksDatabase) => T): T {
    const database = this.#opened();
    try {
      return read(database);
    } catch (thrown) {
      if (messageOf(thrown).includes('Corruption')) throw damagedData(this.#path, thrown);
      throw new StoaError('engine', `RocksDB could not read: ${messageOf(thrown)}.`, { cause: thrown });
    }
  }
}

/** Free space that is kept: RocksDB writes small files at each start. */
const spareBytes = 1024 * 1024;

/** Bytes that a commit may need in the log. */
function roomFor(operations: readonly DriverOperation<Column>[]): number {
  return operations.reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), spareBytes);
}

/**
 * Closing a batch or an iterator frees memory at once and cannot fail, but the package requires a callback.
 */
function reportNothing(error: Error | null | undefined): void {
  if (error)
    throw new StoaError('internal', `RocksDB could not free an iterator: ${error.message}.`, {
      cause: error,
    });
}

function entriesOf(rows: readonly Buffer[]): Entry[] {
  const entries: Entry[] = [];
  for (let index = 0; index + 1 < rows.length; index += 2) {
    entries.push({ key: rows[index] as Buffer, value: rows[index + 1] as Buffer });
  }
  return entries;
}

/** The package takes a bound that is present but undefined for an empty one. */
function withoutUndefined(bounds: RangeOptions): RangeOptions {
  return Object.fromEntries(Object.entries(bounds).filter(([, bound]) => bound !== undefined));
}
