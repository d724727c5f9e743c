/** LMDB, the default engine: one memory-mapped file, commits on a separate thread. */
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import { open } from 'lmdb';
import { messageOf, StoaError } from '../../../../core/errors.js';
import { type StoreConfig } from '../../../../core/settings/store-config.js';
import { type Engine, type EngineStats, type Entry, type RangeOptions, pageBytesMax } from '../engine.js';
import { makePrivate, syncDirectory } from '../../../../core/files.js';
import { CheckedEngine, commitFailure, damagedData, diskFull, noRoomToOpen } from './checked.js';
import type { DriverOperation, DriverSnapshot, EngineDriver } from './checked.js';
import { directorySizeBytes, diskSpace, freeBytes, prepareDirectory } from './directory.js';
import { checkFile } from './lmdb-file.js';

/** A read transaction, counted: every `use` needs a `done`. */
interface ReadTransaction {
  use(): void;
  done(): void;
}

interface LmdbRange {
  start?: Buffer | undefined;
  end?: Buffer | undefined;
  exclusiveStart?: boolean;
  inclusiveEnd?: boolean;
  reverse?: boolean;
  limit?: number | undefined;
  transaction: ReadTransaction;
}

/**
 * The used part of lmdb's database class. The types of the package lack the read options and the statistics.
 */
interface LmdbDatabase {
  getBinaryFast(key: Buffer, options: { transaction: ReadTransaction }): Uint8Array | undefined;
  getRange(options: LmdbRange): Iterable<Entry>;
  put(key: Buffer, value: Buffer): unknown;
  remove(key: Buffer): unknown;
  getStats(): LmdbStats;
}

interface LmdbStats {
  pageSize: number;
  treeBranchPageCount: number;
  treeLeafPageCount: number;
  overflowPages: number;
  entryCount: number;
}

interface LmdbRoot extends LmdbDatabase {
  getStats(): LmdbStats & { lastPageNumber: number; free: LmdbStats };
  openDB(options: { name: string; encoding: 'binary'; keyEncoding: 'binary' }): LmdbDatabase;
  batch(write: () => void): Promise<boolean>;
  transactionSync(run: () => void, flags?: number): void;
  useReadTransaction(): ReadTransaction;
  resetReadTxn(): void;
  close(): Promise<void>;
}

/** The initial address space. The file is only as long as its data, and the map grows automatically. */
const mapBytesFirst = 64 * 1024 * 1024;

/** Named databases that one environment can hold: far more than there are families. */
const familiesMax = 512;

/** Read transactions at a time: the view that reads see, and one for each snapshot that is open. */
const readersMax = 1024;

/** The flag that openDB itself uses: the transaction is committed when its function has returned. */
const synchronousCommit = 2;

export async function openLmdb(config: StoreConfig, families: readonly string[]): Promise<Engine> {
  const path = await prepareDirectory(config.data_dir);
  let root: LmdbRoot | undefined;
  try {
    await checkFile(join(path, 'data.mdb'));
    root = open({
      path,
      // Otherwise a directory with a dot in its name would be taken for the file.
      noSubdir: false,
      encoding: 'binary',
      keyEncoding: 'binary',
      maxDbs: familiesMax,
      maxReaders: readersMax,
      mapSize: mapBytesFirst,
      noSync: !config.sync_writes,
      // With overlapping syncs a commit can be read before it is on disk.
      overlappingSync: false,
      // The kernel groups its writes; each batch here is one transaction.
      eventTurnBatching: false,
      // The declared types leave out what LmdbRoot names; the methods are in every 3.5 release.
    }) as unknown as LmdbRoot;
    const databases = openDatabases(root, families);
    await makePrivate(path);
    await syncDirectory(path);
    return new CheckedEngine(new LmdbDriver(path, root, databases));
  } catch (thrown) {
    await root?.close();
    throw openFailure(path, thrown);
  }
}

/** In one transaction: each openDB alone is a commit, and those of a new directory took 0.4 s on a busy disk. */
function openDatabases(root: LmdbRoot, families: readonly string[]): Map<string, LmdbDatabase> {
  const databases = new Map<string, LmdbDatabase>();
  root.transactionSync(() => {
    for (const name of families)
      databases.set(name, root.openDB({ name, encoding: 'binary', keyEncoding: 'binary' }));
  }, synchronousCommit);
  return databases;
}

class LmdbDriver implements EngineDriver<LmdbDatabase> {
  readonly name = 'lmdb';
  readonly families: ReadonlyMap<string, LmdbDatabase>;
  readonly #path: string;
  readonly #root: LmdbRoot;
  /**
   * The state that reads see, held from one commit to the next. LMDB's writing thread makes a commit readable
   * some time before the promise of it resolves; reads of a held transaction do not see it.
   */
  #view: { transaction: ReadTransaction };

