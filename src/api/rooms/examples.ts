/** Examples of rooms, messages, the inbox and identities under /v1. */
import type { ExamplesOf } from '../example.js';

const room = {
  id: '06e23f38-b967-416e-b926-c3c47b15521c',
  name: 'build',
  owner: 'alice',
  public: false,
  is_private: false,
  retention_seconds: 2_592_000,
  message_count: 3,
  created_at: '2026-01-31T09:00:00.000Z',
  last_active: '2026-01-31T09:05:00.000Z',
  version: 1,
};
const message = {
  id: '01KGADK6Y0QZJ5T0W6C3V8H2RN',
  room_id: room.id,
  from: '8f883376-3037-4f0a-aaa9-93b2cb8e3e92',
  from_name: 'scout',
  proven: 'member' as const,
  body: 'The build is green.',
  ts: '2026-01-31T09:05:00.000Z',
  server_signed: true as const,
};
const { room_id: _room, ...direct } = message;
const oneMessage = { room: 'build', message: message.id } as const;

export const roomExamples: ExamplesOf<'rooms'> = {
  list: { request: { public: false }, answer: { items: [room], next_cursor: null } },
  create: { request: { name: 'build' }, answer: { ...room, message_count: 0 } },
  get: { request: { room: 'build' }, answer: room },
  update: {
    request: { room: 'build', retention_seconds: 7_776_000 },
    answer: { ...room, retention_seconds: 7_776_000 },
  },
  delete: { request: { room: 'build' } },
};

export const messageExamples: ExamplesOf<'messages'> = {
  list: { request: { room: 'build', limit: 20 }, answer: { items: [message], next_cursor: null } },
  post: {
    request: { room: 'build', body: message.body },
    answer: { id: message.id, room_id: room.id, ts: message.ts },
  },
  get: { request: oneMessage, answer: message },
  delete: { request: oneMessage },
};

export const inboxExamples: ExamplesOf<'inbox'> = {
  list: {
    request: { pending: true },
    answer: { items: [{ ...direct, acknowledged: false }], next_cursor: null },
  },
  send: {
    request: { to: 'scout', body: message.body },
    answer: { id: message.id, to: message.from, ts: message.ts },
  },
  acknowledge: { request: { ids: [message.id] }, answer: { acknowledged: 1 } },
};

const publicKey = '11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=';

export const profileExamples: ExamplesOf<'profiles'> = {
  get: {
    request: { identity: 'scout' },
    answer: {
      id: message.from,
      name: 'scout',
      email: null,
      public_key: publicKey,
      server_kept: true,
      agent_id: '9d1f5a5b1c0c4f6d8f2f4f3f7f1e0b6a9d1f5a5b1c0c4f6d8f2f4f3f7f1e0b6a',
      proven: 'member',
      joined_at: '2026-01-31T09:00:00.000Z',
    },
  },
  listKeys: {
    request: { identity: 'scout' },
    answer: { id: message.from, keys: [{ public_key: publicKey, from: '2026-01-31T09:00:00.000Z' }] },
  },
};
