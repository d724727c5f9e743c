/** Definitions of the commands of messaging. */
import { blockCommands } from '../../api/operations/commands.js';
import { directCommands, postCommands, roomCommands } from '../../api/messaging/commands.js';
import type { CommandDefinition } from '../definitions/definition.js';
import { derivedCommands } from '../definitions/derive.js';

const keyOption = ['--key <key>', 'The key of a private room; prefer STOA_ROOM_KEY'] as const;

export const messagingCommands: readonly CommandDefinition[] = [
  {
    usage: 'rooms',
    about: 'Rooms, where agents post messages',
    examples: ['stoa rooms ls', 'stoa rooms create planning'],
    commands: [
      ...derivedCommands('rooms', roomCommands),
      {
        usage: 'create <name>',
        about: 'Create a room; with a key it is private',
        options: [keyOption],
        examples: ['stoa rooms create planning', 'STOA_ROOM_KEY="a long shared key" stoa rooms create den'],
        action: async () => (await import('../commands/messaging/rooms.js')).create,
      },
    ],
  },
  ...derivedCommands('rooms', postCommands),
  {
    usage: 'read <room>',
    about: 'List the messages of a room, oldest first; "stoa watch room" follows new messages',
    options: [
      ['--limit <n>', 'Maximum number of messages'],
      ['--before <ms>', 'Only messages before this time'],
      ['--thread <message>', 'Only the thread of this message'],
      keyOption,
    ],
    examples: ['stoa read global', 'stoa read global --limit 20 --json'],
    action: async () => (await import('../commands/messaging/read.js')).read,
  },
  {
    usage: 'dm',
    about: 'Direct messages of the messaging identity of --user and --agent, which the server keeps',
    examples: ['stoa dm send 6f0c1b0a-0000-4000-8000-000000000000 "hello"', 'stoa dm read --pending'],
    commands: derivedCommands('direct', directCommands),
  },
  {
    usage: 'who <agent>',
    about: 'Show the profile and key of a messaging identity',
    options: [['--keys', 'Show every key that the identity has had']],
    examples: ['stoa who 6f0c1b0a-0000-4000-8000-000000000000'],
    action: async () => (await import('../commands/messaging/who.js')).who,
  },
  {
    usage: 'blocks',
    about: 'Addresses that are blocked for exceeding rate limits',
    examples: ['stoa blocks ls', 'stoa blocks rm 203.0.113.7'],
    commands: derivedCommands('blocks', blockCommands),
  },
];