  constructor(path: string, root: LmdbRoot, families: ReadonlyMap<string, LmdbDatabase>) {
    this.families = families;
    this.#path = path;
    this.#root = root;
    this.#view = { transaction: this.#latest() };
  }

  get(family: LmdbDatabase, key: Buffer): Buffer | undefined {
    let shared: Uint8Array | undefined;
    try {
      shared = family.getBinaryFast(key, this.#view);
    } catch (thrown) {
      throw this.#readFailure(thrown);
    }
    if (shared === undefined) return undefined;
    // The bytes are in memory that the next read overwrites, in a larger buffer whose `length` lmdb has
    // changed. Only a view of exactly these bytes is copied correctly.
    return Buffer.from(new Uint8Array(shared.buffer, shared.byteOffset, shared.length));
  }

  getMany(family: LmdbDatabase, keys: readonly Buffer[]): (Buffer | undefined)[] {
    return keys.map((key) => this.get(family, key));
  }

  range(family: LmdbDatabase, options: RangeOptions): Iterator<Entry> {
    const entries = family.getRange(lmdbRange(options, this.#view.transaction))[Symbol.iterator]();
    return {
      next: () => {
        try {
          return entries.next();
        } catch (thrown) {
          throw this.#readFailure(thrown);
        }
      },
      return: () => entries.return?.() ?? { done: true, value: undefined },
    };
  }

  async write(operations: readonly DriverOperation<LmdbDatabase>[], frees: boolean): Promise<void> {
    // Checked first: if a write fails because the disk is full, lmdb 3.5 writes its error message into a
    // buffer that is too small, which can end the process.
    if (!this.#hasRoomFor(roomFor(operations), frees)) throw diskFull();
    try {
      await this.#root.batch(() => {
        for (const { family, key, value } of operations) {
          if (value === undefined) family.remove(key);
          else family.put(key, value);
        }
      });
    } catch (thrown) {
      throw this.#writeFailure(await commitError(thrown), operations);
    }
    const before = this.#view.transaction;
    this.#view = { transaction: this.#latest() };
    before.done();
  }

  hasRoom(): boolean {
    return this.#hasRoomFor(Math.min(pathsBytesMax, diskSpace(this.#path).sizeBytes / 16), false);
  }

  /**
   * The file never shrinks, so space that was freed is inside it. A large value needs pages side by side,
   * and the file may grow for it: with enough free pages, only half of the reserve must remain.
   */
  #hasRoomFor(room: number, frees: boolean): boolean {
    const { freeBytes, sizeBytes } = diskSpace(this.#path);
    const reserve = frees ? 0 : Math.min(reserveBytesMax, sizeBytes / 4);
    if (freeBytes >= room + reserve) return true;
    return freeBytes >= room + reserve / 2 && this.#freeBytesInside() >= freePagesPerRoom * room;
  }

  #freeBytesInside(): number {
    const { lastPageNumber, free, ...names } = this.#root.getStats();
    const trees = [names, free, ...Array.from(this.families.values(), (family) => family.getStats())];
    return (lastPageNumber + 1) * names.pageSize - trees.reduce((sum, tree) => sum + treeBytes(tree), 0);
  }

  snapshot(): DriverSnapshot<LmdbDatabase> {
    const { transaction } = this.#view;
    transaction.use();
    const lastKeys = new Map<LmdbDatabase, Buffer>();
    return {
      next: (family, limit) => {
        const gt = lastKeys.get(family);
        try {
          const entries: Entry[] = [];
          let sizeBytes = 0;
          for (const entry of family.getRange(
            lmdbRange(gt === undefined ? { limit } : { gt, limit }, transaction),
          )) {
            entries.push(entry);
            sizeBytes += entry.key.length + entry.value.length;
            if (sizeBytes >= pageBytesMax) break;
          }
          const last = entries.at(-1);
          if (last !== undefined) lastKeys.set(family, last.key);
          return entries;
        } catch (thrown) {
          throw this.#readFailure(thrown);
        }
      },
      close: () => transaction.done(),
    };
  }

  stats(): EngineStats {
    const families: EngineStats['families'] = {};
    for (const [name, database] of this.families) {
      const stats = database.getStats();
      families[name] = { entries: stats.entryCount, sizeBytes: treeBytes(stats), estimated: false };
    }
    return { sizeBytes: directorySizeBytes(this.#path), families };
  }

  async close(): Promise<void> {
    this.#view.transaction.done();
    await this.#root.close();
    // Without syncs after each commit this is the first one: a clean stop leaves everything on disk.
    const file = await openFile(join(this.#path, 'data.mdb'), 'r');
    try {
      await file.sync();
    } finally {
      await file.close();
    }
  }

  /** The newest state, kept apart from the transaction that lmdb shares among reads of one turn. */
  #latest(): ReadTransaction {
    this.#root.resetReadTxn();
    const transaction = this.#root.useReadTransaction();
    // lmdb keeps an open cursor for reuse on its shared transaction, and that cursor would outlive
    // the transaction when it is this one.
    this.#root.resetReadTxn();
    return transaction;
  }

  #writeFailure(thrown: unknown, operations: readonly DriverOperation<LmdbDatabase>[]): StoaError {
    const code = codeOf(thrown);
    // LMDB calls a write that the full disk cut short an I/O error, so the disk is asked itself.
    const isFull =
      noSpaceCodes.has(code) || (code === inputOutputError && freeBytes(this.#path) < roomFor(operations));
    if (!isFull) return commitFailure(thrown);
    try {
      // After a failure on the meta page LMDB refuses all further writes, and lmdb's writing thread then
      // never answers. An empty transaction on this thread shows whether that happened.
      this.#root.transactionSync(() => undefined);
    } catch (panic) {
      return commitFailure(panic);
    }
    return diskFull(thrown);
  }

  #readFailure(thrown: unknown): StoaError {
    if (thrown instanceof StoaError) return thrown;
    if (damageCodes.has(codeOf(thrown))) return damagedData(this.#path, thrown);
    return new StoaError('engine', `LMDB could not read: ${messageOf(thrown)}.`, { cause: thrown });
  }
}

/** lmdb's ranges run from start to end in the direction of the scan. */
function lmdbRange(options: RangeOptions, transaction: ReadTransaction): LmdbRange {
  const { gte, gt, lte, lt, limit } = options;
  if (options.reverse === true) {
    // `end` is always given: without it, lmdb ends before the key 0x00.
    return {
      start: lte ?? lt,
      exclusiveStart: lt !== undefined,
      end: gte ?? gt,
      inclusiveEnd: gte !== undefined,
      reverse: true,
      limit,
      transaction,
    };
  }
  return {
    start: gte ?? gt ?? firstKey,
    exclusiveStart: gt !== undefined,
    end: lte ?? lt,
    inclusiveEnd: lte !== undefined,
    limit,
    transaction,
  };
}

const firstKey = Buffer.from([0]);

/** ENOSPC, EDQUOT and MDB_MAP_FULL. */
const noSpaceCodes = new Set<unknown>([28, 122, -30792]);

const inputOutputError = 5;

/**
 * The changed pages from a leaf up to the root, and the most of them that many operations are taken to
 * change.
 */
const pathBytes = 16 * 1024;
const pathsBytesMax = 16 * 1024 * 1024;

/**
 * The last space of the disk is for commits that remove data: otherwise a disk that Stoa's own data has
 * filled would refuse to delete them. A step of a deletion needs up to `pathsBytesMax`.
 */
const reserveBytesMax = 64 * 1024 * 1024;

/** How much must be free inside the file to rely on it: pages of the newest commits cannot be used yet. */
const freePagesPerRoom = 4;

function treeBytes({ pageSize, treeBranchPageCount, treeLeafPageCount, overflowPages }: LmdbStats): number {
  return (treeBranchPageCount + treeLeafPageCount + overflowPages) * pageSize;
}

/** Bytes that a commit may need on disk. */
function roomFor(operations: readonly DriverOperation<LmdbDatabase>[]): number {
  const pathsBytes = Math.min((operations.length + 1) * pathBytes, pathsBytesMax);
  return operations.reduce((sum, { value }) => sum + (value?.length ?? 0), pathsBytes);
}

/** MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_VERSION_MISMATCH, MDB_INVALID. */
const damageCodes = new Set<unknown>([-30797, -30796, -30794, -30793]);

function codeOf(thrown: unknown): unknown {
  return thrown instanceof Error && 'code' in thrown ? thrown.code : undefined;
}

/** lmdb rejects with a general error that holds a promise of the real one. */
async function commitError(thrown: unknown): Promise<unknown> {
  if (!(thrown instanceof Error && 'commitError' in thrown)) return thrown;
  try {
    await thrown.commitError;
  } catch (cause) {
    return cause;
  }
  return thrown;
}

function openFailure(path: string, thrown: unknown): StoaError {
  if (thrown instanceof StoaError) return thrown;
  if (damageCodes.has(codeOf(thrown))) return damagedData(path, thrown);
  if (noSpaceCodes.has(codeOf(thrown))) return noRoomToOpen(path, thrown);
  return new StoaError('engine', `LMDB could not open ${path}: ${messageOf(thrown)}.`, { cause: thrown });
}
