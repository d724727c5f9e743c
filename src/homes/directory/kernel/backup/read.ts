/** Reads and checks the files of a backup. A restore writes the content; a verification only reads it. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { StoaError, messageOf } from '../../../../core/errors.js';
import { chainBytes, chainTo, readBackups } from './chain.js';
import type { BackupDescription, ShardBackup } from './description.js';
import { decodeEntries } from './entries.js';
import { type FileFacts, readFrames, readSmallFile } from './file.js';
import type { Entry } from '../engine.js';
import { type RedoTransaction, decodeRedo } from '../feed/log.js';
import type { BackupVerdict, OnProgress } from '../../../../operations/model.js';

type OnBytes = (bytes: number) => void;

/** The pages of one shard of a full backup. */
export async function* readEntries(
  directory: string,
  backup: BackupDescription,
  part: ShardBackup,
  onBytes?: OnBytes,
): AsyncGenerator<{ family: string; entries: Entry[] }> {
  let count = 0;
  for await (const frame of readFrames(join(directory, backup.name, part.file.name), part.file, onBytes)) {
    const page = decodedFrame(backup, () => decodeEntries(frame));
    count += page.entries.length;
    yield page;
  }
  checkCount(backup, 'entries', part.entries, count);
}

/** The transactions of one shard of an increment, a frame at a time, without a gap. */
export async function* readTransactions(
  directory: string,
  backup: BackupDescription,
  part: ShardBackup,
  onBytes?: OnBytes,
): AsyncGenerator<RedoTransaction[]> {
  let lsn = part.fromLsn;
  let count = 0;
  for await (const frame of readFrames(join(directory, backup.name, part.file.name), part.file, onBytes)) {
    // A record of the log can begin before the increment does.
    const items = decodedFrame(backup, () => decodeRedo(frame).items).filter(
      (item) => item.lsn > part.fromLsn,
    );
    for (const item of items) {
      if (item.lsn !== lsn + 1) throw damaged(backup, `transaction ${item.lsn} comes after ${lsn}`);
      lsn = item.lsn;
    }
    count += items.length;
    yield items;
  }
  if (lsn !== part.lsn) throw damaged(backup, `it ends with transaction ${lsn} instead of ${part.lsn}`);
  checkCount(backup, 'transactions', part.entries, count);
}

/** The key ring in a backup; undefined if the backup has none. */
export async function readKey(
  directory: string,
  { name, key }: BackupDescription,
): Promise<Buffer | undefined> {
  if (key === undefined) return undefined;
  const path = join(directory, name, key.name);
  const content = await readSmallFile(path, key.sizeBytes);
  if (content === undefined) throw new StoaError('damaged_backup', `${path} is missing.`);
  if (!isSame(content, key))
    throw new StoaError('damaged_backup', `The size or SHA-256 of ${path} differs from backup.json.`);
  return content;
}

/** Reads every byte of every backup in a directory and checks every chain, without restoring anything. */
export async function verifyBackups(directory: string, onProgress?: OnProgress): Promise<BackupVerdict[]> {
  const { backups, unreadable } = await readBackups(directory);
  const progress = { done: 0, total: chainBytes(backups) };
  const onBytes: OnBytes = (bytes) => {
    progress.done += bytes;
    onProgress?.(progress);
  };
  const reasons = new Map<string, string>();
  for (const backup of backups) {
    const reason = await refusalOf(async () => {
      const before = chainTo(backups, backup.name, unreadable).find(({ name }) => reasons.has(name));
      await verifyBackup(directory, backup, onBytes);
      if (before !== undefined) throw damaged(backup, `it builds on ${before.name}, which cannot be used`);
    });
    if (reason !== undefined) reasons.set(backup.name, reason);
  }
  const read = backups.map(({ name, kind }) => ({
    name,
    kind,
    ok: !reasons.has(name),
    reason: reasons.get(name) ?? null,
  }));
  return [
    ...unreadable.map(({ name, error }) => ({ name, kind: null, ok: false, reason: error.message })),
    ...read,
  ];
}

/** Reads every byte of one backup. Throws if it differs from what was written. */
export async function verifyBackup(
  directory: string,
  backup: BackupDescription,
  onBytes?: OnBytes,
): Promise<void> {
  const read = backup.kind === 'full' ? readEntries : readTransactions;
  for (const part of backup.shards) {
    for await (const page of read(directory, backup, part, onBytes)) void page;
  }
  await readKey(directory, backup);
}

async function refusalOf(check: () => Promise<void>): Promise<string | undefined> {
  try {
    await check();
    return undefined;
  } catch (error) {
    if (error instanceof StoaError && (error.code === 'damaged_backup' || error.code === 'newer_data'))
      return error.message;
    throw error;
  }
}

/** A frame with a correct checksum and invalid content was written wrong, which is damage too. */
function decodedFrame<T>(backup: BackupDescription, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    if (error instanceof StoaError && error.code === 'newer_data') throw error;
    throw damaged(backup, `one of its frames cannot be read: ${messageOf(error)}`, error);
  }
}

function isSame(content: Buffer, { sizeBytes, sha256 }: FileFacts): boolean {
  return content.length === sizeBytes && createHash('sha256').update(content).digest('hex') === sha256;
}

function checkCount(backup: BackupDescription, what: string, expected: number, found: number): void {
  if (expected !== found) throw damaged(backup, `it has ${found} ${what}, but ${expected} were written`);
}

function damaged({ name }: BackupDescription, reason: string, cause?: unknown): StoaError {
  return new StoaError('damaged_backup', `The backup ${name} cannot be used: ${reason.replace(/\.$/, '')}.`, {
    cause,
    fix: 'Use another copy of this backup, or restore to a point before it.',
  });
}
