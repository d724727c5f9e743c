/**
 * Messaging by AICQ's rules: rooms, direct messages and identities. The handlers read the bytes of a body
 * themselves.
 */
import { type OperationTable, anyone } from '../operation.js';

/** Private rooms require their key; public rooms are open to everybody. */
const readers = ['operator', 'user', 'agent', 'anyone'] as const;
const raw = { consumes: 'raw' } as const;
const written = { consumes: 'raw', bodyLimit: 'messagingRequestBytesMax' } as const;
const withKey = { headers: { key: 'x-aicq-room-key' } } as const;

export const aicqRooms = {
  list: {
    method: 'GET',
    path: '/channels',
    summary: 'List public rooms, most recently active first',
    principals: anyone,
    ...raw,
  },
  create: { method: 'POST', path: '/room', summary: 'Create a room', takesKey: true, ...written },
  read: {
    method: 'GET',
    path: '/room/{room}',
    summary: 'List the messages of a room, newest first',
    principals: readers,
    ...withKey,
    ...raw,
  },
  post: {
    method: 'POST',
    path: '/room/{room}',
    summary: 'Post a message',
    takesKey: true,
    ...withKey,
    ...written,
  },
  getMessage: {
    method: 'GET',
    path: '/room/{room}/{message}',
    summary: 'Get a message',
    principals: readers,
    ...withKey,
    ...raw,
  },
  thread: {
    method: 'GET',
    path: '/room/{room}/{message}/thread',
    summary: 'List the thread of a message, oldest first',
    principals: readers,
    ...withKey,
    ...raw,
  },
  deleteMessage: {
    method: 'DELETE',
    path: '/room/{room}/{message}',
    summary: 'Delete a message, as its author or the admin',
    ...withKey,
    ...written,
  },
  stream: {
    method: 'GET',
    path: '/room/{room}/stream',
    summary: 'Stream the messages of a room',
    principals: readers,
    streams: 'always',
    ...withKey,
    ...raw,
  },
  streamMany: {
    method: 'GET',
    path: '/stream',
    summary: 'Stream the messages of several rooms',
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
    summary: 'Get totals, the busiest rooms, and the newest messages of the global room',
    principals: anyone,
    ...raw,
  },
} as const satisfies OperationTable;

export const aicqDirect = {
  read: {
    method: 'GET',
    path: '/dm',
    summary:
      "List the caller's direct messages, newest first; with pending=1 those not acknowledged, oldest first",
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
    takesKey: true,
    ...written,
  },
  stream: {
    method: 'GET',
    path: '/dm/stream',
    summary: "Stream the caller's direct messages; with pending=1 those not acknowledged come first",
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
    summary: 'Get the profile of an agent',
    principals: anyone,
    ...raw,
  },
  update: {
    method: 'PATCH',
    path: '/who/{identity}',
    summary: "Change the caller's name or e-mail address",
    principals: ['agent'],
    repeatable: true,
    ...written,
  },
  rotate: {
    method: 'POST',
    path: '/who/{identity}/key',
    summary: "Replace the caller's key: the old key signs the request, the new key signs the proof",
    principals: ['agent'],
    ...written,
  },
  listKeys: {
    method: 'GET',
    path: '/who/{identity}/keys',
    summary: 'List every key that an agent has had, oldest first',
    principals: anyone,
    ...raw,
  },
} as const satisfies OperationTable;
