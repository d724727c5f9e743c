/**
 * `stoa.durable` in a data directory: the newest transaction of each shard that is known to be on disk, kept
 * outside the databases. A database whose newest transaction is older has lost data, or was replaced by an
 * old file.
 */
import { type FileHandle, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import { KeyQueue } from '../../../../core/waiting/key-queue.js';
import { fileFailure, isMissing, writeDurably } from '../../../../core/files.js';
import { acquireLock } from './lock.js';
import { type Manifest, shardDirectory } from './manifest.js';

const noteFile = 'stoa.durable';

/**
 * The store's id in the first 48 bytes, then 16 bytes per shard, overwritten in place. A line never crosses
 * two sectors, so a power cut leaves each number old or new, and both were durable.
 */
const headerBytes = 48;
const lineBytes = 16;
const digits = lineBytes - 1;

const notePath = (dataDir: string): string => join(dataDir, noteFile);

/** A shard whose database ends before the recorded transaction. */
interface Loss {
  shard: number;
  /** The newest transaction that the database has. */
  lsn: number;
  /** The newest transaction that was on disk. */
  notedLsn: number;
}

export class DurableNote {
  readonly #file: FileHandle;
  readonly #manifest: Manifest;
  #written: readonly number[];
  /** The caller reports a failed write. The next write is tried anyway. */
  readonly #queue = new KeyQueue();

  private constructor(file: FileHandle, manifest: Manifest, written: readonly number[]) {
    this.#file = file;
    this.#manifest = manifest;
    this.#written = written;
  }

  /** Begins the file with the newest transactions of the databases. */
  static async begin(dataDir: string, manifest: Manifest, lsns: readonly number[]): Promise<DurableNote> {
    await writeDurably(notePath(dataDir), textOf(manifest, lsns));
    return new DurableNote(await open(notePath(dataDir), 'r+'), manifest, lsns);
  }

  /**
   * Records numbers that are durable. Without a sync: if the newest record is lost, only a part of the
   * protection is lost.
   */
  write(lsns: readonly number[]): Promise<void> {
    return this.#queue.run('write', async () => {
      if (lsns.every((lsn, shard) => lsn === this.#written[shard])) return;
      await this.#file.write(textOf(this.#manifest, lsns), 0);
      this.#written = lsns;
    });
  }

  /** Records the last numbers, if they are known, and waits for the disk. */
  async close(lsns?: readonly number[]): Promise<void> {
    try {
      if (lsns === undefined) return;
      await this.write(lsns);
      await this.#file.sync();
    } finally {
      await this.#file.close();
    }
  }
}

/**
 * The shards that end before their recorded transaction. A missing file, or a file of another store, is
 * ignored.
 */
async function lossesOf(dataDir: string, manifest: Manifest, lsns: readonly number[]): Promise<Loss[]> {
  const noted = await readNote(dataDir, manifest);
  return lsns.flatMap((lsn, shard) => {
    const notedLsn = noted[shard] ?? 0;
    return lsn < notedLsn ? [{ shard, lsn, notedLsn }] : [];
  });
}

/** Refuses databases that have lost transactions. */
export async function refuseLosses(
  dataDir: string,
  manifest: Manifest,
  lsns: readonly number[],
): Promise<void> {
  const losses = await lossesOf(dataDir, manifest, lsns);
  if (losses.length === 0) return;
  throw new StoaError('damaged_data', losses.map((loss) => lossText(dataDir, loss)).join(' '), {
    fix: `Put the right database files back, or restore a backup into a new directory with "stoa restore". To continue without the missing transactions: ${acceptCommand(dataDir)}`,
    details: { note: notePath(dataDir), losses },
  });
}

function lossText(dataDir: string, { shard, lsn, notedLsn }: Loss): string {
  return `The database in ${shardDirectory(dataDir, shard)} ends with transaction ${lsn}, but transaction ${notedLsn} was on disk: ${notedLsn - lsn} acknowledged transactions are missing.`;
}

/** Whether the error means that transactions are missing, or that missing transactions cannot be detected. */
export function isLoss(error: unknown): error is StoaError {
  return error instanceof StoaError && error.code === 'damaged_data' && error.details?.['note'] !== undefined;
}

/** Accepts that transactions are missing. The directory must be closed. */
export async function acceptLosses(dataDir: string): Promise<void> {
  const lock = await acquireLock(dataDir, {});
  try {
    await rm(notePath(dataDir), { force: true });
  } finally {
    await lock.release();
  }
}

const acceptCommand = (dataDir: string): string => `stoa doctor --accept-loss --data ${dataDir}`;

async function readNote(dataDir: string, manifest: Manifest): Promise<number[]> {
  const path = notePath(dataDir);
  let content: string;
  try {
    content = await readFile(path, 'latin1');
  } catch (error) {
    if (isMissing(error)) return [];
    throw new StoaError('damaged_data', `${path} cannot be read: ${fileReasonOf(error)}.`, {
      cause: fileFailure(dataDir, error),
      fix: 'Check the permissions of the data directory.',
    });
  }
  const lines = content.split('\n').map((line) => line.trim());
  const [id, ...numbers] = lines.slice(0, -1);
  const isWhole =
    content.length === headerBytes + manifest.shards * lineBytes &&
    numbers.length === manifest.shards &&
    numbers.every((number) => /^\d+$/.test(number));
  if (isWhole) return id === manifest.id ? numbers.map(Number) : [];
  throw new StoaError('damaged_data', `${path} is damaged, so lost transactions could not be detected.`, {
    fix: `Put the file back from a copy. To continue without the file: ${acceptCommand(dataDir)}`,
    details: { note: path },
  });
}

function textOf({ id }: Manifest, lsns: readonly number[]): string {
  const lines = lsns.map((lsn) => `${String(lsn).padStart(digits, '0')}\n`);
  return `${id.padEnd(headerBytes - 1)}\n${lines.join('')}`;
}
