/** The command of the change feed. */
import type { CommandHints, FlagHint } from '../command.js';
import type { changes } from './operations.js';

export const topicsFlag = [
  'topics',
  '--topics <topics>',
  'Only these topics, separated by commas, such as registry, agent or agent.created',
] as const satisfies FlagHint;

export const changeCommands = {
  read: {
    usage: 'changes',
    about: 'List changes in order; "stoa watch changes" follows new changes',
    flags: [
      ['since', '--since <position>', 'Only changes after this position'],
      ['back', '--back <n>', 'Start this many commits before the newest', 'number'],
      topicsFlag,
      ['limit', '--limit <n>', 'Changes on a page', 'number'],
    ],
    examples: ['stoa changes --limit 20', 'stoa changes --topics registry --json'],
    table: {
      columns: {
        SEQ: 'seq',
        AT: 'at',
        DOMAIN: 'domain',
        KIND: 'kind',
        USER: 'user',
        VERSION: 'version',
        ID: 'id',
      },
      empty: 'No changes.',
    },
    note: 'Continue with: --since {position}',
  },
} satisfies CommandHints<typeof changes>;
