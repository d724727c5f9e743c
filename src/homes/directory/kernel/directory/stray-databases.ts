/**
 * Finds databases of a directory that its manifest does not name, because the manifest was lost or changed.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError } from '../../../../core/errors.js';
import { type EngineName, storeConfigDefaults } from '../../../../core/settings/store-config.js';
import { openEngine } from '../engines/index.js';
import { kernelFamilies } from '../families.js';
import { type Manifest, shardDirectory, storeIdKey } from './manifest.js';
import { isMissing } from '../../../../core/files.js';

/** A file that every database of an engine has. */
const ownFiles: readonly (readonly [EngineName, string])[] = [
  ['lmdb', 'data.mdb'],
  ['rocksdb', 'CURRENT'],
];

const putBack = 'Put stoa.json back from a copy, or restore a backup into a new directory.';

/** A new store is not created beside a database of another engine, because its data would be hidden. */
export async function refuseOtherEngine(dataDir: string, engine: EngineName): Promise<void> {
  const path = shardDirectory(dataDir, 0);
  const other = (await enginesIn(path)).find((name) => name !== engine);
  if (other === undefined) return;
  throw new StoaError(
    'damaged_data',
    `${path} contains a database of ${other}, but ${join(dataDir, 'stoa.json')} is missing.`,
    { fix: `${putBack} If nothing was ever stored in it, start with --engine ${other}.` },
  );
}

/** With a smaller number of shards, users would be looked up in the wrong shard. */
export async function refuseMoreShards(dataDir: string, { engine, id, shards }: Manifest): Promise<void> {
  const path = shardDirectory(dataDir, shards);
  if (!(await enginesIn(path)).includes(engine)) return;
  const next = await openEngine(engine, { ...storeConfigDefaults, data_dir: path }, [kernelFamilies.meta]);
  try {
    // A database with another id was left by an interrupted creation.
    if (next.get(kernelFamilies.meta, storeIdKey)?.toString() !== id) return;
  } finally {
    await next.close();
  }
  throw new StoaError(
    'damaged_data',
    `${join(dataDir, 'stoa.json')} names ${shards} shard(s), but ${path} exists too.`,
    { fix: `${putBack} Only "stoa reshard" changes the number of shards.` },
  );
}

async function enginesIn(path: string): Promise<EngineName[]> {
  try {
    const names = await readdir(path);
    return ownFiles.filter(([, file]) => names.includes(file)).map(([engine]) => engine);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
