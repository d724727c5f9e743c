/** The part that all engines share: checks, the order of commits, open snapshots, closing. */
import { messageOf, StoaError } from '../../../../core/errors.js';
import { keyBytesMax } from '../engine.js';
import type { EngineName } from '../../../../core/settings/store-config.js';
import type {
  CommitOptions,
  Engine,
  EngineStats,
  Entry,
  RangeOptions,
  Snapshot,
  WriteOperation,
} from '../engine.js';

/** One write with its family already looked up. */
export interface DriverOperation<Family> {
  readonly family: Family;
  readonly key: Buffer;
  readonly value: Buffer | undefined;
}

/** A snapshot of a driver. The caller looks up families. */
export interface DriverSnapshot<Family> {
  next(family: Family, limit: number): Entry[];
  close(): void;
}

/**
 * The part of an engine that only stores. The caller has checked every argument: the length of keys, the
 * order of bounds, no empty bounds, and that the engine is open.
 */
export interface EngineDriver<Family> {
  readonly name: EngineName;
  readonly families: ReadonlyMap<string, Family>;
  get(family: Family, key: Buffer): Buffer | undefined;
  getMany(family: Family, keys: readonly Buffer[]): (Buffer | undefined)[];
  range(family: Family, options: RangeOptions): Iterator<Entry>;
  /** Called for one commit at a time. It rejects with a StoaError. */
  write(operations: readonly DriverOperation<Family>[], frees: boolean): Promise<void>;
  hasRoom(): boolean;
  snapshot(): DriverSnapshot<Family>;
  stats(): EngineStats;
  close(): Promise<void>;
}

const nothing: Iterable<Entry> = [];

/** An engine that checks each call and leaves the storage to its driver. */
export class CheckedEngine<Family> implements Engine {
  readonly name: EngineName;
  readonly #driver: EngineDriver<Family>;
  readonly #families: ReadonlyMap<string, Family>;
  readonly #snapshots = new Set<Snapshot>();
  #lastCommit: Promise<void> = Promise.resolve();
  #broken: StoaError | undefined;
  #closing: Promise<void> | undefined;

  constructor(driver: EngineDriver<Family>) {
    this.name = driver.name;
    this.#driver = driver;
    this.#families = driver.families;
  }

  get(family: string, key: Buffer): Buffer | undefined {
    const found = this.#family(family);
    checkKey(key);
    return this.#driver.get(found, key);
  }

  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    const found = this.#family(family);
    for (const key of keys) checkKey(key);
    return keys.length === 0 ? [] : this.#driver.getMany(found, keys);
  }

  range(family: string, options: RangeOptions): Iterable<Entry> {
    const found = this.#family(family);
    const bounds = checkedBounds(options);
    if (bounds === undefined) return nothing;
    return { [Symbol.iterator]: () => this.#openOnly(found, bounds) };
  }

  commit(operations: readonly WriteOperation[], { frees = false }: CommitOptions = {}): Promise<void> {
    let checked: DriverOperation<Family>[];
    try {
      checked = operations.map(({ family, key, value }) => {
        checkKey(key);
        return { family: this.#family(family), key, value };
      });
      this.#checkOpen();
    } catch (refused) {
      return Promise.reject(refused);
    }
    const commit = this.#lastCommit.then(() => this.#write(checked, frees));
    // The next commit only waits for this one. The caller of `commit` gets the failure.
    this.#lastCommit = commit.catch(() => undefined);
    return commit;
  }

  hasRoom(): boolean {
    return this.#driver.hasRoom();
  }

  snapshot(): Snapshot {
    this.#checkOpen();
    const frozen = this.#driver.snapshot();
    let open = true;
    const snapshot: Snapshot = {
      next: (family, limit) => {
        const found = this.#family(family);
        if (!open) throw new StoaError('closed', 'The snapshot is closed.');
        return limit > 0 ? frozen.next(found, limit) : [];
      },
      close: async () => {
        if (!open) return;
        open = false;
        this.#snapshots.delete(snapshot);
        frozen.close();
      },
    };
    this.#snapshots.add(snapshot);
    return snapshot;
  }

  stats(): EngineStats {
    this.#checkOpen();
    return this.#driver.stats();
  }

  close(): Promise<void> {
    this.#closing ??= this.#finish();
    return this.#closing;
  }

  async #finish(): Promise<void> {
    await this.#lastCommit;
    for (const snapshot of this.#snapshots) await snapshot.close();
    await this.#driver.close();
  }

  async #write(operations: readonly DriverOperation<Family>[], frees: boolean): Promise<void> {
    if (this.#broken !== undefined) {
      throw new StoaError(
        'engine',
        'An earlier commit failed with an unknown result, so this commit was not tried.',
        {
          fix: 'Close the database and open it again. It then shows what is on disk.',
          cause: this.#broken,
        },
      );
    }
    try {
      await this.#driver.write(operations, frees);
    } catch (thrown) {
      const failure = thrown instanceof StoaError ? thrown : commitFailure(thrown);
      if (failure.code !== 'disk_full') this.#broken = failure;
      throw failure;
    }
  }

  /**
   * A scan that throws an error if the engine is closed during the scan, instead of a crash in native code.
   */
  #openOnly(family: Family, options: RangeOptions): Iterator<Entry> {
    this.#checkOpen();
    const entries = this.#driver.range(family, options);
    return {
      next: () => {
        this.#checkOpen();
        return entries.next();
      },
      return: () => entries.return?.() ?? { done: true, value: undefined },
    };
  }

  #family(name: string): Family {
    if (this.#closing !== undefined) this.#checkOpen();
    const family = this.#families.get(name);
    if (family === undefined)
      throw new StoaError('internal', `The engine was opened without a family "${name}".`);
    return family;
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new StoaError('closed', 'The database is closed.');
  }
}

