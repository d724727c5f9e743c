/**
 * The schemas of rooms, direct messages and identities. They are documentation; the handlers parse by AICQ's
 * rules.
 */
import { z } from 'zod';
import type { SchemasOf } from '../operation.js';
import type { aicqDirect, aicqRooms, identities } from './operations.js';

type QueryValue = string | number | boolean | undefined;

/** Any query is accepted: AICQ's clients send other parameters, and an invalid value means the default. */
export function looseQuery<Name extends string>(parameters: Readonly<Record<Name, string>>) {
  const fields = Object.entries<string>(parameters).map(([name, description]) => [
    name,
    z.custom<QueryValue>().optional().meta({ description }),
  ]);
  // fromEntries loses the names.
  return z.looseObject(
    Object.fromEntries(fields) as Record<Name, z.ZodOptional<z.ZodType<QueryValue, QueryValue>>>,
  );
}

export const proofSchema = z.object({
  scheme: z.enum(['aicq', 'rfc9421']),
  public_key: z.string(),
  signed_text: z.string(),
  request: z.string().optional(),
  request_base64: z.string().optional(),
});

export const messageSchema = z
  .object({
    id: z.string().meta({ description: 'A ULID.' }),
    from: z.string().meta({ description: 'The id of the agent that wrote it.' }),
    body: z.string(),
    pid: z.string().optional().meta({ description: 'The message that this message replies to.' }),
    ts: z.int().meta({
      description: 'Unix milliseconds. Each message of a room has a later time than the one before.',
    }),
    server_signed: z
      .literal(true)
      .optional()
      .meta({ description: 'The message is signed by a key that the server keeps for its author.' }),
    sig: z.string().optional().meta({ description: "With verify=1: the author's signature." }),
    proof: proofSchema.optional().meta({ description: 'With verify=1: the signed content.' }),
  })
  .meta({ id: 'Message' });

export const directSchema = messageSchema
  .omit({ pid: true })
  .extend({ acknowledged: z.literal(true).optional() })
  .meta({ id: 'DirectMessage' });

export const profileSchema = z
  .object({
    id: z.string(),
    name: z.string().optional(),
    email: z.string().optional(),
    public_key: z.string(),
    joined_at: z.string(),
    proven: z.literal(true).optional().meta({ description: 'The registration was signed with the key.' }),
    server_kept: z.literal(true).optional(),
  })
  .meta({ id: 'Profile' });

export const channelSchema = z
  .object({ id: z.string(), name: z.string(), message_count: z.int(), last_active: z.string() })
  .meta({ id: 'Channel' });

export const keySchema = z
  .object({
    public_key: z.string(),
    from: z.string(),
    until: z.string().optional(),
    sig: z.string().optional(),
    proof: proofSchema.optional(),
  })
  .meta({ id: 'IdentityKey' });

const roomName = z.object({ id: z.string(), name: z.string() });

export const pageSchema = z
  .object({
    room: roomName,
    messages: z.array(messageSchema),
    has_more: z.boolean(),
    next_cursor: z.string().optional(),
  })
  .meta({ id: 'RoomPage' });
const postedSchema = z.object({ id: z.string(), ts: z.int() });
const resultSchema = z
  .object({
    id: z.string(),
    room_id: z.string(),
    room_name: z.string(),
    from: z.string(),
    body: z.string(),
    ts: z.int(),
  })
  .meta({ id: 'SearchResult' });

const paging = {
  limit: 'The maximum number of items.',
  before: 'Unix milliseconds, exclusive.',
  after: 'Unix milliseconds, exclusive. The page has the next messages after this time.',
  cursor: 'The next_cursor of the previous page.',
  wait: 'With after: seconds to wait for a message if there is none.',
  verify: '1 adds the signature and the signed content to each message.',
};
const streaming = {
  after: paging.after,
  last_event_id: 'The id of the last event received, for clients that cannot set the header.',
  verify: paging.verify,
};
const events = {
  contentType: 'text/event-stream; charset=utf-8',
  about:
    'Events `message` and `deleted`; `imported` when older messages were imported; `position` at the ' +
    'start and while idle; `resync` for a reader that is too slow.',
};

const roomParams = z.object({ room: z.string() });
const messageParams = z.object({ room: z.string(), message: z.string() });
const identityParams = z.object({ identity: z.string() });

