/** Opens RocksDB, the engine for many writes: a log-structured tree with column families. */
import { type Engine, type EngineConfig } from '../../engine.js';
import { makePrivate } from '../../../../../core/files.js';
import { CheckedEngine } from '../checked.js';
import { prepareDirectory } from '../directory.js';
import { openFailure } from './failures.js';
import { rememberFamilies } from './families.js';
import { RocksDriver } from './driver.js';
import { type Column, type ColumnHandle, type RocksDatabase, loadPackage } from './package.js';

/** The package reads the size of a cache as an unsigned 32-bit number. */
const cacheBytesMax = 2 ** 32 - 1;

/**
 * Reading a compressed block that the operating system has in memory takes two to three times as long, and
 * ids, hashes and short rows shrink by a tenth.
 */
const columnOptions = { compression: false } as const;

export async function openRocksdb(config: EngineConfig, families: readonly string[]): Promise<Engine> {
  const { RocksLevel } = await loadPackage();
  const path = await prepareDirectory(config.data_dir);
  const names = await rememberFamilies(path, families);
  const scattered = new Set(config.scattered_families);
  // Each family has its own cache, so the memory is divided among them.
  const cacheSize = Math.min(
    Math.floor(config.block_cache_bytes / Math.max(names.length - scattered.size, 1)),
    cacheBytesMax,
  );
  const options = {
    createIfMissing: true,
    keyEncoding: 'buffer',
    valueEncoding: 'buffer',
    // Commits run on the main thread: compressing the log would delay every reader.
    walCompression: false,
    columns: Object.fromEntries(
      names.map((name) => [name, { ...columnOptions, cacheSize: scattered.has(name) ? 0 : cacheSize }]),
    ),
  };
  const open = async (): Promise<RocksDatabase> => {
    try {
      return await RocksLevel.open(path, options);
    } catch (thrown) {
      throw openFailure(path, thrown);
    }
  };
  const database = await open();
  await makePrivate(path);
  const columns = new Map(
    families.map((name): [string, Column] => [name, { column: database.columns[name] as ColumnHandle }]),
  );
  return new CheckedEngine(new RocksDriver(path, open, database, columns, config.sync_writes));
}
