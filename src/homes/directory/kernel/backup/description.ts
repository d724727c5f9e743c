/** `backup.json`: the description of a backup. Every field is checked. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import { fieldErrors } from '../../../../core/validation/validate.js';
import { type FileFacts, readSmallFile } from './file.js';
import { dataFormat, shardDirectory } from '../directory/manifest.js';
import { isMissing } from '../../../../core/files.js';

const count = z.int().min(0);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits');
const fileSchema = z.object({ name: z.string(), sizeBytes: count, sha256 }) satisfies z.ZodType<FileFacts>;

/** The state of one shard at the moment of the backup. */
const shardSchema = z.object({
  file: fileSchema,
  /** Increments only: they hold the transactions after this one. */
  fromLsn: count,
  /** The newest transaction in it, and the newest sequence number of the feed. */
  lsn: count,
  seq: count,
  /** The time of that transaction, by the store's clock. */
  atMs: count,
  /** Entries of a full backup, transactions of an increment. */
  entries: count,
});
export type ShardBackup = z.output<typeof shardSchema>;

/** `backup.json` is written last. A directory without it is not a backup. */
const descriptionSchema = z.object({
  format: count,
  name: z.string(),
  kind: z.enum(['full', 'incremental']),
  /** The store it was taken from. */
  store: z.string(),
  /** The name of the backup that this increment builds on; null for a full one. */
  parent: z.string().nullable(),
  taken_at: z.string(),
  engine: z.string(),
  shards: z.array(shardSchema).min(1),
  /** The key ring for secrets, if it was requested. It can decrypt every secret in the backup. */
  key: fileSchema.optional(),
});
export type BackupDescription = z.output<typeof descriptionSchema>;

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
  const { data: version } = z.object({ format: count }).safeParse(value);
  if (version !== undefined && version.format !== dataFormat)
    throw new StoaError(
      'newer_data',
      `The backup ${name} has format ${version.format}. This program reads format ${dataFormat}.`,
      { fix: 'Restore it with the version of Stoa that wrote it.' },
    );
  const checked = descriptionSchema.safeParse(value, { reportInput: true });
  const fault = checked.success ? faultOf(checked.data, name) : complaintOf(checked.error);
  if (fault !== undefined || !checked.success)
    throw unusable(`${path} does not describe the backup ${name}: ${fault}`);
  return checked.data;
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

function complaintOf(error: z.ZodError): string {
  const [first] = fieldErrors(error);
  return first === undefined ? error.message : `${first.field || 'it'} ${first.message}`;
}

/** Files must have the exact names that a backup gives them: not a path, and not that of another shard. */
function faultOf({ name, kind, shards, key }: BackupDescription, directory: string): string | undefined {
  if (name !== directory) return 'name is different';
  const expected = shards.map(({ file }, shard) => [file.name, shardFile(shard, kind)] as const);
  const wrong = [...expected, [key?.name ?? backupKeyFile, backupKeyFile] as const].find(
    ([found, right]) => found !== right,
  );
  return wrong && `a file name is not ${wrong[1]}`;
}
