/** Definitions of the commands that watch. */
import type { CommandDefinition } from '../definitions/definition.js';
import { namespaceOption, roomKeyOption, topicsOption } from './options.js';

const sinceOption = [
  '--since <position>',
  'Continue after this position, without the current items',
] as const;
const watch = () => import('../commands/watch.js');

export const watchCommands: readonly CommandDefinition[] = [
  {
    usage: 'watch',
    about:
      'Print the current items, then their changes, until Ctrl-C; continues after a restart of the server',
    examples: [
      'stoa watch data src/ -n files:my-repo',
      'stoa watch tasks PROJECT --json',
      'stoa watch room build',
    ],
    commands: [
      {
        usage: 'data [prefix]',
        about: 'Watch the documents of a namespace, a prefix or one key',
        options: [namespaceOption, ['--key <key>', 'Only this key'], sinceOption],
        examples: ['stoa watch data', 'stoa watch data decision/ --json', 'stoa watch data --key leader'],
        action: async () => (await watch()).data,
      },
      {
        usage: 'changes',
        about: 'Watch every change in order: the whole feed',
        options: [
          topicsOption,
          ['--since <position>', 'Start after this position'],
          ['--no-reconnect', 'End when the server ends'],
        ],
        examples: ['stoa watch changes', 'stoa watch changes --topics registry --json'],
        action: async () => (await watch()).changes,
      },
      {
        usage: 'tasks <project>',
        about: 'Watch the tasks of a project',
        options: [sinceOption],
        examples: ['stoa watch tasks PROJECT'],
        action: async () => (await watch()).tasks,
      },
      {
        usage: 'agents [agent]',
        about: 'Watch the agents of the registry, or one agent',
        options: [sinceOption],
        examples: ['stoa watch agents --user ada', 'stoa watch agents scout --json'],
        action: async () => (await watch()).agents,
      },
      {
        usage: 'room <room>',
        about: 'Watch the messages of a room',
        options: [roomKeyOption, sinceOption],
        examples: ['stoa watch room ROOM', 'STOA_ROOM_KEY="a long shared key" stoa watch room ROOM --json'],
        action: async () => (await watch()).room,
      },
    ],
  },
];
