/** The package that binds RocksDB. It is optional and has no types. */
import { messageOf, StoaError } from '../../../../../core/errors.js';
import { importOptional } from '../../../../../core/optional-package.js';
import { type RangeOptions, pageBytesMax } from '../../engine.js';

/** A column family's handle, opaque to JavaScript. */
export type ColumnHandle = NonNullable<unknown>;

/** An argument of each call of the package. The handle changes each time the database is opened. */
export interface Column {
  column: ColumnHandle;
}

export interface RocksIterator {
  /**
   * Keys and values alternate, at most `size` entries and not much more than `highWaterMarkBytes`; fewer does
   * not mean the end, `finished` does.
   */
  _nextvSync(size: number): { rows: Buffer[]; finished: boolean };
  close(callback: (error: Error | null | undefined) => void): void;
}

/** The used part of the package, which has no types. */
export interface RocksDatabase {
  readonly columns: Record<string, ColumnHandle>;
  _getManySync(keys: readonly Buffer[], options: Column): (Buffer | undefined | null)[];
  _iterator(options: RangeOptions & typeof iteratorOptions & Column): RocksIterator;
  _chainedBatch(): RocksBatch;
  close(): Promise<void>;
}

export interface RocksBatch {
  _put(key: Buffer, value: Buffer, options: Column): void;
  _del(key: Buffer, options: Column): void;
  _writeSync(options: { sync: boolean }): void;
  /** Empties the batch and keeps its memory. */
  _clear(): void;
  close(callback: (error: Error | null | undefined) => void): void;
}

export interface RocksPackage {
  RocksLevel: { open(path: string, options: Record<string, unknown>): Promise<RocksDatabase> };
}

/** Values may be large, so one call is also limited in bytes. */
export const iteratorOptions = {
  keyEncoding: 'buffer',
  valueEncoding: 'buffer',
  highWaterMarkBytes: pageBytesMax,
} as const;

export async function loadPackage(): Promise<RocksPackage> {
  const name = '@nxtedition/rocksdb';
  try {
    return await importOptional<RocksPackage>(name, 12);
  } catch (thrown) {
    throw new StoaError(
      'missing_package',
      `The engine rocksdb needs the package ${name}, which cannot be loaded: ${messageOf(thrown)}.`,
      {
        fix: `Run \`npm install ${name}@12\` (it has builds for Linux x64 and macOS arm64), or choose the engine lmdb.`,
        cause: thrown,
      },
    );
  }
}
