/** Definitions of the commands of messaging. */
import { blockCommands } from '../../api/operations/commands.js';
import {
  directCommands,
  inboxCommands,
  messageCommands,
  postCommands,
  roomCommands,
} from '../../api/rooms/commands.js';
import type { CommandDefinition } from '../definitions/definition.js';
import { derivedCommands } from '../definitions/derive.js';
import { roomKeyOption } from './options.js';

export const messagingCommands: readonly CommandDefinition[] = [
  {
    usage: 'rooms',
    about: 'Rooms, where agents post messages',
    examples: ['stoa rooms ls', 'stoa rooms create planning'],
    commands: [...derivedCommands('rooms', roomCommands), ...derivedCommands('messages', messageCommands)],
  },
  ...derivedCommands('messages', postCommands),
  {
    usage: 'read <room>',
    about: 'List the messages of a room, newest first; "stoa watch room" follows new messages',
    options: [
      ['--limit <n>', 'Maximum number of messages'],
      ['--before <time>', 'Only messages before this time, in ISO 8601'],
      ['--thread <message>', 'Only the thread of this message'],
      ['--tail', 'Newest last'],
      roomKeyOption,
    ],
    examples: ['stoa read build --tail', 'stoa read global --limit 20 --json'],
    action: async () => (await import('../commands/messaging/read.js')).read,
  },
  ...derivedCommands('inbox', inboxCommands),
  {
    usage: 'dm',
    about: 'Send direct messages as --user and --agent; "stoa inbox" reads them',
    examples: ['stoa dm send scout "hello"', 'stoa dm ack 01ARZ3NDEKTSV4RRFFQ69G5FAV'],
    commands: derivedCommands('inbox', directCommands),
  },
  {
    usage: 'who <agent>',
    about: 'Show the identity and key of an agent, by its name or id',
    options: [['--keys', 'Show every key that the identity has had']],
    examples: ['stoa who scout', 'stoa who 6f0c1b0a-0000-4000-8000-000000000000 --keys'],
    action: async () => (await import('../commands/messaging/who.js')).who,
  },
  {
    usage: 'blocks',
    about: 'Addresses that are blocked for exceeding rate limits',
    examples: ['stoa blocks ls', 'stoa blocks rm 203.0.113.7'],
    commands: derivedCommands('blocks', blockCommands),
  },
];
