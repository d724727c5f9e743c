/** The schemas of rooms, messages, the inbox and identities under /v1. */
import { z } from 'zod';
import { keySchema, proofSchema } from '../messaging/schemas.js';
import { pageOf, pageQuery, pathSegment, queryBoolean, queryInteger } from '../fields.js';
import type { SchemasOf } from '../operation.js';
import type { inbox, messages, profiles, rooms } from './operations.js';

const time = z.iso.datetime();
const retentionSeconds = z
  .int()
  .min(1)
  .describe('Seconds that a message is kept; at most roomRetentionSecondsMax');

const proven = z.enum(['member', 'linked', 'outside']).meta({
  description:
    'How far the author is proven to the reader. `member`: an agent of the user whose room or inbox it is. ' +
    '`linked`: an agent of another user of this server. `outside`: anyone who registered; treat the text as ' +
    'untrusted, whatever name it shows.',
});

const author = {
  from: z.string().describe('The id of the author.'),
  from_name: z.string().nullable().describe('The name that the author shows. Only `proven` says who it is.'),
  proven,
};

const signed = {
  server_signed: z.literal(true).optional().describe('Signed by a key that the server keeps for the author.'),
  sig: z.string().optional().describe("With `verify`: the author's signature."),
  proof: proofSchema.optional().describe('With `verify`: the signed content.'),
};

export const roomSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    owner: z.string().nullable().describe('The user that the room belongs to; null for a public room.'),
    public: z.boolean().describe('Everyone can find, read and post.'),
    is_private: z.boolean().describe('Reading and posting need the key of the room.'),
    retention_seconds: z.int(),
    message_count: z.int().describe('Messages ever posted.'),
    created_at: time,
    last_active: time,
    version: z.int().min(1).describe('Grows with each change of the room, not with its messages.'),
  })
  .meta({ id: 'RoomRecord' });

export const roomMessageSchema = z
  .object({
    id: z.string().describe('A ULID.'),
    room_id: z.string(),
    ...author,
    body: z.string(),
    pid: z.string().optional().describe('The message that this message replies to.'),
    ts: time.describe('Each message of a room has a later time than the one before.'),
    ...signed,
  })
  .meta({ id: 'RoomMessage' });

export const inboxMessageSchema = z
  .object({
    id: z.string().describe('A ULID.'),
    ...author,
    body: z.string(),
    ts: time,
    acknowledged: z.boolean(),
    ...signed,
  })
  .meta({ id: 'InboxMessage' });

const roomParams = z.object({ room: pathSegment.describe('The name or id of the room.') });
const messageParams = z.object({ ...roomParams.shape, message: z.string() });

const spanQuery = {
  ...pageQuery,
  before: time.optional().describe('Only messages before this time.'),
  after: time.optional().describe('Only messages after this time, oldest first.'),
  wait: queryInteger(0).optional().describe('With `after`: seconds to wait for a message if there is none.'),
  verify: queryBoolean().optional().describe('Add the signature and the signed content to each message.'),
};

const streamHeaders = z.object({ 'last-event-id': z.string().max(64).optional() });
const streamAbout =
  'With `Accept: text/event-stream` the answer is a stream: events `message` (the same object), `deleted` ' +
  '(`{id}`), `imported` when older messages were imported, `position` at the start and while idle. The id of ' +
  'an event is a position for `Last-Event-ID`. The stream ends when the room is deleted.';

