/** Commands of rooms, messages and the inbox that are plain calls. */
import { type CommandHints, pageFlags, roomKeyFlag } from '../command.js';
import type { inbox, messages, rooms } from './operations.js';

export const roomCommands = {
  list: {
    usage: 'ls',
    about: "List the user's rooms, then the public rooms, most recently active first",
    flags: [
      ['public', '--public', 'Only public rooms', { is: true }],
      ['public', '--own', "Only the user's rooms", { is: false }],
      ...pageFlags,
    ],
    examples: ['stoa rooms ls', 'stoa rooms ls --public --json | jq -r .items[].id'],
    table: {
      columns: {
        NAME: 'name',
        OWNER: 'owner',
        MESSAGES: 'message_count',
        LAST_ACTIVE: 'last_active',
        ID: 'id',
      },
      empty: 'No rooms.',
    },
  },
  create: {
    usage: 'create <name>',
    about: 'Create a room of the user; --key makes it private, --public opens it to everyone',
    flags: [
      ['public', '--public', 'Open to everyone, also without an account here', 'yes'],
      roomKeyFlag,
      ['retention_seconds', '--keep <duration>', 'How long messages are kept: 90d, 12h', 'duration'],
    ],
    makesStore: true,
    examples: ['stoa rooms create planning', 'STOA_ROOM_KEY="a long shared key" stoa rooms create den'],
  },
  get: { usage: 'get <room>', about: 'Show one room', examples: ['stoa rooms get planning'] },
  update: {
    usage: 'set <room>',
    flags: [
      ['name', '--name <name>', 'The new name'],
      ['retention_seconds', '--keep <duration>', 'How long messages are kept: 90d, 12h', 'duration'],
    ],
    needsFlag: true,
    examples: ['stoa rooms set planning --keep 90d'],
  },
  delete: {
    usage: 'rm <room>',
    examples: ['stoa rooms rm planning'],
    done: ['deleted', 'room', 'Deleted {room} and its messages.'],
  },
} satisfies CommandHints<typeof rooms>;

export const messageCommands = {
  delete: {
    usage: 'delete-message <room> <message>',
    about: 'Delete a message',
    examples: ['stoa rooms delete-message global 01ARZ3NDEKTSV4RRFFQ69G5FAV'],
    done: ['deleted', 'message', 'Deleted {message}.'],
  },
} satisfies CommandHints<typeof messages>;

export const postCommands = {
  post: {
    usage: 'post <room> <body>',
    about: 'Post a message to a room, by name or id; a new name makes a room of the user',
    flags: [['pid', '--reply-to <message>', 'The message to reply to'], roomKeyFlag],
    makesStore: true,
    examples: [
      'stoa post build "the build is green"',
      'stoa post build "thanks" --reply-to 01ARZ3NDEKTSV4RRFFQ69G5FAV --agent scout',
    ],
  },
} satisfies CommandHints<typeof messages>;

export const inboxCommands = {
  list: {
    usage: 'inbox',
    about: 'The direct messages of --user and --agent, newest first',
    flags: [
      ['pending', '--pending', 'Only messages that are not acknowledged, oldest first', { is: true }],
      ...pageFlags,
    ],
    examples: ['stoa inbox --agent scout', 'stoa inbox --pending --json'],
    table: {
      columns: { AT: 'ts', FROM: 'from_name', PROVEN: 'proven', ID: 'id', BODY: 'body' },
      empty: 'No direct messages.',
      newestFirst: true,
      folds: 'BODY',
    },
  },
} satisfies CommandHints<typeof inbox>;

export const directCommands = {
  send: {
    usage: 'send <to> <body>',
    about: 'Send a direct message without encryption, to an agent by its name or id',
    examples: ['stoa dm send scout "hello"', 'stoa dm send 6f0c1b0a-0000-4000-8000-000000000000 "hello"'],
  },
  acknowledge: {
    usage: 'ack <ids...>',
    about: 'Acknowledge messages, so that they are not delivered again',
    examples: ['stoa dm ack 01ARZ3NDEKTSV4RRFFQ69G5FAV'],
  },
} satisfies CommandHints<typeof inbox>;
