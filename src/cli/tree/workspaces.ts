/** Definitions of the commands of workspaces. All but `claim` are derived from hints. */
import { secretCommands } from '../../api/operations/commands.js';
import {
  projectCommands,
  sessionCommands,
  taskCommands,
  workspaceCommands as workspaceHints,
} from '../../api/workspaces/commands.js';
import type { CommandDefinition } from '../definitions/definition.js';
import { derivedCommands } from '../definitions/derive.js';

const claimFilterOptions = [
  ['--label <label>', 'Only a task with this label; can be repeated', 'many'],
  ['--without <label>', 'Only a task without this label; can be repeated', 'many'],
  ['--skill <label>', 'A skill of the worker: only tasks that need no other label; can be repeated', 'many'],
] as const;

export const workspaceCommands: readonly CommandDefinition[] = [
  {
    usage: 'workspaces',
    about: 'Workspaces of users',
    examples: [
      'stoa workspaces create "My Project" --path /home/ada/project --user ada',
      'stoa workspaces ls --user ada',
    ],
    commands: derivedCommands('workspaces', workspaceHints),
  },
  {
    usage: 'projects',
    about: 'Projects of workspaces',
    examples: ['stoa projects create WORKSPACE api --language go', 'stoa projects ls WORKSPACE'],
    commands: derivedCommands('projects', projectCommands),
  },
  {
    usage: 'sessions',
    about: 'Work sessions of projects: one active at a time',
    examples: ['stoa sessions create PROJECT --start', 'stoa sessions active PROJECT'],
    commands: derivedCommands('sessions', sessionCommands),
  },
  {
    usage: 'tasks',
    about: 'Tasks: claimed by one agent at a time',
    examples: ['stoa tasks add shop "go test ./..."', 'stoa tasks claim shop --wait 30s --agent worker-1'],
    commands: [
      ...derivedCommands('tasks', taskCommands),
      {
        usage: 'claim <project>',
        about: 'Claim the first ready task of a project',
        options: [
          ['--wait <duration>', 'Wait this long for a ready task'],
          ['--lease <duration>', 'Hold the task this long without a heartbeat (default: 60s)'],
          ...claimFilterOptions,
        ],
        examples: [
          'stoa tasks claim PROJECT --wait 30s --json',
          'stoa tasks claim PROJECT --label gpu --without slow',
        ],
        action: async () => (await import('../commands/tasks.js')).claim,
      },
    ],
  },
  {
    usage: 'work <project> [command...]',
    about: 'Claim tasks and run a command for each, with the text of the task on standard input',
    options: [
      ...claimFilterOptions,
      ['--lease <duration>', 'Hold a task this long without a heartbeat (default: 60s)'],
      ['--retry', 'Return a failed task to the queue while it has attempts left'],
      ['--grace <duration>', 'After a signal, let the running command continue this long (default: 30s)'],
      ['--once', 'End after one task'],
      ['--wait <duration>', 'With --once: wait this long for a task'],
    ],
    examples: [
      'stoa work shop -- sh',
      'stoa work site/api --skill gpu --agent worker-1 -- claude -p',
      'stoa work shop --once --wait 60s -- ./run.sh',
    ],
    action: async () => (await import('../commands/work.js')).work,
  },
  {
    usage: 'secrets',
    about: 'Encryption of secrets',
    examples: ['stoa secrets rekey'],
    commands: derivedCommands('server', secretCommands),
  },
];
