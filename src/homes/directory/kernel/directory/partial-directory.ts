/** A directory that is filled beside its target and gets the target's name when it is complete. */
import { readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { StoaError, fileReasonOf } from '../../../../core/errors.js';
import { makePrivateDirectory, syncDirectory, writeWhole } from '../../../../core/files.js';
import { type DirectoryLock, acquireLock, lockFile } from './lock.js';

/**
 * Marks an unfinished directory of this command, which may be deleted. Another directory with the same name
 * has no mark.
 */
const markFile = 'stoa.partial';
/**
 * The mark is written right after the lock. A directory without a mark for this long was abandoned in
 * between.
 */
const markedWithinMs = 60_000;

export interface PartialDirectory {
  readonly path: string;
  /** Gives it the target's name, in place of a target that is empty. */
  finish(): Promise<void>;
  discard(): Promise<void>;
}

/**
 * Creates a directory beside the target. Removes what an interrupted attempt left there; throws for other
 * files.
 */
export async function beginPartial(target: string): Promise<PartialDirectory> {
  const whole = resolve(target);
  const path = `${whole}.partial`;
  if (!isUnfinishedHere((await namesIn(path)) ?? [])) {
    throw new StoaError(
      'already_exists',
      `${path} exists and is not an unfinished directory of this command.`,
      { fix: 'Move it aside, or name another target.' },
    );
  }
  try {
    await makePrivateDirectory(path);
  } catch (error) {
    throw new StoaError('invalid_request', `${whole} cannot be created: ${fileReasonOf(error)}.`, {
      cause: error,
      fix: 'Name a directory that you can write to.',
    });
  }
  // Held until the end, so that only one of two concurrent commands continues.
  const lock = await acquireLock(path, {}).catch(async (error: unknown) => {
    await removeEmpty(path);
    throw error;
  });
  try {
    await empty(path);
    await writeWhole(join(path, markFile), `Unfinished. This directory becomes ${whole}.\n`, 'w');
  } catch (error) {
    await discard(path, lock);
    throw error;
  }
  return {
    path,
    finish: async () => {
      if (((await namesIn(whole)) ?? []).length > 0)
        throw new StoaError('already_exists', `Another process created ${whole} meanwhile.`, {
          fix: 'Name another target.',
        });
      await rm(join(path, markFile));
      if ((await namesIn(whole)) !== undefined) await rmdir(whole);
      await rename(path, whole);
      // The lock moved with the directory. If it had been released before, another process could have deleted
      // the directory.
      await lock.release();
      await rm(join(whole, lockFile), { force: true });
      await syncDirectory(dirname(whole));
    },
    discard: () => discard(path, lock),
  };
}

/**
 * Removes the leftovers of an interrupted attempt. False if the directory is not ours, or if a living process
 * fills it.
 */
export async function removeAbandoned(path: string): Promise<boolean> {
  const names = await namesIn(path);
  if (names === undefined || !isUnfinishedHere(names)) return false;
  if (!names.includes(markFile) && Date.now() - (await stat(path)).mtimeMs < markedWithinMs) return false;
  let lock: DirectoryLock;
  try {
    lock = await acquireLock(path, {});
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // It is in use, or was finished in the meantime.
    if (code === 'locked' || code === 'ENOENT') return false;
    throw error;
  }
  await discard(path, lock);
  return true;
}

/** The lock is removed last: no other process may start in a directory that is being deleted. */
async function discard(path: string, lock: DirectoryLock): Promise<void> {
  await empty(path);
  await lock.release();
  await removeEmpty(path);
}

/** A directory that is not empty now belongs to another process. */
async function removeEmpty(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOTEMPTY' && code !== 'ENOENT') throw error;
  }
}

async function empty(path: string): Promise<void> {
  for (const name of (await namesIn(path)) ?? [])
    if (!name.startsWith(lockFile)) await rm(join(path, name), { recursive: true, force: true });
}

function isUnfinishedHere(names: readonly string[]): boolean {
  return names.includes(markFile) || names.every((name) => name.startsWith(lockFile));
}

/** The names in a directory, or undefined if it does not exist. */
export async function namesIn(path: string): Promise<string[] | undefined> {
  try {
    return await readdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ENOTDIR')
      throw new StoaError('already_exists', `${path} is a file. Expected a directory or nothing.`, {
        cause: error,
        fix: 'Move it aside, or name another target.',
      });
    throw error;
  }
}
