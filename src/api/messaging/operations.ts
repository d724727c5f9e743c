/** Messaging by AICQ's rules: rooms, direct messages and identities. Their handlers read the bytes of a body themselves. */
import { type OperationTable, anyone } from '../operation.js';

/** Private rooms want their key; public ones are for everybody. */
const readers = ['operator', 'user', 'agent', 'anyone'] as const;
const raw = { consumes: 'raw' } as const;
const written = { consumes: 'raw', bodyLimit: 'messagingRequestBytesMax' } as const;
const withKey = { headers: { key: 'x-aicq-room-key' } } as const;

export const rooms = {
  list: {
    method: 'GET',
    path: '/channels',
    summary: 'Public rooms, the most recently active first',
    principals: anyone,
    ...raw,
  },
  create: { method: 'POST', path: '/room', summary: 'Make a room', ...written },
  read: {
    method: 'GET',
    path: '/room/{room}',
    summary: 'Messages of a room, newest first',
    principals: readers,
    ...withKey,
    ...raw,
  },
  post: { method: 'POST', path: '/room/{room}', summary: 'Post a message', ...withKey, ...written },
  getMessage: {
    method: 'GET',
    path: '/room/{room}/{message}',
    summary: 'One message',
    principals: readers,
    ...withKey,
    ...raw,
  },
  thread: {
    method: 'GET',
    path: '/room/{room}/{message}/thread',
    summary: 'The thread that a message is in, oldest first',
    principals: readers,
    ...withKey,
    ...raw,
  },
  deleteMessage: {
    method: 'DELETE',
    path: '/room/{room}/{message}',
    summary: 'Delete a message: its author, or the admin',
    ...withKey,
    ...written,
  },
  stream: {
    method: 'GET',
    path: '/room/{room}/stream',
    summary: 'A room, live',
    principals: readers,
    streams: 'always',
    ...withKey,
    ...raw,
  },
  streamMany: {
    method: 'GET',
    path: '/stream',
    summary: 'Several rooms in one stream',
    principals: readers,
    streams: 'always',
    ...withKey,
    ...raw,
  },
  find: {
    method: 'GET',
    path: '/find',
    summary: 'Search the public rooms, newest first',
    principals: anyone,
    ...raw,
  },
  stats: {
    method: 'GET',
    path: '/stats',
    summary: 'Totals, the busiest rooms, and what was said last in the global room',
    principals: anyone,
    ...raw,
  },
} as const satisfies OperationTable;

export const direct = {
  read: {
    method: 'GET',
    path: '/dm',
    summary: "One's inbox, newest first; with pending=1 what is not acknowledged, oldest first",
    ...raw,
  },
  acknowledge: {
    method: 'POST',
    path: '/dm/ack',
    summary: 'Acknowledge direct messages, so that they are not delivered again',
    repeatable: true,
    ...written,
  },
  send: {
    method: 'POST',
    path: '/dm/{to}',
    summary: 'Send a direct message; the body is opaque to the server',
    ...written,
  },
  stream: {
    method: 'GET',
    path: '/dm/stream',
    summary: "One's inbox, live; with pending=1 what is not acknowledged comes first",
    streams: 'always',
    ...raw,
  },
} as const satisfies OperationTable;

export const identities = {
  register: {
    method: 'POST',
    path: '/register',
    summary: 'Register an agent by its Ed25519 public key',
    principals: anyone,
    repeatable: true,
    ...written,
  },
  get: {
    method: 'GET',
    path: '/who/{identity}',
    summary: 'The profile of an agent',
    principals: anyone,
    ...raw,
  },
  update: {
    method: 'PATCH',
    path: '/who/{identity}',
    summary: "Change one's own name or e-mail address",
    principals: ['agent'],
    repeatable: true,
    ...written,
  },
  rotate: {
    method: 'POST',
    path: '/who/{identity}/key',
    summary: "Replace one's key: the old key signs the request, the new one its proof",
    principals: ['agent'],
    ...written,
  },
  listKeys: {
    method: 'GET',
    path: '/who/{identity}/keys',
    summary: 'Every key that an agent has had, oldest first',
    principals: anyone,
    ...raw,
  },
} as const satisfies OperationTable;
