import { randomUUID } from 'node:crypto';
import type { Caller } from '../../../src/core/caller.js';
import { operatorCaller } from '../../../src/core/caller.js';
import type { Running } from '../running.js';
import { type Row, statuses } from './row.js';

const alice: Caller = { ...operatorCaller('alice'), kind: 'user', everyUser: false };
/** A room of alice: to bob it does not exist. */
const read = statuses(200, 200, 404, 200, 200, 401);
const all = statuses(200, 200, 200, 200, 200, 401);
const made = statuses(201, 201, 201, 403, 201, 401);

async function newRoom({ stoa }: Running): Promise<string> {
  const input = { name: `row-${randomUUID().slice(0, 8)}`, is_private: false, key: '', owner: 'alice' };
  return (await stoa.messaging.rooms.create(alice, input, null)).id;
}

async function messagePath(running: Running): Promise<string> {
  const room = await newRoom(running);
  const { id } = await running.stoa.messaging.rooms.post(
    alice,
    { room },
    () => ({ body: 'row', pid: '' }),
    null,
  );
  return `/v1/rooms/${room}/messages/${id}`;
}

/** The name of an agent of alice that has an identity. */
async function namedAgent({ stoa }: Running): Promise<string> {
  const scout = { ...alice, agent: 'row' };
  // An agent exists from its first write.
  await stoa.data.set(scout, 'rows', 'first', 1);
  await stoa.messaging.direct.send(scout, { to: scout.agent, byName: true }, { body: 'row' }, null);
  return scout.agent;
}

export const roomRows: Record<string, Row> = {
  'GET /v1/rooms': { request: () => ({ path: '/v1/rooms' }), status: all },
  'POST /v1/rooms': {
    request: () => ({ path: '/v1/rooms', body: { name: `row-${randomUUID().slice(0, 8)}` } }),
    status: made,
  },
  'GET /v1/rooms/{room}': {
    request: async (running) => ({ path: `/v1/rooms/${await newRoom(running)}` }),
    status: read,
  },
  'PATCH /v1/rooms/{room}': {
    request: async (running) => ({
      path: `/v1/rooms/${await newRoom(running)}`,
      body: { retention_seconds: 3_600 },
    }),
    status: statuses(200, 200, 404, 403, 200, 401),
  },
  'DELETE /v1/rooms/{room}': {
    request: async (running) => ({ path: `/v1/rooms/${await newRoom(running)}` }),
    status: statuses(204, 204, 404, 403, 204, 401),
  },
  'GET /v1/rooms/{room}/messages': {
    request: async (running) => ({ path: `/v1/rooms/${await newRoom(running)}/messages` }),
    status: read,
  },
  'POST /v1/rooms/{room}/messages': {
    request: async (running) => ({
      path: `/v1/rooms/${await newRoom(running)}/messages`,
      body: { body: 'row' },
    }),
    status: statuses(201, 201, 404, 403, 201, 401),
  },
  'GET /v1/rooms/{room}/messages/{message}': {
    request: async (running) => ({ path: await messagePath(running) }),
    status: read,
  },
  'DELETE /v1/rooms/{room}/messages/{message}': {
    request: async (running) => ({ path: await messagePath(running) }),
    // The signed agent is not the author.
    status: statuses(204, 204, 404, 403, 403, 401),
  },
  'GET /v1/inbox': { request: () => ({ path: '/v1/inbox' }), status: all },
  'POST /v1/inbox': {
    request: async (running) => ({
      path: '/v1/inbox',
      body: {
        to: (await running.stoa.messaging.identities.find(alice, await namedAgent(running))).id,
        body: 'row',
      },
    }),
    status: made,
  },
  'GET /v1/identities/{identity}': {
    request: async (running) => ({ path: `/v1/identities/${await namedAgent(running)}` }),
    status: read,
  },
  'GET /v1/identities/{identity}/keys': {
    request: async (running) => ({ path: `/v1/identities/${await namedAgent(running)}/keys` }),
    status: read,
  },
  'POST /v1/inbox/ack': {
    request: () => ({ path: '/v1/inbox/ack', body: { ids: ['01ARZ3NDEKTSV4RRFFQ69G5FAV'] } }),
    status: statuses(200, 200, 200, 403, 200, 401),
  },
};
