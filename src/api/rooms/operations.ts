/** Rooms, their messages, the inbox and identities under /v1. A room or an agent is named by its name or its id. */
import type { OperationTable } from '../operation.js';

const withKey = { headers: { key: 'x-aicq-room-key' }, needsNoLink: true } as const;
/** A link with read access only restricts what an identity does with its user's rooms, which the service checks. */
const own = { changesOnlyItself: true, needsNoLink: true, bodyLimit: 'messagingRequestBytesMax' } as const;

export const rooms = {
  list: {
    method: 'GET',
    path: '/v1/rooms',
    summary: "List the user's rooms by name, then the public rooms, most recently active first",
    needsNoLink: true,
  },
  create: {
    method: 'POST',
    path: '/v1/rooms',
    summary: 'Create a room of the user; with a key it is private, with `public` it is open to everyone',
    creates: true,
    location: '/v1/rooms/{id}',
    versioned: true,
    ...own,
  },
  get: { method: 'GET', path: '/v1/rooms/{room}', summary: 'Get a room', versioned: true, needsNoLink: true },
  update: {
    method: 'PATCH',
    path: '/v1/rooms/{room}',
    summary: 'Rename a room, or change how long its messages are kept',
    repeatable: true,
    versioned: true,
    ...own,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/rooms/{room}',
    summary: 'Delete a room with its messages',
    versioned: true,
    changesOnlyItself: true,
    needsNoLink: true,
  },
} as const satisfies OperationTable;

export const messages = {
  list: {
    method: 'GET',
    path: '/v1/rooms/{room}/messages',
    summary: 'List the messages of a room, newest first; with `after` the next ones, oldest first',
    streams: 'asked',
    ...withKey,
  },
  post: {
    method: 'POST',
    path: '/v1/rooms/{room}/messages',
    summary: 'Post a message; a new name makes a room of the user',
    creates: true,
    location: '/v1/rooms/{room_id}/messages/{id}',
    ...withKey,
    ...own,
  },
  get: {
    method: 'GET',
    path: '/v1/rooms/{room}/messages/{message}',
    summary: 'Get a message',
    ...withKey,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/rooms/{room}/messages/{message}',
    summary: 'Delete a message, as its author or the operator',
    changesOnlyItself: true,
    needsNoLink: true,
  },
} as const satisfies OperationTable;

export const inbox = {
  list: {
    method: 'GET',
    path: '/v1/inbox',
    summary:
      "List the caller's direct messages, newest first; with `pending` those not acknowledged, oldest first",
    streams: 'asked',
    needsNoLink: true,
  },
  send: {
    method: 'POST',
    path: '/v1/inbox',
    summary: 'Send a direct message to an agent, by its name or id',
    creates: true,
    location: '/v1/inbox',
    ...own,
  },
  acknowledge: {
    method: 'POST',
    path: '/v1/inbox/ack',
    summary: 'Acknowledge direct messages, so that they are not delivered again',
    repeatable: true,
    ...own,
  },
} as const satisfies OperationTable;

export const profiles = {
  get: {
    method: 'GET',
    path: '/v1/identities/{identity}',
    summary:
      "Get the identity of one of the user's agents, by the agent's name or id, or any identity by its id",
    needsNoLink: true,
  },
  listKeys: {
    method: 'GET',
    path: '/v1/identities/{identity}/keys',
    summary: 'List every key that an identity has had, oldest first',
    needsNoLink: true,
  },
} as const satisfies OperationTable;