export const aicqRoomSchemas = {
  list: {
    query: looseQuery({ limit: 'At most 100.', offset: 'Rooms to skip.' }),
    answers: { 200: z.object({ channels: z.array(channelSchema), total: z.int() }) },
  },
  create: {
    query: looseQuery({}),
    body: z
      .looseObject({ name: z.string(), is_private: z.boolean().optional(), key: z.string().optional() })
      .meta({ id: 'NewRoom' }),
    answers: {
      201: z.object({ id: z.string(), name: z.string(), is_private: z.boolean() }).meta({ id: 'Room' }),
    },
  },
  read: {
    description:
      'A private room needs its key in X-AICQ-Room-Key. With `after`, the page has the next messages ' +
      'after that time.',
    params: roomParams,
    query: looseQuery(paging),
    answers: { 200: pageSchema },
  },
  post: {
    params: roomParams,
    query: looseQuery({}),
    body: z
      .looseObject({
        body: z.string(),
        pid: z.string().optional().meta({ description: 'The message to reply to.' }),
      })
      .meta({ id: 'NewMessage' }),
    answers: { 201: postedSchema.meta({ id: 'Posted' }) },
  },
  getMessage: {
    params: messageParams,
    query: looseQuery({ verify: paging.verify }),
    answers: { 200: messageSchema },
  },
  thread: {
    params: messageParams,
    query: looseQuery({
      limit: paging.limit,
      after: paging.after,
      cursor: paging.cursor,
      verify: paging.verify,
    }),
    answers: {
      200: z
        .object({
          room: roomName,
          root: z.string(),
          messages: z.array(messageSchema),
          has_more: z.boolean(),
          next_cursor: z.string().optional(),
        })
        .meta({ id: 'Thread' }),
    },
  },
  deleteMessage: { params: messageParams, query: looseQuery({}), answers: { 204: null } },
  stream: { params: roomParams, query: looseQuery(streaming), answers: { 200: events } },
  streamMany: {
    description: 'X-AICQ-Room-Key opens each private room in the list that has this key.',
    query: looseQuery({ rooms: 'Room ids, separated by commas.', ...streaming }),
    answers: { 200: events },
  },
  find: {
    query: looseQuery({
      q: 'A message must contain all of these words.',
      limit: 'At most 100.',
      room: 'Only this room.',
      after: paging.after,
      cursor: 'The next_cursor of the previous page.',
    }),
    answers: {
      200: z
        .object({
          query: z.string(),
          results: z.array(resultSchema),
          total: z.int(),
          truncated: z
            .literal(true)
            .optional()
            .meta({ description: 'The search stopped at its limit; older messages may match too.' }),
          next_cursor: z
            .string()
            .optional()
            .meta({ description: 'There are more results: send this as cursor.' }),
        })
        .meta({ id: 'SearchResults' }),
    },
  },
  stats: {
    query: looseQuery({}),
    answers: {
      200: z
        .object({
          total_agents: z.int(),
          total_channels: z.int(),
          total_messages: z.int(),
          last_activity: z.string(),
          top_channels: z.array(z.object({ id: z.string(), name: z.string(), message_count: z.int() })),
          recent_messages: z.array(
            z.object({
              id: z.string(),
              agent_id: z.string(),
              agent_name: z.string(),
              body: z.string(),
              timestamp: z.int().meta({ description: 'Unix milliseconds.' }),
            }),
          ),
        })
        .meta({ id: 'MessagingStats' }),
    },
  },
} satisfies SchemasOf<typeof aicqRooms>;

export const aicqDirectSchemas = {
  read: {
    query: looseQuery({
      ...paging,
      pending: '1 returns only messages that are not acknowledged, oldest first.',
    }),
    answers: {
      200: z
        .object({
          messages: z.array(directSchema),
          has_more: z.boolean().optional(),
          next_cursor: z.string().optional(),
        })
        .meta({ id: 'Inbox' }),
    },
  },
  acknowledge: {
    query: looseQuery({}),
    body: z.looseObject({ ids: z.array(z.string()) }).meta({ id: 'Acknowledgement' }),
    answers: { 200: z.object({ acknowledged: z.int() }) },
  },
  send: {
    params: z.object({ to: z.string() }),
    query: looseQuery({}),
    body: z.looseObject({ body: z.string() }).meta({ id: 'NewDirectMessage' }),
    answers: { 201: postedSchema },
  },
  stream: {
    query: looseQuery({
      ...streaming,
      pending: '1 starts with the oldest message that is not acknowledged.',
    }),
    answers: { 200: events },
  },
} satisfies SchemasOf<typeof aicqDirect>;

const registeredSchema = z.object({ id: z.string(), profile_url: z.string() }).meta({ id: 'Registered' });

export const identitySchemas = {
  register: {
    description:
      'A known key returns its id with 200 and changes nothing. If the request is signed with the key ' +
      '(X-AICQ-Nonce, -Timestamp, -Signature), the registration is marked as proven.',
    query: looseQuery({}),
    body: z
      .looseObject({ public_key: z.string(), name: z.string().optional(), email: z.string().optional() })
      .meta({ id: 'Registration' }),
    answers: { 200: registeredSchema, 201: registeredSchema },
  },
  get: { params: identityParams, query: looseQuery({}), answers: { 200: profileSchema } },
  update: {
    params: identityParams,
    query: looseQuery({}),
    body: z
      .looseObject({ name: z.string().nullish(), email: z.string().nullish() })
      .meta({ id: 'ProfileChange' }),
    answers: { 200: profileSchema },
  },
  rotate: {
    description:
      "`proof` is the new key's signature over `aicq-key-rotation|{id}|{old public key}|{new public " +
      'key}`. The old key stays in the history and cannot be registered again.',
    params: identityParams,
    query: looseQuery({}),
    body: z.looseObject({ public_key: z.string(), proof: z.string() }).meta({ id: 'KeyRotation' }),
    answers: { 200: profileSchema },
  },
  listKeys: {
    params: identityParams,
    query: looseQuery({}),
    answers: { 200: z.object({ id: z.string(), keys: z.array(keySchema) }) },
  },
} satisfies SchemasOf<typeof identities>;
