/** Chooses the backups that a restore reads, and checks that they reach the wanted point. */
import { StoaError } from '../../../../core/errors.js';
import { chainOrRefusal, chainTo, newestAtMs, positionOfBackup, readBackups } from './chain.js';
import type { BackupDescription } from './description.js';
import { feedEpoch } from '../directory/manifest.js';
import { type RestorePoint, restorePosition } from '../../../../operations/model.js';

export interface ShardPoint {
  seq: number;
  timeMs: number;
}

export interface ChainChoice {
  /** The directory that holds the backups. */
  directory: string;
  to?: RestorePoint | undefined;
  /** A backup to end with; undefined for the newest, or for the first that reaches `to`. */
  name?: string | undefined;
}

/** The chain to read: to the backup that is named, to the first that reaches the point, or to the newest. */
export async function chooseChain(options: ChainChoice): Promise<BackupDescription[]> {
  const { backups, unreadable } = await readBackups(options.directory);
  // The unreadable backup may be the newest one.
  const [hidden] = unreadable;
  if (hidden !== undefined && options.name === undefined && options.to === undefined) throw hidden.error;
  if (backups.length === 0)
    throw new StoaError('not_found', `${options.directory} has no complete backup.`, {
      fix: 'Name the directory that "stoa backup" wrote to.',
    });
  const end = options.name ?? chosen(options, backups);
  const chain = chainTo(backups, end, unreadable);
  checkReach(chain, options.to);
  return chain;
}

/** Throws if the directory has backups of several stores, or if the newest backup is ambiguous. */
function chosen({ directory, to }: ChainChoice, backups: readonly BackupDescription[]): string {
  const stores = new Set(backups.filter(({ kind }) => kind === 'full').map(({ store }) => store));
  const newestOfStores = [...stores].map(
    (store) => backups.findLast((backup) => backup.store === store) as BackupDescription,
  );
  if (newestOfStores.length > 1)
    throw ambiguous(`${directory} has backups of ${newestOfStores.length} stores`, newestOfStores);
  if (to !== undefined) return backupReaching(backups, to);
  const newest = backups.at(-1) as BackupDescription;
  const latest = backups.reduce(
    (found, backup) => (newestAtMs(backup) > newestAtMs(found) ? backup : found),
    newest,
  );
  const chain = chainOrRefusal(backups, newest.name);
  if (latest !== newest && !(chain instanceof StoaError) && !chain.includes(latest)) {
    throw ambiguous(
      'The newest backup is ambiguous, because the clock or the data directory was set back. One backup has the latest time, another the highest position',
      [latest, newest],
    );
  }
  return newest.name;
}

function ambiguous(reason: string, candidates: readonly BackupDescription[]): StoaError {
  const list = candidates.map(
    (backup) =>
      `${backup.name} (position ${positionOfBackup(backup)}, ${new Date(newestAtMs(backup)).toISOString()})`,
  );
  return new StoaError('conflict', `${reason}: ${list.join(', ')}.`, {
    fix: 'Choose the last backup to restore with --name.',
  });
}

/**
 * The first backup that reaches the point and builds on a full backup from before it. A broken chain is used
 * only if there is no other.
 */
function backupReaching(backups: readonly BackupDescription[], to: RestorePoint): string {
  const reaching = backups.filter((backup) => reaches(backup, to));
  const chains = new Map(reaching.map((backup) => [backup, chainOrRefusal(backups, backup.name)]));
  const usable = reaching.find((backup) => {
    const chain = chains.get(backup);
    return Array.isArray(chain) && !isAfter(chain[0] as BackupDescription, to);
  });
  const best =
    usable ??
    reaching.find((backup) => chains.get(backup) instanceof StoaError) ??
    reaching[0] ??
    backups.at(-1);
  return (best as BackupDescription).name;
}

/** Whether the backup and those that it builds on contain everything up to the point. */
function reaches(backup: BackupDescription, to: RestorePoint): boolean {
  const points = pointOfShards(to, backup);
  if ('timeMs' in to) return backup.shards.every(({ atMs }) => atMs >= to.timeMs);
  return backup.shards.every(({ seq }, shard) => seq >= (points[shard] as ShardPoint).seq);
}

/** Whether a full backup contains changes from after the point. */
function isAfter(full: BackupDescription, to: RestorePoint): boolean {
  const points = pointOfShards(to, full);
  return full.shards.some(({ seq, atMs }, shard) =>
    'timeMs' in to ? atMs > to.timeMs : seq > (points[shard] as ShardPoint).seq,
  );
}

function checkReach(chain: readonly BackupDescription[], to: RestorePoint | undefined): void {
  if (to === undefined) return;
  const full = chain[0] as BackupDescription;
  const last = chain.at(-1) as BackupDescription;
  if (isAfter(full, to)) {
    throw new StoaError('conflict', `The full backup ${full.name} is newer than ${nameOf(to)}.`, {
      fix: 'Restore from an older full backup, or to a later point.',
    });
  }
  if (!reaches(last, to)) {
    const end = `position ${positionOfBackup(last)}, ${new Date(Math.min(...last.shards.map(({ atMs }) => atMs))).toISOString()}`;
    throw new StoaError('conflict', `The backups end before ${nameOf(to)}: the newest reaches ${end}.`, {
      fix: 'Restore to an earlier point, or leave out --to for the newest.',
    });
  }
}

function nameOf(to: RestorePoint): string {
  return 'timeMs' in to ? new Date(to.timeMs).toISOString() : `the position ${to.position}`;
}

export function pointOfShards(
  to: RestorePoint | undefined,
  { store, shards }: Pick<BackupDescription, 'store' | 'shards'>,
): ShardPoint[] {
  if (to === undefined) return shards.map(() => ({ seq: Infinity, timeMs: Infinity }));
  if ('timeMs' in to) return shards.map(() => ({ seq: Infinity, timeMs: to.timeMs }));
  const [, epoch, numbers = ''] = restorePosition.exec(to.position) ?? [];
  const points = numbers.split('.');
  if (numbers === '' || points.length !== shards.length)
    throw new StoaError(
      'invalid_request',
      `Invalid position "${to.position}" for a store with ${shards.length} shard(s).`,
      { fix: 'Use a position or a sequence number of the change feed, or a time.' },
    );
  if (epoch !== undefined && epoch !== feedEpoch(store))
    throw new StoaError(
      'conflict',
      `The position "${to.position}" belongs to a different store. The positions of these backups begin with ${feedEpoch(store)}.`,
      { fix: 'Use a position of the store that was backed up, or a time.' },
    );
  return points.map((seq) => ({ seq: Number(seq), timeMs: Infinity }));
}
