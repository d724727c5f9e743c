/** The operator's choices for the storage engine of a data directory. */

export type EngineName = 'lmdb' | 'rocksdb' | 'memory';
export const engineNames: readonly EngineName[] = ['lmdb', 'rocksdb', 'memory'];

/** The seed's store configuration, with its names and defaults. */
export interface StoreConfig {
  /** Directory of this one database. */
  data_dir: string;
  /** Wait for the disk on every commit. `false` can lose acknowledged writes and is never the default. */
  sync_writes: boolean;
  /** Accepted without effect: LMDB always has two files open, and the RocksDB package has no such option. */
  max_open_files: number;
  /** Memory for cached blocks of all families together, on engines that have a block cache. */
  block_cache_bytes: number;
}

export const storeConfigDefaults: StoreConfig = {
  data_dir: './data',
  sync_writes: true,
  max_open_files: 1000,
  block_cache_bytes: 128 * 1024 * 1024,
};