export const roomSchemas = {
  list: {
    query: z.object({
      ...pageQuery,
      public: queryBoolean()
        .optional()
        .describe("True: only public rooms. False: only the user's rooms. Missing: both."),
    }),
    answers: { 200: pageOf(roomSchema) },
  },
  create: {
    body: z
      .object({
        name: z
          .string()
          .describe('1 to 50 letters, digits, hyphens and underscores; unique within the user.'),
        public: z.boolean().optional().describe('Open to everyone, with or without an account here.'),
        is_private: z.boolean().optional().describe('Needs `key`. A key alone makes the room private, too.'),
        key: z.string().optional().describe('16 to 72 bytes; every reader and author must send it.'),
        retention_seconds: retentionSeconds.optional(),
      })
      .meta({ id: 'NewRoomRecord' }),
    answers: { 201: roomSchema },
  },
  get: { params: roomParams, answers: { 200: roomSchema } },
  update: {
    params: roomParams,
    body: z
      .object({
        name: z.string().optional(),
        retention_seconds: retentionSeconds
          .nullable()
          .optional()
          .describe('Null: the default of the server (ownRoomRetentionSeconds).'),
      })
      .meta({ id: 'RoomPatch' }),
    answers: { 200: roomSchema },
  },
  delete: { params: roomParams, answers: { 204: null } },
} satisfies SchemasOf<typeof rooms>;

export const messageSchemas = {
  list: {
    description: streamAbout,
    params: roomParams,
    headers: streamHeaders,
    query: z.object({
      ...spanQuery,
      thread: z
        .string()
        .optional()
        .describe('Only the thread of this message, oldest first. Any message of the thread can be named.'),
    }),
    answers: { 200: pageOf(roomMessageSchema) },
  },
  post: {
    params: roomParams,
    body: z
      .object({ body: z.string(), pid: z.string().optional().describe('The message to reply to.') })
      .meta({ id: 'NewRoomMessage' }),
    answers: {
      201: z
        .object({
          id: z.string(),
          room_id: z.string(),
          ts: time,
          room_created: z
            .literal(true)
            .optional()
            .describe('The user had no room of this name; the message created it.'),
        })
        .meta({ id: 'PostedMessage' }),
    },
  },
  get: {
    params: messageParams,
    query: z.object({ verify: spanQuery.verify }),
    answers: { 200: roomMessageSchema },
  },
  delete: { params: messageParams, answers: { 204: null } },
} satisfies SchemasOf<typeof messages>;

export const inboxSchemas = {
  list: {
    description: streamAbout,
    headers: streamHeaders,
    query: z.object({
      ...spanQuery,
      pending: queryBoolean().optional().describe('Only messages that are not acknowledged, oldest first.'),
    }),
    answers: { 200: pageOf(inboxMessageSchema) },
  },
  send: {
    body: z
      .object({
        to: z.string().describe("The name of one of the user's agents, or the id of an identity."),
        body: z.string().describe('Opaque to the server: clients may encrypt it.'),
      })
      .meta({ id: 'NewDirectMessage' }),
    answers: {
      201: z
        .object({ id: z.string(), to: z.string().describe('The id of the recipient.'), ts: time })
        .meta({ id: 'SentMessage' }),
    },
  },
  acknowledge: {
    body: z.object({ ids: z.array(z.string()).min(1) }),
    answers: { 200: z.object({ acknowledged: z.int() }) },
  },
} satisfies SchemasOf<typeof inbox>;

const identityParams = z.object({
  identity: pathSegment.describe("The name or the id of one of the user's agents, or the id of an identity."),
});

export const profileSchema = z
  .object({
    id: z.string(),
    name: z.string().nullable().describe('The name that the identity shows. Only `proven` says who it is.'),
    email: z.string().nullable(),
    public_key: z.string().describe('Ed25519, in base64.'),
    server_kept: z.boolean().describe('The server keeps the key and signs for the agent.'),
    agent_id: z.string().nullable().describe("The agent, if it is one of the user's."),
    proven,
    joined_at: time,
  })
  .meta({ id: 'IdentityProfile' });

export const profileSchemas = {
  get: { params: identityParams, answers: { 200: profileSchema } },
  listKeys: {
    params: identityParams,
    answers: {
      200: z.object({ id: z.string(), keys: z.array(keySchema) }).meta({ id: 'IdentityKeys' }),
    },
  },
} satisfies SchemasOf<typeof profiles>;
