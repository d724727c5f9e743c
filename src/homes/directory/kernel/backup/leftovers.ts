/** Leftovers of interrupted backups. They are not backups; the next backup removes them. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { isBackupName } from './description.js';
import { unfinishedEnding } from './directory.js';
import { removeAbandoned } from '../directory/partial-directory.js';

/** Removes them, and returns their names. One that is being written stays. */
export async function removeUnfinished(directory: string): Promise<string[]> {
  const removed: string[] = [];
  for (const name of await readdir(directory)) {
    if (
      name.endsWith(unfinishedEnding) &&
      isBackupName(name.slice(0, -unfinishedEnding.length)) &&
      (await removeAbandoned(join(directory, name)))
    )
      removed.push(name);
  }
  return removed;
}
