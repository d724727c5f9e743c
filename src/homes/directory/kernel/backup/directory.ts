/** What a directory must look like before a backup is written to it: old backups are deleted there, so nothing else may be. */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError } from '../../../../core/errors.js';
import { isBackupName, readDescription } from './description.js';

/** The end of the name of a backup that is not finished. */
export const unfinishedEnding = '.partial';

/** Refuses a directory that holds anything but backups of this store, damaged and unfinished ones included. */
export async function refuseForeign(directory: string, store: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const reason = await foreignness(directory, name, store);
    if (reason !== undefined)
      throw new StoaError(
        'conflict',
        `${join(directory, name)} ${reason}, so no backup is written beside it.`,
        {
          fix: 'Name a directory of its own for the backups of this store; one that is not there is made.',
        },
      );
  }
}

/** What keeps an entry from being a backup of the store; undefined where nothing does. */
async function foreignness(directory: string, name: string, store: string): Promise<string | undefined> {
  const isUnfinished = name.endsWith(unfinishedEnding);
  if (!isBackupName(isUnfinished ? name.slice(0, -unfinishedEnding.length) : name)) return 'is not a backup';
  if (!(await isDirectory(join(directory, name)))) return 'is not a directory';
  if (isUnfinished) return undefined;
  try {
    const description = await readDescription(directory, name);
    return description === undefined || description.store === store
      ? undefined
      : `belongs to a different store (${description.store}; this store is ${store})`;
  } catch (error) {
    // A damaged backup may be one of this store's: it must not stop the ones that come after it.
    if (error instanceof StoaError && (error.code === 'damaged_backup' || error.code === 'newer_data'))
      return undefined;
    throw error;
  }
}

/** A link to a directory is not one: what is deleted through it lies somewhere else. What is gone by now was one. */
export async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true;
    throw error;
  }
}
