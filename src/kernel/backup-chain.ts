/** A directory of backups: full ones, and increments that each build on the one before. */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, messageOf } from '../errors.js';
import { type FileFacts, readFrames } from './backup-file.js';
import { dataFormat } from './manifest.js';

/** What one shard was like at the moment of the backup. */
export interface ShardBackup {
  file: FileFacts;
  /** Increments only: they hold the transactions after this one. */
  fromLsn: number;
  /** The newest transaction in it, and the newest sequence number of the feed. */
  lsn: number;
  seq: number;
  /** When that was, by the store's clock. */
  atMs: number;
  /** Entries of a full backup, transactions of an increment. */
  entries: number;
}

/** `backup.json`: written last, so that a backup without it is none. */
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
}

export const descriptionFile = 'backup.json';

/** Every complete backup below a directory, oldest first: by what it holds, since clocks may be set back. */
export async function listBackups(directory: string): Promise<BackupDescription[]> {
  let names: string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    throw new StoaError('not_found', `${directory} cannot be read: ${messageOf(error)}.`, { cause: error, fix: 'Name the directory that holds the backups.' });
  }
  const found: BackupDescription[] = [];
  for (const name of names.toSorted()) {
    if (name.endsWith('.partial')) continue;
    const description = await readDescription(directory, name);
    if (description !== undefined) found.push(description);
  }
  return found.toSorted((a, b) => transactionsIn(a) - transactionsIn(b) || (a.name < b.name ? -1 : 1));
}

function transactionsIn({ shards }: BackupDescription): number {
  return shards.reduce((sum, { lsn }) => sum + lsn, 0);
}

/** The backups that lead to `name`: a full one first, then increments in order. Refuses a broken chain with the reason. */
export function chainTo(backups: readonly BackupDescription[], name: string): BackupDescription[] {
  const byName = new Map(backups.map((backup) => [backup.name, backup]));
  const chain: BackupDescription[] = [];
  for (let next: string | null = name; next !== null; ) {
    const backup: BackupDescription | undefined = byName.get(next);
    if (backup === undefined) throw broken(chain.at(-1) === undefined ? `there is no backup named ${next}` : `${chain.at(-1)?.name} builds on ${next}, which is missing`);
    if (chain.includes(backup)) throw broken(`${backup.name} builds on itself`);
    chain.push(backup);
    next = backup.parent;
  }
  chain.reverse();
  checkLinks(chain);
  return chain;
}

function checkLinks(chain: readonly BackupDescription[]): void {
  for (const [index, backup] of chain.entries()) {
    const before = chain[index - 1];
    if (before === undefined) {
      if (backup.kind !== 'full') throw broken(`${backup.name} is an increment without a full backup before it`);
      continue;
    }
    if (backup.store !== before.store) throw broken(`${backup.name} was taken from another store than ${before.name}`);
    if (backup.shards.length !== before.shards.length) throw broken(`${backup.name} has another number of shards than ${before.name}`);
    for (const [shard, { fromLsn }] of backup.shards.entries()) {
      const { lsn } = before.shards[shard] as ShardBackup;
      if (fromLsn !== lsn) throw broken(`${backup.name} begins after transaction ${fromLsn} of shard ${shard}, but ${before.name} ends with ${lsn}`);
    }
  }
}

/** Reads a whole chain and checks every byte of it, without restoring anything. */
export async function verifyChain(directory: string, chain: readonly BackupDescription[], onBytes?: (bytes: number) => void): Promise<void> {
  for (const backup of chain) {
    for (const { file } of backup.shards) {
      for await (const payload of readFrames(join(directory, backup.name, file.name), file, onBytes)) void payload;
    }
  }
}

export function chainBytes(chain: readonly BackupDescription[]): number {
  return chain.reduce((sum, backup) => sum + backup.shards.reduce((bytes, { file }) => bytes + file.sizeBytes, 0), 0);
}

async function readDescription(directory: string, name: string): Promise<BackupDescription | undefined> {
  const path = join(directory, name, descriptionFile);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw broken(`${path} cannot be read: ${messageOf(error)}`);
  }
  let description: BackupDescription;
  try {
    description = JSON.parse(text) as BackupDescription;
  } catch {
    throw broken(`${path} is not JSON`);
  }
  if (description.format > dataFormat) {
    throw new StoaError('newer_data', `The backup ${name} has format ${description.format}; this program knows formats up to ${dataFormat}.`, {
      fix: 'Restore it with the version of Stoa that wrote it, or a newer one.',
    });
  }
  if (description.name !== name || !Array.isArray(description.shards)) throw broken(`${path} does not describe the backup ${name}`);
  return description;
}

function broken(reason: string): StoaError {
  return new StoaError('damaged_backup', `The chain of backups is broken: ${reason}.`, { fix: 'Restore to an earlier backup, or find the missing one.' });
}
