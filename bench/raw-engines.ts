/** The packages below the engines, used as directly as they allow: what the kernel is measured against. */
import { mkdir } from 'node:fs/promises';
import { type Database, open } from 'lmdb';
import { storeConfigDefaults } from '../src/core/settings/store-config.js';
import { kernelFamilies } from '../src/homes/directory/kernel/families.js';

interface Put {
  key: Buffer;
  value: Buffer;
}

export interface RawEngine {
  get(key: Buffer): unknown;
  /** One durable batch, with a record of the redo log where there is one. */
  commit(puts: readonly Put[], redo?: Put): Promise<void>;
  close(): Promise<void>;
}

export type OpenRawEngine = (path: string, family: string) => Promise<RawEngine>;

export async function openRawLmdb(path: string, family: string): Promise<RawEngine> {
  await mkdir(path, { recursive: true });
  const root = open<Buffer, Buffer>({
    path,
    noSubdir: false,
    encoding: 'binary',
    keyEncoding: 'binary',
    overlappingSync: false,
    eventTurnBatching: false,
    maxDbs: 512,
  });
  const [database, log] = [family, kernelFamilies.redo].map((name) =>
    root.openDB<Buffer, Buffer>({ name, encoding: 'binary', keyEncoding: 'binary' }),
  ) as [Database<Buffer, Buffer>, Database<Buffer, Buffer>];
  return {
    get: (key) => database.getBinary(key),
    commit: async (puts, redo) => {
      await root.batch(() => {
        for (const { key, value } of puts) void database.put(key, value);
        if (redo !== undefined) void log.put(redo.key, redo.value);
      });
    },
    close: () => root.close(),
  };
}

/** The part of the package that is used; the package has no types. */
interface RocksDatabase {
  readonly columns: Record<string, unknown>;
  _getManySync(keys: readonly Buffer[], options: { column: unknown }): (Buffer | undefined | null)[];
  _chainedBatch(): {
    _put(key: Buffer, value: Buffer, options: { column: unknown }): void;
    _writeSync(options: { sync: boolean }): void;
    close(callback: () => void): void;
  };
  close(): Promise<void>;
}

export async function openRawRocksdb(path: string, family: string): Promise<RawEngine> {
  await mkdir(path, { recursive: true });
  const families = ['default', ...Object.values(kernelFamilies), family];
  // Every family on disk must be named; each has its own cache and no compression, as in the engine.
  const cacheSize = Math.floor(storeConfigDefaults.block_cache_bytes / families.length);
  // Named by a variable because the package is untyped.
  const name: string = '@nxtedition/rocksdb';
  const { RocksLevel } = (await import(name)) as {
    RocksLevel: { open(path: string, options: Record<string, unknown>): Promise<RocksDatabase> };
  };
  const database = await RocksLevel.open(path, {
    createIfMissing: true,
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    walCompression: false,
    columns: Object.fromEntries(families.map((name) => [name, { compression: false, cacheSize }])),
  });
  const [column, log] = [database.columns[family], database.columns[kernelFamilies.redo]];
  return {
    get: (key) => database._getManySync([key], { column })[0],
    commit: async (puts, redo) => {
      // One turn of the event loop for each batch: a server that never takes a turn answers no request.
      await new Promise((resolve) => setImmediate(resolve));
      const batch = database._chainedBatch();
      for (const { key, value } of puts) batch._put(key, value, { column });
      if (redo !== undefined) batch._put(redo.key, redo.value, { column: log });
      batch._writeSync({ sync: true });
      batch.close(() => undefined);
    },
    close: () => database.close(),
  };
}
