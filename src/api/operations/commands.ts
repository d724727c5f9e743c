/** Commands of the operator that are plain calls. */
import type { CommandHints } from '../command.js';
import type { blocks, server } from './operations.js';

export const secretCommands = {
  rekey: { usage: 'rekey', examples: ['stoa secrets rekey --json'] },
} satisfies CommandHints<typeof server>;

export const blockCommands = {
  list: {
    usage: 'ls',
    about: 'List blocked addresses with the reason',
    examples: ['stoa blocks ls --json'],
    table: {
      columns: { ADDRESS: 'ip', UNTIL: 'expires_at', REASON: 'reason' },
      empty: 'No address is blocked.',
    },
  },
  delete: {
    usage: 'rm <ip>',
    about: 'Remove a block',
    examples: ['stoa blocks rm 203.0.113.7'],
    done: ['unblocked', 'ip', '{ip} is no longer blocked.'],
  },
} satisfies CommandHints<typeof blocks>;
