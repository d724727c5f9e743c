/** Commands of advisory locks that are plain calls. */
import { type CommandHints, pageFlags } from '../command.js';
import type { locks } from './operations.js';

export const lockCommands = {
  list: {
    usage: 'ls',
    about: 'List the locks that agents hold',
    flags: [['prefix', '--prefix <prefix>', 'Only names that begin with this text'], ...pageFlags],
    examples: ['stoa lock ls', 'stoa lock ls --prefix src/ --json'],
    table: {
      columns: {
        NAME: 'name',
        HOLDER: 'holder',
        FENCE: 'fence',
        SINCE: 'acquired_at',
        UNTIL: 'expires_at',
        NOTE: 'note',
      },
      empty: 'No locks.',
    },
  },
  release: {
    usage: 'unlock <name>',
    flags: [
      ['if_fence', '--fence <n>', 'Only if the lock has this fencing number', 'number'],
      ['force', '--force', 'Release also a lock of another agent', 'yes'],
    ],
    examples: ['stoa unlock src/app.ts --agent scout', 'stoa unlock src/app.ts --force'],
  },
} satisfies CommandHints<typeof locks>;