/** A commit failed, and it is unknown whether it is on disk. */
export function commitFailure(cause: unknown): StoaError {
  return new StoaError('engine', `The commit failed: ${messageOf(cause)}.`, { cause });
}

/** A commit failed because the disk is full, and wrote nothing. */
export function diskFull(cause?: unknown): StoaError {
  return new StoaError('disk_full', 'The disk is full. Nothing of this commit was written.', {
    fix: 'Free some space on the disk of the data directory, or delete data. Writes work again without a restart.',
    cause,
  });
}

/** A database could not be opened because opening it needs disk space. */
export function noRoomToOpen(dataDir: string, cause: unknown): StoaError {
  return new StoaError(
    'disk_full',
    `The disk is full. The database in ${dataDir} needs some disk space to open.`,
    {
      fix: 'Free some space on the disk of the data directory, then start again. Stored data is not affected.',
      cause,
    },
  );
}

/** The engine cannot read the database. */
export function damagedData(dataDir: string, cause: unknown): StoaError {
  return new StoaError('damaged_data', `The database in ${dataDir} is damaged: ${messageOf(cause)}.`, {
    fix: 'Move the directory aside and restore a backup into a new one with `stoa restore`.',
    cause,
  });
}

function checkKey(key: Buffer): void {
  if (key.length > keyBytesMax) {
    throw new StoaError('too_large', `A key has ${key.length} bytes, which exceeds ${keyBytesMax}.`);
  }
  if (key.length === 0) throw new StoaError('internal', 'A key is empty.');
}

/** The same bounds without empty buffers, or undefined when no key can be in the range. */
function checkedBounds(options: RangeOptions): RangeOptions | undefined {
  const { gte, gt, lte, lt, limit } = options;
  if ((gte !== undefined && gt !== undefined) || (lte !== undefined && lt !== undefined)) {
    throw new StoaError('internal', 'A range has two lower or two upper bounds.');
  }
  const lower = gte ?? gt;
  const upper = lte ?? lt;
  if (lower !== undefined && lower.length > 0) checkKey(lower);
  if (upper !== undefined) {
    // No key is empty, so no key is below an empty bound.
    if (upper.length === 0) return undefined;
    checkKey(upper);
    const order = lower === undefined ? -1 : Buffer.compare(lower, upper);
    if (order > 0 || (order === 0 && (gte === undefined || lte === undefined))) return undefined;
  }
  if (limit !== undefined && !(limit > 0)) return undefined;
  // Every key is above an empty bound, so that bound has no effect.
  return lower?.length === 0 ? { ...options, gte: undefined, gt: undefined } : options;
}
