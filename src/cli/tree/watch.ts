/** The commands that watch: their words, options and examples. */
import type { CommandDefinition } from '../definitions/definition.js';

const sinceOption = ['--since <position>', 'Go on after this position, without what is there'] as const;
const watch = () => import('../commands/watch.js');

export const watchCommands: readonly CommandDefinition[] = [
  {
    usage: 'watch',
    about: 'What is there, then what happens to it, until Ctrl-C; goes on when the server comes back',
    examples: [
      'stoa watch data src/ -n files:my-repo',
      'stoa watch tasks PROJECT --json',
      'stoa watch room ROOM',
    ],
    commands: [
      {
        usage: 'data [prefix]',
        about: 'The documents of a namespace, of a prefix or under one key',
        options: [
          ['-n, --namespace <namespace>', 'The namespace; "default" unless given'],
          ['--key <key>', 'This key alone'],
          sinceOption,
        ],
        examples: ['stoa watch data', 'stoa watch data decision/ --json', 'stoa watch data --key leader'],
        action: async () => (await watch()).data,
      },
      {
        usage: 'changes',
        about: 'Every change as it happens, in order: the whole feed',
        options: [
          ['--topics <topics>', 'Domains, kinds or nouns, separated by commas'],
          ['--since <position>', 'Begin after this position'],
          ['--no-reconnect', 'End when the server does'],
        ],
        examples: ['stoa watch changes', 'stoa watch changes --topics registry --json'],
        action: async () => (await watch()).changes,
      },
      {
        usage: 'tasks <project>',
        about: 'The tasks of a project',
        options: [sinceOption],
        examples: ['stoa watch tasks PROJECT'],
        action: async () => (await watch()).tasks,
      },
      {
        usage: 'agents [id]',
        about: 'The agents of the registry, or one of them',
        options: [sinceOption],
        examples: ['stoa watch agents --user ada', 'stoa watch agents ID --json'],
        action: async () => (await watch()).agents,
      },
      {
        usage: 'room <room>',
        about: 'What is said in a room',
        options: [['--key <key>', 'The key of a private room; prefer STOA_ROOM_KEY'], sinceOption],
        examples: ['stoa watch room ROOM', 'STOA_ROOM_KEY="a long shared key" stoa watch room ROOM --json'],
        action: async () => (await watch()).room,
      },
    ],
  },
];
