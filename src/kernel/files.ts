/** Files and directories that outlive a power cut, and that only their owner reads. */
import { type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { StoaError, messageOf } from '../errors.js';

/** Replaces a file so that after a power cut it is the old one or the new one, never a part. */
export async function writeDurably(path: string, content: string | Uint8Array, mode = 0o644): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  await writeWhole(temporary, content, 'w', mode);
  await rename(temporary, path);
  await syncDirectory(dirname(path));
}

/** Writes a file and waits for the disk; one that could not be written to its end is taken away again. */
export async function writeWhole(
  path: string,
  content: string | Uint8Array,
  flag: 'w' | 'wx',
  mode = 0o644,
): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, flag, mode);
  } catch (error) {
    throw fileFailure(dirname(path), error);
  }
  try {
    await file.writeFile(content);
    await file.sync();
  } catch (error) {
    await rm(path, { force: true });
    throw fileFailure(dirname(path), error);
  } finally {
    await file.close();
  }
}

const noRoom: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT']);
const noRight: ReadonlySet<unknown> = new Set(['EACCES', 'EPERM', 'EROFS']);

/** A full disk and a directory that may not be written, as errors that say what to do; anything else as it is. */
export function fileFailure(directory: string, error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (noRoom.has(code)) {
    return new StoaError('disk_full', `The disk of ${directory} is full.`, {
      cause: error,
      fix: 'Free some space on it, then try again.',
    });
  }
  if (noRight.has(code)) {
    return new StoaError('invalid_config', `${directory} cannot be written: ${messageOf(error)}.`, {
      cause: error,
      fix: 'Let the user that runs Stoa write there, or choose another directory.',
    });
  }
  return error;
}

/** Makes a directory's list of names durable: a rename is not on disk before that. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows cannot open a directory, and makes names durable by itself.
  if (process.platform === 'win32') return;
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Makes a directory that only its owner can enter, with its parents; one that is there stays as it
 * is. Step by step, because Node's recursive `mkdir` never returns where the file system denies
 * with ENOENT, as /proc does.
 */
export async function makePrivateDirectory(path: string): Promise<void> {
  await makeDirectory(resolve(path), 0o700);
}

async function makeDirectory(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    if (code !== 'ENOENT' || dirname(path) === path) throw error;
    await makeDirectory(dirname(path), 0o777);
    await mkdir(path, { mode });
  }
}
