/** Commands of messaging that are plain calls. */
import { type CommandHints, roomKeyFlag } from '../command.js';
import type { direct, rooms } from './operations.js';

export const roomCommands = {
  list: {
    usage: 'ls',
    about: 'List public rooms, most recently active first',
    flags: [
      ['limit', '--limit <n>', 'Maximum number of rooms', 'number'],
      ['offset', '--offset <n>', 'Rooms to skip', 'number'],
    ],
    examples: ['stoa rooms ls', 'stoa rooms ls --json | jq -r .items[].id'],
    table: {
      columns: { NAME: 'name', MESSAGES: 'message_count', LAST_ACTIVE: 'last_active', ID: 'id' },
      empty: 'No public rooms.',
      items: 'channels',
      newestFirst: true,
    },
    note: 'Public rooms in all: {total}.',
  },
  deleteMessage: {
    usage: 'delete-message <room> <message>',
    about: 'Delete a message',
    flags: [roomKeyFlag],
    examples: ['stoa rooms delete-message global 01ARZ3NDEKTSV4RRFFQ69G5FAV'],
    done: ['deleted', 'message', 'Deleted {message}.'],
  },
} satisfies CommandHints<typeof rooms>;

export const postCommands = {
  post: {
    usage: 'post <room> <body>',
    about: 'Post a message as the messaging identity of --user and --agent, which the server keeps',
    flags: [['pid', '--reply-to <message>', 'The message to reply to'], roomKeyFlag],
    makesStore: true,
    examples: [
      'stoa post global "the build is green"',
      'stoa post global "thanks" --reply-to 01ARZ3NDEKTSV4RRFFQ69G5FAV --agent scout',
    ],
  },
} satisfies CommandHints<typeof rooms>;

export const directCommands = {
  send: {
    usage: 'send <to> <body>',
    about: 'Send a direct message without encryption',
    examples: ['stoa dm send 6f0c1b0a-0000-4000-8000-000000000000 "hello"'],
  },
  read: {
    usage: 'read',
    about: 'The inbox',
    flags: [
      ['pending', '--pending', 'Only messages that are not acknowledged', { is: 1 }],
      ['limit', '--limit <n>', 'Maximum number of messages', 'number'],
    ],
    examples: ['stoa dm read --pending --json'],
    table: {
      columns: { AT: 'ts', FROM: 'from', ID: 'id', ACKNOWLEDGED: 'acknowledged', BODY: 'body' },
      empty: 'No direct messages.',
      items: 'messages',
      newestFirst: true,
    },
  },
  acknowledge: {
    usage: 'ack <ids...>',
    about: 'Acknowledge messages, so that they are not delivered again',
    examples: ['stoa dm ack 01ARZ3NDEKTSV4RRFFQ69G5FAV'],
  },
} satisfies CommandHints<typeof direct>;
