/** `stoa.json` in a data directory: the settings of its creation, checked at every open. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import { blake3 } from '../../../../core/ids/blake3.js';
import { type EngineName, engineNames } from '../../../../core/settings/store-config.js';
import { type WriteOperation } from '../engine.js';
import { kernelFamilies } from '../families.js';
import { isMissing, writeDurably } from '../../../../core/files.js';

/** The format of everything in a data directory. A program refuses any other. */
export const dataFormat = 2;

export interface Manifest {
  format: number;
  /** The id of this store, also in its backups. */
  id: string;
  engine: EngineName;
  shards: number;
  created_at: string;
}

export function shardDirectory(dataDir: string, shard: number): string {
  return join(dataDir, `shard-${String(shard).padStart(2, '0')}`, 'db');
}

/** The seed's rule: the first byte of the BLAKE3 of the user id, modulo the number of shards. */
export function shardOf(userKey: Buffer, shards: number): number {
  return (blake3(userKey)[0] as number) % shards;
}

/** The epoch in the positions of a store's change feed. A restore makes a new store. */
export function feedEpoch(storeId: string): string {
  return storeId.replaceAll('-', '').slice(0, 12);
}

/** The entry by which each database shows that it belongs to a manifest. */
export const storeIdKey = Buffer.from('store_id');

export function storeMark({ id }: Manifest): WriteOperation & { value: Buffer } {
  return { family: kernelFamilies.meta, key: storeIdKey, value: Buffer.from(id) };
}

export function newManifest(engine: EngineName, shards: number): Manifest {
  return { format: dataFormat, id: randomUUID(), engine, shards, created_at: new Date().toISOString() };
}

/** The manifest of a directory, or undefined if it does not exist yet. */
export async function readManifest(dataDir: string): Promise<Manifest | undefined> {
  const path = join(dataDir, 'stoa.json');
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw new StoaError('damaged_data', `${path} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Check the permissions of the data directory.',
    });
  }
  return checkManifest(path, text);
}

/** Written under another name and renamed, so that a crash leaves either no manifest or a complete one. */
export async function writeManifest(dataDir: string, manifest: Manifest): Promise<void> {
  const path = join(dataDir, 'stoa.json');
  await writeDurably(path, `${JSON.stringify(manifest, null, 2)}\n`);
}

function checkManifest(path: string, text: string): Manifest {
  let manifest: Partial<Manifest>;
  try {
    // `null` is JSON too.
    manifest = (JSON.parse(text) ?? {}) as Partial<Manifest>;
  } catch (error) {
    throw new StoaError('damaged_data', `${path} is not JSON.`, {
      cause: error,
      fix: 'Restore the file from a backup, or the whole directory with "stoa restore".',
    });
  }
  if (typeof manifest.format === 'number' && manifest.format !== dataFormat) {
    throw new StoaError(
      'newer_data',
      `The data has format ${manifest.format}. This program reads format ${dataFormat}.`,
      { fix: 'Use the version of Stoa that wrote the data.' },
    );
  }
  const { format, id, engine, shards, created_at } = manifest;
  const whole =
    format === dataFormat &&
    typeof id === 'string' &&
    typeof created_at === 'string' &&
    Number.isInteger(shards) &&
    Number(shards) > 0 &&
    engineNames.includes(engine as EngineName) &&
    engine !== 'memory';
  if (!whole) {
    throw new StoaError('damaged_data', `${path} is incomplete: a required field is missing or invalid.`, {
      fix: 'Restore the file from a backup, or the whole directory with "stoa restore".',
    });
  }
  return manifest as Manifest;
}
