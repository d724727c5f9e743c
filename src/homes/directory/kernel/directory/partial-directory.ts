/** A directory that is filled beside its target and gets the target's name when it is whole. */
import { readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { StoaError, messageOf } from '../../../../core/errors.js';
import { makePrivateDirectory, syncDirectory, writeWhole } from '../../../../core/files.js';
import { type DirectoryLock, acquireLock, lockFile } from './lock.js';

/** Tells a directory that was begun here, and may be thrown away, from one of somebody else's that only has its name. */
const markFile = 'stoa.partial';
/** The mark comes right after the lock: a directory that has had none for this long was given up between the two. */
const markedWithinMs = 60_000;

export interface PartialDirectory {
  readonly path: string;
  /** Gives it the target's name, in place of a target that is empty. */
  finish(): Promise<void>;
  discard(): Promise<void>;
}

/** Begins a directory beside the target. What an attempt that was cut off left there goes; anything else is refused. */
export async function beginPartial(target: string): Promise<PartialDirectory> {
  const whole = resolve(target);
  const path = `${whole}.partial`;
  if (!isBegunHere((await namesIn(path)) ?? [])) {
    throw new StoaError('already_exists', `${path} is in the way, and no unfinished work of this command.`, {
      fix: 'Move it aside, or name another target.',
    });
  }
  try {
    await makePrivateDirectory(path);
  } catch (error) {
    throw new StoaError('invalid_request', `${whole} cannot be made: ${messageOf(error)}.`, {
      cause: error,
      fix: 'Name a place that you can write to.',
    });
  }
  // Held from here to the end, so that of two that begin at once only one goes on.
  const lock = await acquireLock(path, {}).catch(async (error: unknown) => {
    await removeEmpty(path);
    throw error;
  });
  try {
    await empty(path);
    await writeWhole(join(path, markFile), `Unfinished: what is in here becomes ${whole}.\n`, 'w');
  } catch (error) {
    await discard(path, lock);
    throw error;
  }
  return {
    path,
    finish: async () => {
      if (((await namesIn(whole)) ?? []).length > 0)
        throw new StoaError('already_exists', `${whole} was filled by somebody else meanwhile.`, {
          fix: 'Name another target.',
        });
      await rm(join(path, markFile));
      if ((await namesIn(whole)) !== undefined) await rmdir(whole);
      await rename(path, whole);
      // It went along: given up before, the directory could be taken for one that nobody fills.
      await lock.release();
      await rm(join(whole, lockFile), { force: true });
      await syncDirectory(dirname(whole));
    },
    discard: () => discard(path, lock),
  };
}

/** Takes away what an attempt that was cut off left. False where it is somebody else's, or whoever fills it lives. */
export async function removeAbandoned(path: string): Promise<boolean> {
  const names = await namesIn(path);
  if (names === undefined || !isBegunHere(names)) return false;
  if (!names.includes(markFile) && Date.now() - (await stat(path)).mtimeMs < markedWithinMs) return false;
  let lock: DirectoryLock;
  try {
    lock = await acquireLock(path, {});
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // In use, or finished since the look at it.
    if (code === 'locked' || code === 'ENOENT') return false;
    throw error;
  }
  await discard(path, lock);
  return true;
}

/** The lock goes last: until then nobody else begins in what is being taken away. */
async function discard(path: string, lock: DirectoryLock): Promise<void> {
  await empty(path);
  await lock.release();
  await removeEmpty(path);
}

/** What is not empty belongs to somebody else by now. */
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

function isBegunHere(names: readonly string[]): boolean {
  return names.includes(markFile) || names.every((name) => name.startsWith(lockFile));
}

/** The names in a directory, or undefined where there is none. */
export async function namesIn(path: string): Promise<string[] | undefined> {
  try {
    return await readdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ENOTDIR')
      throw new StoaError('already_exists', `${path} is in the way; it is a file.`, {
        cause: error,
        fix: 'Move it aside, or name another target.',
      });
    throw error;
  }
}
