/**
 * Checks a directory before a backup is written to it. Old backups are deleted there, so it must not contain
 * other files.
 */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { StoaError } from '../../../../core/errors.js';
import { isBackupName, readDescription } from './description.js';
import { isMissing } from '../../../../core/files.js';

/** The end of the name of a backup that is not finished. */
export const unfinishedEnding = '.partial';

/**
 * Refuses a directory that holds anything but backups of this store, damaged and unfinished ones included.
 */
export async function refuseForeign(directory: string, store: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const reason = await whyForeign(directory, name, store);
    if (reason !== undefined)
      throw new StoaError(
        'conflict',
        `${join(directory, name)} ${reason}. The directory may contain only backups of this store.`,
        {
          fix: 'Name a separate directory for the backups of this store. It is created if it does not exist.',
        },
      );
  }
}

/** Why an entry is not a backup of the store, or undefined. */
async function whyForeign(directory: string, name: string, store: string): Promise<string | undefined> {
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
    // A damaged backup may belong to this store. It must not prevent later backups.
    if (error instanceof StoaError && (error.code === 'damaged_backup' || error.code === 'newer_data'))
      return undefined;
    throw error;
  }
}

/**
 * False for a link to a directory, because deleting through it would delete other files. True if the path no
 * longer exists.
 */
export async function isDirectory(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (isMissing(error)) return true;
    throw error;
  }
}
