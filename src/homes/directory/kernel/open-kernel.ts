/** Opens a data directory as a kernel: creates it or checks it, and opens its shards. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, fileReasonOf } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { storeConfigDefaults } from '../../../core/settings/store-config.js';
import { openEngine } from './engines/index.js';
import { kernelFamilies } from './families.js';
import { refuseLosses } from './directory/durable-note.js';
import { isMissing, makePrivateDirectory, removeDrafts } from '../../../core/files.js';
import { type DirectoryLock, acquireLock, lockPath } from './directory/lock.js';
import {
  type Manifest,
  newManifest,
  readManifest,
  shardDirectory,
  storeIdKey,
  storeMark,
  writeManifest,
} from './directory/manifest.js';
import { finishIntents } from './shards/pairs.js';
import { lastAliveMs } from './outages.js';
import { Store } from './store.js';
import { refuseMoreShards, refuseOtherEngine } from './directory/stray-databases.js';
import { Kernel, type KernelOptions } from './kernel.js';

/**
 * Opens a directory, and creates it if it does not exist. One process at a time. The engine `memory` stores
 * nothing on disk.
 */
export async function openKernel(options: KernelOptions): Promise<Kernel> {
  if (options.engine === 'memory')
    return openShards(
      options,
      newManifest('memory', checkShards(options.shards ?? 1, options.limits)),
      undefined,
    );
  await makeDirectory(options.dataDir);
  const lockTouchedMs = await modifiedMs(lockPath(options.dataDir));
  let kernel: Kernel | undefined;
  const lock = await acquireLock(options.dataDir, {}, () => kernel?.loseDirectory());
  try {
    await removeDrafts(options.dataDir);
    const { manifest, isNew } = await manifestOf(options);
    await (isNew
      ? refuseOtherEngine(options.dataDir, manifest.engine)
      : refuseMoreShards(options.dataDir, manifest));
    kernel = await openShards(options, manifest, lock);
    try {
      await markStores(kernel, isNew);
      if (!isNew) {
        // Checked before the first write, which would hide that a database has lost data.
        await refuseLosses(options.dataDir, manifest, kernel.lsns);
        // Also before the first write, which would look like a sign of life.
        const aliveMs = lastAliveMs(kernel.stores, lockTouchedMs);
        await finishIntents(kernel.stores);
        await kernel.recordOutage(aliveMs);
      }
      // Written last: a directory whose creation was interrupted has no manifest, and is created again.
      if (isNew) await writeManifest(options.dataDir, manifest);
      await kernel.beginNote();
    } catch (error) {
      await kernel.abandon();
      throw error;
    }
    return kernel;
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function openShards(
  options: KernelOptions,
  manifest: Manifest,
  lock: DirectoryLock | undefined,
): Promise<Kernel> {
  const families = [...Object.values(kernelFamilies), ...options.families];
  const stores: Store[] = [];
  try {
    for (let shard = 0; shard < manifest.shards; shard += 1) {
      const config = {
        ...storeConfigDefaults,
        ...options.storeConfig,
        data_dir: shardDirectory(options.dataDir, shard),
        scattered_families: options.scatteredFamilies,
      };
      // The seed's cache size is for the whole store; the shards share it.
      config.block_cache_bytes = Math.floor(config.block_cache_bytes / manifest.shards);
      const opened = await openEngine(manifest.engine, config, families);
      const engine = options.wrapEngine?.(opened, shard) ?? opened;
      try {
        stores.push(
          new Store({
            engine,
            families,
            limits: options.limits,
            ...(options.clock && { clock: options.clock }),
            ...(options.onGroup && { onGroup: options.onGroup }),
          }),
        );
      } catch (error) {
        await engine.close();
        throw error;
      }
    }
    return new Kernel(options, manifest, stores, lock);
  } catch (error) {
    for (const store of stores) await store.close();
    throw error;
  }
}

function checkShards(shards: number, limits: Limits): number {
  if (!Number.isInteger(shards) || shards < 1 || shards > limits.shardsMax) {
    throw new StoaError(
      'invalid_config',
      `Invalid number of shards ${shards}. Expected 1 to ${limits.shardsMax} (shardsMax).`,
    );
  }
  return shards;
}

async function manifestOf(options: KernelOptions): Promise<{ manifest: Manifest; isNew: boolean }> {
  const found = await readManifest(options.dataDir);
  if (found === undefined) {
    return {
      manifest: newManifest(options.engine ?? 'lmdb', checkShards(options.shards ?? 1, options.limits)),
      isNew: true,
    };
  }
  if (options.engine !== undefined && options.engine !== found.engine) {
    throw new StoaError(
      'invalid_config',
      `${options.dataDir} was created with the engine ${found.engine}, not ${options.engine}.`,
      {
        fix: `Remove the engine setting, or convert the data: run "stoa backup", then "stoa restore --engine ${options.engine}" into a new directory.`,
      },
    );
  }
  if (options.shards !== undefined && options.shards !== found.shards) {
    throw new StoaError(
      'invalid_config',
      `${options.dataDir} was created with ${found.shards} shard(s), not ${options.shards}.`,
      { fix: 'Remove the shards setting, or run "stoa reshard", which writes a new directory.' },
    );
  }
  return { manifest: found, isNew: false };
}

/** Each database stores the id of the manifest, so that an empty or a foreign database is detected. */
async function markStores(kernel: Kernel, isNew: boolean): Promise<void> {
  for (const [shard, store] of kernel.stores.entries()) {
    const marked = store.get(kernelFamilies.meta, storeIdKey)?.toString();
    const path = shardDirectory(kernel.dataDir, shard);
    if (isNew) {
      if (store.sequence > 0) {
        throw new StoaError(
          'damaged_data',
          `${path} contains data, but ${join(kernel.dataDir, 'stoa.json')} is missing.`,
          { fix: 'Put stoa.json back from a copy, or restore a backup into a new directory.' },
        );
      }
      const { family, key, value } = storeMark(kernel.manifest);
      await store.transact((tx) => tx.put(family, key, value));
    } else if (marked !== kernel.manifest.id) {
      const reason =
        marked === undefined
          ? 'its database is empty, but data was stored in it'
          : 'its database belongs to another data directory';
      throw new StoaError('damaged_data', `${path} cannot be used: ${reason}.`, {
        fix: 'Put the right files back, or restore a backup into a new directory.',
      });
    }
  }
}

async function makeDirectory(path: string): Promise<void> {
  try {
    await makePrivateDirectory(path);
  } catch (error) {
    throw new StoaError(
      'invalid_config',
      `The data directory ${path} cannot be created: ${fileReasonOf(error)}.`,
      {
        cause: error,
        fix: 'Choose another directory with --data, or check the permissions.',
      },
    );
  }
}

async function modifiedMs(path: string): Promise<number> {
  try {
    return (await stat(path)).mtimeMs;
  } catch (error) {
    if (isMissing(error)) return 0;
    throw new StoaError('invalid_config', `${path} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Check the permissions of the data directory.',
    });
  }
}
