/** A directory of backups: full ones, and increments that each build on the one before. */
import { readdir } from 'node:fs/promises';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import { type BackupDescription, type ShardBackup, readDescription } from './description.js';
import { feedEpoch } from '../directory/manifest.js';
import { positionText } from '../../../../feed/positions.js';
import { fileFailure } from '../../../../core/files.js';
import type { BackupSummaries, BackupSummary } from '../../../../operations/model.js';

/** The content of a directory of backups. */
export interface BackupDirectory {
  /** Complete backups, oldest first by their positions, because clocks may be set back. */
  backups: BackupDescription[];
  /** Backups whose description cannot be used. The other backups can still be used. */
  unreadable: { name: string; error: StoaError }[];
}

export async function readBackups(directory: string): Promise<BackupDirectory> {
  let names: string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    const failure = fileFailure(directory, error);
    if (failure instanceof StoaError && failure.code === 'overloaded') throw failure;
    throw new StoaError('not_found', `${directory} cannot be read: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Name the directory that contains the backups.',
    });
  }
  const found: BackupDescription[] = [];
  const unreadable: BackupDirectory['unreadable'] = [];
  for (const name of names.toSorted()) {
    if (name.endsWith('.partial')) continue;
    try {
      const description = await readDescription(directory, name);
      if (description !== undefined) found.push(description);
    } catch (error) {
      if (!(error instanceof StoaError)) throw error;
      unreadable.push({ name, error });
    }
  }
  return {
    backups: found.toSorted((a, b) => transactionsIn(a) - transactionsIn(b) || (a.name < b.name ? -1 : 1)),
    unreadable,
  };
}

/** Every backup of a directory that can be read, oldest first. */
export async function listBackups(directory: string): Promise<BackupDescription[]> {
  return (await readBackups(directory)).backups;
}

/** The part of a store's history that a backup contains. */
export function transactionsIn({ shards }: BackupDescription): number {
  return shards.reduce((sum, { lsn }) => sum + lsn, 0);
}

/** The latest time in a backup, by the store's clock. */
export function newestAtMs({ shards }: BackupDescription): number {
  return Math.max(...shards.map(({ atMs }) => atMs));
}

/** The position of the change feed that a restore of it reaches. */
export function positionOfBackup({ store, shards }: BackupDescription): string {
  return positionText({ epoch: feedEpoch(store), numbers: shards.map(({ seq }) => seq) });
}

export function summaryOf(
  directory: string,
  backup: BackupDescription,
  reason: string | null = null,
): BackupSummary {
  const { name, kind, parent, store, taken_at } = backup;
  return {
    name,
    directory,
    kind,
    parent,
    store,
    taken_at,
    position: positionOfBackup(backup),
    size_bytes: chainBytes([backup]),
    with_key: backup.key !== undefined,
    reason,
  };
}

/** Every backup of a directory, oldest first, and directories that look like backups and cannot be read. */
export async function summariesIn(directory: string): Promise<BackupSummaries> {
  const { backups, unreadable } = await readBackups(directory);
  const items = backups.map((backup) => {
    const chain = chainOrRefusal(backups, backup.name);
    return summaryOf(directory, backup, chain instanceof StoaError ? chain.message : null);
  });
  return { items, unreadable: unreadable.map(({ name, error }) => ({ name, reason: error.message })) };
}

/**
 * The backups that lead to `name`: a full one first, then increments in order. Throws with the reason if the
 * chain is broken.
 */
export function chainTo(
  backups: readonly BackupDescription[],
  name: string,
  unreadable: BackupDirectory['unreadable'] = [],
): BackupDescription[] {
  const byName = new Map(backups.map((backup) => [backup.name, backup]));
  const chain: BackupDescription[] = [];
  for (let next: string | null = name; next !== null;) {
    const backup: BackupDescription | undefined = byName.get(next);
    if (backup === undefined)
      throw (
        unreadable.find((other) => other.name === next)?.error ??
        broken(
          chain.at(-1) === undefined
            ? `there is no backup named ${next}`
            : `${chain.at(-1)?.name} builds on ${next}, which is missing`,
        )
      );
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
      if (backup.kind !== 'full')
        throw broken(`${backup.name} is an increment without a full backup before it`);
      continue;
    }
    if (backup.kind !== 'incremental')
      throw broken(`${backup.name} is a full backup and cannot build on ${before.name}`);
    if (backup.store !== before.store)
      throw broken(`${backup.name} and ${before.name} are backups of different stores`);
    if (backup.shards.length !== before.shards.length)
      throw broken(
        `${backup.name} has ${backup.shards.length} shards, but ${before.name} has ${before.shards.length}`,
      );
    for (const [shard, { fromLsn }] of backup.shards.entries()) {
      const { lsn } = before.shards[shard] as ShardBackup;
      if (fromLsn !== lsn)
        throw broken(
          `${backup.name} begins after transaction ${fromLsn} of shard ${shard}, but ${before.name} ends with ${lsn}`,
        );
    }
  }
}

export function chainBytes(chain: readonly BackupDescription[]): number {
  return chain.reduce(
    (sum, backup) => sum + backup.shards.reduce((bytes, { file }) => bytes + file.sizeBytes, 0),
    0,
  );
}

/**
 * Every chain of a directory, the one with the newest backup last. A backup with a broken chain is left out.
 */
export function chainsOf(backups: readonly BackupDescription[]): BackupDescription[][] {
  const chains = new Map<BackupDescription, BackupDescription[]>();
  for (const backup of backups) {
    const chain = chainOrRefusal(backups, backup.name);
    if (chain instanceof StoaError) continue;
    const root = chain[0] as BackupDescription;
    const members = chains.get(root) ?? [];
    // Deleted first, so that the map is in the order of the newest members.
    chains.delete(root);
    chains.set(root, [...members, backup]);
  }
  return [...chains.values()];
}

/** Like `chainTo`, but returns the error if the chain is broken. */
export function chainOrRefusal(
  backups: readonly BackupDescription[],
  name: string,
): BackupDescription[] | StoaError {
  try {
    return chainTo(backups, name);
  } catch (error) {
    if (error instanceof StoaError && error.code === 'damaged_backup') return error;
    throw error;
  }
}

function broken(reason: string): StoaError {
  return new StoaError('damaged_backup', `The chain of backups is broken: ${reason}.`, {
    fix: 'Restore to an earlier backup, or find the missing one.',
  });
}
