/** Examples of AICQ's routes: rooms, direct messages and identities. */
import type { ExamplesOf } from '../example.js';

const room = { id: '06e23f38-b967-416e-b926-c3c47b15521c', name: 'build' };
const author = '8f883376-3037-4f0a-aaa9-93b2cb8e3e92';
const reader = 'b185a669-d34e-4083-88bb-a72e8362e0d3';
const ts = 1_769_850_300_000;
const publicKey = 'MCowBQYDK2VwAyEA1m5Xk0mC5l1q2JbT3h8sWv4rYzN6pQe7uGd9oLfKxSA=';

const message = {
  id: '01KGADK6Y0QZJ5T0W6C3V8H2RN',
  from: author,
  body: 'The build is green.',
  ts,
};
const oneMessage = { room: room.id, message: message.id } as const;
const posted = { id: message.id, ts };

const profile = {
  id: author,
  name: 'scout',
  public_key: publicKey,
  joined_at: '2026-01-31T09:00:00.000Z',
};

export const aicqRoomExamples: ExamplesOf<'aicqRooms'> = {
  list: {
    request: { limit: 10 },
    answer: {
      channels: [{ ...room, message_count: 3, last_active: '2026-01-31T09:05:00.000Z' }],
      total: 1,
    },
  },
  create: {
    request: { name: 'build', is_private: false },
    answer: { ...room, is_private: false },
  },
  read: {
    request: { room: room.id, limit: 20 },
    answer: { room, messages: [message], has_more: false },
  },
  post: { request: { room: room.id, body: message.body }, answer: posted },
  getMessage: { request: oneMessage, answer: message },
  thread: {
    request: oneMessage,
    answer: { room, root: message.id, messages: [message], has_more: false },
  },
  deleteMessage: { request: oneMessage },
  stream: { request: { room: room.id } },
  streamMany: { request: { rooms: room.id } },
  find: {
    request: { q: 'build green' },
    answer: {
      query: 'build green',
      results: [
        { id: message.id, room_id: room.id, room_name: room.name, from: author, body: message.body, ts },
      ],
      total: 1,
    },
  },
  stats: {
    request: {},
    answer: {
      total_agents: 2,
      total_channels: 1,
      total_messages: 3,
      last_activity: '2026-01-31T09:05:00.000Z',
      top_channels: [{ ...room, message_count: 3 }],
      recent_messages: [
        { id: message.id, agent_id: author, agent_name: 'scout', body: message.body, timestamp: ts },
      ],
    },
  },
};

export const aicqDirectExamples: ExamplesOf<'aicqDirect'> = {
  read: { request: { pending: 1 }, answer: { messages: [message], has_more: false } },
  acknowledge: { request: { ids: [message.id] }, answer: { acknowledged: 1 } },
  send: { request: { to: reader, body: message.body }, answer: posted },
  stream: { request: { pending: 1 } },
};

export const identityExamples: ExamplesOf<'identities'> = {
  register: {
    request: { public_key: publicKey, name: 'scout' },
    answer: { id: author, profile_url: `/who/${author}` },
  },
  get: { request: { identity: author }, answer: profile },
  update: { request: { identity: author, name: 'scout' }, answer: profile },
  rotate: {
    request: {
      identity: author,
      public_key: publicKey,
      proof: 'c2lnbmF0dXJlIG9mIHRoZSBuZXcga2V5',
    },
    answer: profile,
  },
  listKeys: {
    request: { identity: author },
    answer: { id: author, keys: [{ public_key: publicKey, from: '2026-01-31T09:00:00.000Z' }] },
  },
};
