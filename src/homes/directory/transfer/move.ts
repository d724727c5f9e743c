/** What a move needs of a data directory: its mark is a file beside the databases. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeDurably } from '../../../core/files.js';
import type { Sealer } from '../../../secrets/sealer.js';
import type { HomeMove, MoveMark } from '../../../transfer/move/port.js';
import type { Kernel } from '../kernel/kernel.js';
import type { DirectoryLocks } from '../locks/locks.js';
import type { DirectoryWorkspaces } from '../workspaces/workspaces.js';
import { lockRecordStores } from './locks.js';
import { agentRecordStore } from './namespace-agents.js';
import { settingsRecordStore } from './namespace-settings.js';
import { unexportedRecords } from './unexported.js';

const markName = 'move.json';

interface MovedParts {
  readonly workspaces: DirectoryWorkspaces;
  readonly locks: DirectoryLocks;
  readonly sealer: Sealer;
}

export function directoryMove(kernel: Kernel, { workspaces, locks, sealer }: MovedParts): HomeMove {
  return {
    mark: fileMark(kernel.dataDir),
    records: () => [
      ...unexportedRecords(kernel, sealer),
      ...lockRecordStores(kernel, locks),
      agentRecordStore(kernel),
      settingsRecordStore(kernel),
    ],
    // The lock keeps servers out, and what they left behind is finished here.
    obstacles: async () => {
      await workspaces.bulk.finish();
      return [];
    },
    extent: async () => kernel.feed.newest(),
  };
}

export function fileMark(dataDir: string): MoveMark {
  const path = join(dataDir, markName);
  return {
    read: async () => {
      try {
        return await readFile(path, 'utf8');
      } catch (error) {
        // A node:fs error has a code. Without the file, or without a directory, no move is under way.
        if (/^(ENOENT|ENOTDIR)$/.test((error as NodeJS.ErrnoException).code ?? '')) return undefined;
        throw error;
      }
    },
    write: (text) => writeDurably(path, text),
    clear: () => rm(path, { force: true }),
  };
}
