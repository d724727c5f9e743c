/**
 * What a store records about its backups: their names, and how far each chain of increments reaches. The redo
 * log is kept until every chain contains it.
 */
import type { WriteOperation } from '../engine.js';
import { kernelFamilies } from '../families.js';
import type { Store } from '../store.js';
import type { Reader, Transaction } from '../transaction.js';

interface BackupMark {
  lsns: readonly number[];
  atMs: number;
}

const marksKey = Buffer.from('backup_marks');
const namesKey = Buffer.from('backups_made');
/** An increment builds on the newest backup, so few names are needed: one for each directory of backups. */
const namesKept = 200;
/** A chain without a new increment for this long no longer prevents trimming of the log. */
const forgottenAfterMs = 30 * 24 * 3600 * 1000;

export function putBackupMark(tx: Transaction, directory: string, lsns: readonly number[]): void {
  const marks = Object.entries(readMarks(tx)).filter(([, { atMs }]) => tx.nowMs - atMs < forgottenAfterMs);
  const next = { ...Object.fromEntries(marks), [directory]: { lsns, atMs: tx.nowMs } };
  tx.put(kernelFamilies.meta, marksKey, Buffer.from(JSON.stringify(next)));
}

/** The transaction up to which every chain in use has the log of a shard; 0 when there is no chain. */
export function backedUpLsn(root: Reader, shard: number): number {
  const marks = Object.values(readMarks(root)).map(({ lsns }) => lsns[shard] ?? 0);
  return marks.length === 0 ? 0 : Math.min(...marks);
}

export function putBackupName(tx: Transaction, name: string): void {
  tx.put(
    kernelFamilies.meta,
    namesKey,
    Buffer.from(JSON.stringify([...(readNames(tx) ?? []), name].slice(-namesKept))),
  );
}

/**
 * Whether this store made the backup. A directory that was set back to an earlier state, or is a copy, did
 * not: it has the same id but other transactions since then. Also false if the store could not record the backup.
 */
export function wasMadeHere(reader: Reader, name: string): boolean {
  return readNames(reader)?.includes(name) ?? false;
}

/**
 * Called before the first write to the shards of a directory. Only after a backup can an increment follow, which needs
 * every write in the redo log.
 */
export function keepRedoAfterBackup(stores: readonly Store[]): void {
  const [root] = stores;
  if (root !== undefined && hasBackups(root)) for (const store of stores) store.keepRedo();
}

export function hasBackups(root: Reader): boolean {
  return readNames(root) !== undefined;
}

/** For a restored directory, which is another store and has made no backup. */
export const withoutBackups: readonly WriteOperation[] = [marksKey, namesKey].map((key) => ({
  family: kernelFamilies.meta,
  key,
  value: undefined,
}));

/** Undefined if the store has recorded no backup. */
function readNames(reader: Reader): string[] | undefined {
  const value = reader.get(kernelFamilies.meta, namesKey);
  return value === undefined ? undefined : (JSON.parse(value.toString()) as string[]);
}

function readMarks(reader: Reader): Record<string, BackupMark> {
  const value = reader.get(kernelFamilies.meta, marksKey);
  return value === undefined ? {} : (JSON.parse(value.toString()) as Record<string, BackupMark>);
}
