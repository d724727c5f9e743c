/** A directory that is filled beside its target and gets the target's name when it is whole. */
import { readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { StoaError } from '../errors.js';
import { makePrivateDirectory, syncDirectory } from './files.js';
import { acquireLock } from './lock.js';

/** Tells a directory that was begun here, and may be thrown away, from one of somebody else's that only has its name. */
const markFile = 'stoa.partial';

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
  await removeLeftover(path);
  await makePrivateDirectory(path);
  await writeFile(join(path, markFile), `Unfinished: what is in here becomes ${whole}.\n`);
  const lock = await acquireLock(path, {});
  return {
    path,
    finish: async () => {
      await lock.release();
      await rm(join(path, markFile));
      // Never more than an empty directory: what somebody put there meanwhile stays.
      if ((await namesIn(whole)) !== undefined) await rmdir(whole);
      await rename(path, whole);
      await syncDirectory(dirname(whole));
    },
    discard: async () => {
      await lock.release();
      await rm(path, { recursive: true, force: true });
    },
  };
}

async function removeLeftover(path: string): Promise<void> {
  const names = await namesIn(path);
  if (names === undefined) return;
  if (names.length > 0 && !names.includes(markFile)) {
    throw new StoaError('already_exists', `${path} is in the way, and no unfinished work of this command.`, { fix: 'Move it aside, or name another target.' });
  }
  // Whoever still fills it holds its lock.
  await (await acquireLock(path, {})).release();
  await rm(path, { recursive: true, force: true });
}

/** The names in a directory, or undefined where there is none. */
async function namesIn(path: string): Promise<string[] | undefined> {
  try {
    return await readdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ENOTDIR') throw new StoaError('already_exists', `${path} is in the way; it is a file.`, { cause: error, fix: 'Move it aside, or name another target.' });
    throw error;
  }
}
