/** `backup.json`: the description of a backup. Every field is checked. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import { type FileFacts, readSmallFile } from './file.js';
import { dataFormat, shardDirectory } from '../directory/manifest.js';
import { isMissing } from '../../../../core/files.js';

/** The state of one shard at the moment of the backup. */
export interface ShardBackup {
  file: FileFacts;
  /** Increments only: they hold the transactions after this one. */
  fromLsn: number;
  /** The newest transaction in it, and the newest sequence number of the feed. */
  lsn: number;
  seq: number;
  /** The time of that transaction, by the store's clock. */
  atMs: number;
  /** Entries of a full backup, transactions of an increment. */
  entries: number;
}

/** `backup.json` is written last. A directory without it is not a backup. */
export interface BackupDescription {
  format: number;
  name: string;
  kind: 'full' | 'incremental';
  /** The store it was taken from. */
  store: string;
  /** The name of the backup that this increment builds on; null for a full one. */
  parent: string | null;
  taken_at: string;
  engine: string;
  shards: ShardBackup[];
  /** The key ring for secrets, if it was requested. It can decrypt every secret in the backup. */
  key?: FileFacts;
}

export const descriptionFile = 'backup.json';
export const backupKeyFile = 'secret.keys';
/** Much larger than the description of the largest number of shards. */
const descriptionBytesMax = 16 * 1024 * 1024;

const backupName = /^\d{8}T\d{6}-\d{3}Z-(full|incremental)$/;

export function isBackupName(name: string): boolean {
  return backupName.test(name);
}

/** Made from the time, so that sorting the names sorts the backups. */
export function backupNameAt(takenAt: Date, kind: BackupDescription['kind']): string {
  return `${takenAt.toISOString().replaceAll(/[-:]/g, '').replace('.', '-')}-${kind}`;
}

/** `shard-00.data` of a full backup, `shard-00.redo` of an increment. */
export function shardFile(shard: number, kind: BackupDescription['kind']): string {
  return `${shardDirectory('', shard).split('/')[0]}.${kind === 'full' ? 'data' : 'redo'}`;
}

/** Undefined for a directory that is not a backup. Throws for a backup that cannot be used. */
export async function readDescription(
  directory: string,
  name: string,
): Promise<BackupDescription | undefined> {
  const path = join(directory, name, descriptionFile);
  if (isBackupName(name) && (await isLink(join(directory, name))))
    throw unusable(`${join(directory, name)} is a symbolic link`);
  const content = await readSmallFile(path, descriptionBytesMax);
  if (content === undefined) {
    // A backup gets its name when it is complete, so a missing description was deleted later.
    if (isBackupName(name) && (await holdsFiles(join(directory, name)))) throw unusable(`${path} is missing`);
    return undefined;
  }
  let value: unknown;
  try {
    value = JSON.parse(content.toString());
  } catch {
    throw unusable(`${path} is not JSON`);
  }
  const format = isRecord(value) ? value['format'] : undefined;
  if (typeof format === 'number' && format !== dataFormat) {
    throw new StoaError(
      'newer_data',
      `The backup ${name} has format ${format}. This program reads format ${dataFormat}.`,
      {
        fix: 'Restore it with the version of Stoa that wrote it.',
      },
    );
  }
  const fault = faultOf(value, name);
  if (fault !== undefined) throw unusable(`${path} does not describe the backup ${name}: ${fault}`);
  return value as BackupDescription; // faultOf checked every field.
}

/** A backup is never read or deleted through a link, which could lead elsewhere. */
async function isLink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch (error) {
    if (isMissing(error)) return false;
    throw unusable(`${path} cannot be read: ${fileReasonOf(error)}`);
  }
}

async function holdsFiles(path: string): Promise<boolean> {
  try {
    return (await readdir(path)).length > 0;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return false;
    throw unusable(`${path} cannot be read: ${fileReasonOf(error)}`);
  }
}

function unusable(reason: string): StoaError {
  return new StoaError('damaged_backup', `${reason}.`, {
    fix: 'Use another copy of this backup, or restore another backup of the directory with --name or --to.',
  });
}

/** The first invalid field, or undefined. */
function faultOf(value: unknown, name: string): string | undefined {
  if (!isRecord(value)) return 'it is not a JSON object';
  const { kind, parent, shards, key } = value;
  if (!isCount(value['format']) || value['format'] === 0) return '"format" is not a positive number';
  if (value['name'] !== name) return '"name" is different';
  if (kind !== 'full' && kind !== 'incremental') return '"kind" is neither full nor incremental';
  if (parent !== null && typeof parent !== 'string') return '"parent" is neither null nor a string';
  for (const field of ['store', 'taken_at', 'engine'])
    if (typeof value[field] !== 'string') return `"${field}" is not a string`;
  if (!Array.isArray(shards) || shards.length === 0) return '"shards" is missing or empty';
  for (const [shard, part] of (shards as unknown[]).entries()) {
    const fault = faultOfShard(part, shardFile(shard, kind));
    if (fault !== undefined) return `in shard ${shard}, ${fault}`;
  }
  return key === undefined ? undefined : faultOfFile(key, backupKeyFile);
}

function faultOfShard(part: unknown, file: string): string | undefined {
  if (!isRecord(part)) return 'the entry is not an object';
  for (const field of ['fromLsn', 'lsn', 'seq', 'atMs', 'entries'])
    if (!isCount(part[field])) return `"${field}" is not a number`;
  return faultOfFile(part['file'], file);
}

/**
 * The file must have the exact name that a backup gives it: not a path, and not the name of another shard's
 * file.
 */
function faultOfFile(file: unknown, name: string): string | undefined {
  if (!isRecord(file)) return '"file" is missing';
  if (file['name'] !== name) return `the file name is not ${name}`;
  if (!isCount(file['sizeBytes'])) return `the size of ${name} is not a number`;
  return typeof file['sha256'] === 'string' && /^[0-9a-f]{64}$/.test(file['sha256'])
    ? undefined
    : `the SHA-256 of ${name} is not 64 hexadecimal digits`;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
