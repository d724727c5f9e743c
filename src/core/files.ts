/** Files and directories that survive a power cut and that only their owner can read. */
import { randomUUID } from 'node:crypto';
import { type FileHandle, chmod, mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { StoaError, fileReasonOf } from './errors.js';

/** Only the owner can read a file, also in a directory that others can enter. */
export const privateFile = 0o600;
const privateDirectory = 0o700;

const draftName = /\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.draft$/;

/** True if the file system has nothing at the path of the failed call. */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** The text of a file, or undefined if the file does not exist. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/**
 * Replaces a file. After a power cut the path has the old or the new content, never a part. Each call writes
 * its own draft, so that two calls at the same time never mix their content.
 */
export async function writeDurably(path: string, content: string | Uint8Array): Promise<void> {
  const draft = `${path}.${randomUUID()}.draft`;
  await writeWhole(draft, content, 'wx');
  try {
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw fileFailure(dirname(path), error);
  }
  await syncDirectory(dirname(path));
}

/**
 * Removes the drafts that a killed process left in a directory. Call it only while nothing else writes there.
 */
export async function removeDrafts(directory: string): Promise<void> {
  for (const name of await readdir(directory))
    if (draftName.test(name)) await rm(join(directory, name), { force: true });
}

/** Removes all rights but the owner's from a directory of Stoa and the files in it. */
export async function makePrivate(directory: string): Promise<void> {
  await chmod(directory, privateDirectory);
  for (const entry of await readdir(directory, { withFileTypes: true }))
    if (entry.isFile()) await chmodThere(join(directory, entry.name));
}

/** The engine may have deleted the file in the meantime. */
async function chmodThere(path: string): Promise<void> {
  try {
    await chmod(path, privateFile);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** Writes a file and waits for the disk. A file that could not be written completely is removed. */
export async function writeWhole(
  path: string,
  content: string | Uint8Array,
  flag: 'w' | 'wx',
): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, flag, privateFile);
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
const noHandle: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE']);

/** An error with a fix for a file system failure that the operator can repair; any other error unchanged. */
export function fileFailure(directory: string, error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (noRoom.has(code)) {
    return new StoaError('disk_full', `The disk of ${directory} is full.`, {
      cause: error,
      fix: 'Free some space on it, then try again.',
    });
  }
  if (noHandle.has(code)) {
    return new StoaError('overloaded', `No file can be opened in ${directory}: too many files are open.`, {
      cause: error,
      fix: 'Try again with fewer connections, or let the server open more files (ulimit -n).',
    });
  }
  if (noRight.has(code)) {
    return new StoaError('invalid_config', `${directory} cannot be written: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Let the user that runs Stoa write there, or choose another directory.',
    });
  }
  return error;
}

/** Makes a directory's list of names durable: a rename is not on disk before that. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows cannot open a directory, and makes names durable without this.
  if (process.platform === 'win32') return;
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Makes a directory that only its owner can enter, with its parents; an existing directory is not
 * changed. It makes one level at a time, because Node's recursive `mkdir` never returns where the
 * file system denies with ENOENT, as /proc does.
 */
export async function makePrivateDirectory(path: string): Promise<void> {
  await makeDirectory(resolve(path), privateDirectory);
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
