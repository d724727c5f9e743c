/** Directories of backups that data directories made. No data directory has to be open for this. */
import { join } from 'node:path';
import { writeDurably } from '../../core/files.js';
import type { Archive } from '../../operations/port.js';
import { keyFileName } from '../../secrets/secrets.js';
import { directoryFamilies } from './families.js';
import { listBackups, summariesIn } from './kernel/backup/chain.js';
import { removeUnfinished } from './kernel/backup/leftovers.js';
import { verifyBackups } from './kernel/backup/read.js';
import { restore } from './kernel/backup/restore.js';
import { pruneChains } from './kernel/backup/schedule.js';

export const directoryArchive: Archive = {
  list: summariesIn,
  verify: verifyBackups,
  prune: async (directory, keep) => {
    const stores = new Set((await listBackups(directory)).map(({ store }) => store));
    const removed = await removeUnfinished(directory);
    for (const store of stores) removed.push(...(await pruneChains(directory, store, keep)));
    return removed;
  },
  restore: ({ withKey, ...request }) =>
    restore({
      ...request,
      families: directoryFamilies,
      writeKey: withKey ? (content, target) => writeDurably(join(target, keyFileName), content) : undefined,
    }),
};
