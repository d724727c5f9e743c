/** Scheduled backups: sometimes a full one, increments in between. Old chains are removed. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, messageOf } from '../../../../core/errors.js';
import { Periodic } from '../../../../core/waiting/periodic.js';
import { chainsOf, listBackups, newestAtMs, transactionsIn } from './chain.js';
import { type BackupDescription, descriptionFile } from './description.js';
import { isDirectory } from './directory.js';
import { hasBackups, wasMadeHere } from './marks.js';
import { verifyBackup } from './read.js';
import { backup } from './backup.js';
import type { Kernel } from '../kernel.js';

export interface BackupSchedule {
  directory: string;
  /** Time between two full backups. */
  fullEveryMs: number;
  /** Time between two increments; 0 means full ones only. */
  incrementalEveryMs: number;
  /** How many full backups stay, each with its increments. At least one. */
  chainsKept: number;
}

export interface ScheduleEvents {
  onBackup: (description: BackupDescription) => void;
  onError: (error: unknown, about: string) => void;
}

/** How often the clock is checked. */
const tickMs = 30_000;

export class BackupScheduler {
  readonly #kernel: Kernel;
  readonly #schedule: BackupSchedule;
  readonly #events: ScheduleEvents;
  readonly #ticks: Periodic;
  readonly #stopping = new AbortController();

  constructor(kernel: Kernel, schedule: BackupSchedule, events: ScheduleEvents) {
    this.#kernel = kernel;
    this.#schedule = schedule;
    this.#events = events;
    this.#ticks = new Periodic({
      everyMs: tickMs,
      run: () => this.#backUp(),
      onError: (error) => {
        if (!this.#stopping.signal.aborted)
          events.onError(error, `scheduled backup to ${schedule.directory}: ${messageOf(error)}`);
      },
    });
  }

  start(): void {
    this.#ticks.start();
    this.#ticks.runSoon();
  }

  /** Gives up a backup that is under way: the next start makes it. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ticks.close();
  }

  /** Makes the backup that is due, if any, after one that is under way. */
  tick(): Promise<void> {
    return this.#ticks.runNow();
  }

  async #backUp(): Promise<void> {
    const { directory, chainsKept } = this.#schedule;
    const due = dueBackup(await ownBackups(this.#kernel, directory), this.#schedule, this.#kernel.nowMs());
    if (due === null) return;
    const description = await this.#make(due);
    this.#events.onBackup(description);
    if (description.kind === 'full') await pruneChains(directory, this.#kernel.manifest.id, chainsKept);
  }

  /**
   * A full backup where an increment cannot build on the existing ones, because the next full one may be a
   * day away.
   */
  async #make(kind: 'full' | 'incremental'): Promise<BackupDescription> {
    const { directory } = this.#schedule;
    const { signal } = this.#stopping;
    try {
      return await backup(this.#kernel, { directory, kind, signal });
    } catch (error) {
      if (kind === 'full' || !(error instanceof StoaError) || error.code !== 'conflict') throw error;
      return backup(this.#kernel, { directory, kind: 'full', signal });
    }
  }
}

/** The kind of backup that is due, from the existing backups; null if none is due. */
function dueBackup(
  backups: readonly BackupDescription[],
  schedule: BackupSchedule,
  nowMs: number,
): 'full' | 'incremental' | null {
  // A backup with a time in the future was taken before the clock was set back. Waiting for that time could
  // take years.
  const hasRecent = (wanted: readonly BackupDescription[], withinMs: number): boolean =>
    wanted.map(newestAtMs).some((atMs) => atMs <= nowMs && nowMs - atMs < withinMs);
  if (
    !hasRecent(
      backups.filter(({ kind }) => kind === 'full'),
      schedule.fullEveryMs,
    )
  )
    return 'full';
  return schedule.incrementalEveryMs > 0 && !hasRecent(backups, schedule.incrementalEveryMs)
    ? 'incremental'
    : null;
}

/**
 * Removes the oldest chains of a store, each as a whole and from its end, so that the rest can always be
 * restored. After the store or the clock was set back, "older" is ambiguous: a chain is removed only if
 * enough chains are newer by position and by time.
 */
export async function pruneChains(directory: string, store: string, chainsKept: number): Promise<string[]> {
  const chains = chainsOf((await listBackups(directory)).filter((backup) => backup.store === store));
  const isOld = (chain: Chain): boolean =>
    chains.filter((other) => isNewer(other, chain)).length >= Math.max(1, chainsKept);
  const old = chains.filter(isOld);
  if (old.length === 0) return [];
  await checkOneIsWhole(directory, chains.filter((chain) => !old.includes(chain)).toReversed());
  const removed: string[] = [];
  for (const { name } of old.flatMap((chain) => chain.toReversed())) {
    await removeBackup(join(directory, name));
    removed.push(name);
  }
  return removed;
}

/**
 * Deletes the description last, so that a backup that is deleted halfway is still listed and removed later.
 */
async function removeBackup(path: string): Promise<void> {
  if (!(await isDirectory(path)))
    throw new StoaError('damaged_backup', `${path} is a link, so the backup was not removed.`, {
      fix: 'Remove the link, or move the backup to this path.',
    });
  for (const name of await readdir(path))
    if (name !== descriptionFile) await rm(join(path, name), { recursive: true });
  await rm(path, { recursive: true });
}

type Chain = readonly BackupDescription[];

function isNewer(a: Chain, b: Chain): boolean {
  const [newest, other] = [a.at(-1) as BackupDescription, b.at(-1) as BackupDescription];
  return transactionsIn(newest) > transactionsIn(other) && newestAtMs(newest) >= newestAtMs(other);
}

/**
 * Reads the remaining chains, newest first, until one is intact. Throws if none is, so that the last good one
 * stays.
 */
async function checkOneIsWhole(directory: string, chains: readonly Chain[]): Promise<void> {
  let reason: unknown;
  for (const chain of chains) {
    try {
      for (const description of chain) await verifyBackup(directory, description);
      return;
    } catch (error) {
      reason ??= error;
    }
  }
  throw new StoaError(
    'damaged_backup',
    `Old backups were not removed, because the newer ones cannot be restored: ${messageOf(reason)}`,
    {
      cause: reason,
      fix: 'Make a full backup, and run "stoa backup verify".',
    },
  );
}

/**
 * Empty if the store has recorded backups and none of these: the data directory is a copy, or was set back to before
 * them.
 */
async function ownBackups(kernel: Kernel, directory: string): Promise<BackupDescription[]> {
  try {
    const own = (await listBackups(directory)).filter(({ store }) => store === kernel.manifest.id);
    // A store that could record no backup, because it refuses writes, is not backed up at each tick.
    return !hasBackups(kernel.root) || own.some(({ name }) => wasMadeHere(kernel.root, name)) ? own : [];
  } catch (error) {
    // The first backup makes the directory.
    if ((error as { cause?: NodeJS.ErrnoException }).cause?.code === 'ENOENT') return [];
    throw error;
  }
}
