/** Backups by the clock: a full one now and then, increments in between, old chains taken away. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../errors.js';
import { type BackupDescription, chainsOf, listBackups } from './backup-chain.js';
import { backup } from './backup.js';
import type { Kernel } from './kernel.js';

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

/** How often the clock is looked at. */
const tickMs = 30_000;

export class BackupScheduler {
  readonly #kernel: Kernel;
  readonly #schedule: BackupSchedule;
  readonly #events: ScheduleEvents;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;

  constructor(kernel: Kernel, schedule: BackupSchedule, events: ScheduleEvents) {
    this.#kernel = kernel;
    this.#schedule = schedule;
    this.#events = events;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.tick(), tickMs);
    this.#timer.unref();
    void this.tick();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#running;
  }

  /** Makes the backup that is due, if one is. A tick during a running backup waits for that one. */
  async tick(): Promise<void> {
    this.#running ??= this.#backUp().finally(() => {
      this.#running = undefined;
    });
    await this.#running;
  }

  async #backUp(): Promise<void> {
    const { directory, chainsKept } = this.#schedule;
    try {
      const kind = dueBackup(await ownBackups(this.#kernel, directory), this.#schedule, this.#kernel.nowMs());
      if (kind === null) return;
      this.#events.onBackup(await backup(this.#kernel, { directory, kind }));
      if (kind === 'full') await pruneChains(directory, this.#kernel.manifest.id, chainsKept);
    } catch (error) {
      this.#events.onError(error, `scheduled backup to ${directory}: ${messageOf(error)}`);
    }
  }
}

/** Which backup is due, going by those that are there; null when none is. */
export function dueBackup(backups: readonly BackupDescription[], schedule: BackupSchedule, nowMs: number): 'full' | 'incremental' | null {
  const full = backups.findLast(({ kind }) => kind === 'full');
  if (full === undefined || nowMs - takenAtMs(full) >= schedule.fullEveryMs) return 'full';
  const newest = backups.at(-1) as BackupDescription;
  if (schedule.incrementalEveryMs > 0 && nowMs - takenAtMs(newest) >= schedule.incrementalEveryMs) return 'incremental';
  return null;
}

/** Removes the oldest chains of a store, each whole and from its end, so that what is left can always be restored. */
export async function pruneChains(directory: string, store: string, chainsKept: number): Promise<string[]> {
  const chains = chainsOf((await listBackups(directory)).filter((backup) => backup.store === store));
  const removed: string[] = [];
  for (const { name } of chains.slice(0, -Math.max(1, chainsKept)).flatMap((chain) => chain.toReversed())) {
    await rm(join(directory, name), { recursive: true });
    removed.push(name);
  }
  return removed;
}

async function ownBackups(kernel: Kernel, directory: string): Promise<BackupDescription[]> {
  try {
    return (await listBackups(directory)).filter(({ store }) => store === kernel.manifest.id);
  } catch (error) {
    // The first backup makes the directory.
    if ((error as { cause?: NodeJS.ErrnoException }).cause?.code === 'ENOENT') return [];
    throw error;
  }
}

function takenAtMs(backup: BackupDescription): number {
  return Math.max(...backup.shards.map(({ atMs }) => atMs));
}
