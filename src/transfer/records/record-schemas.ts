/** The shape of every kind of record in an export. */
import { z } from 'zod';
import { lastTimeMs } from '../../core/text/iso-time.js';
import { globalRoomId } from '../../messaging/identities/uuid.js';
import type { Proof } from '../../messaging/model.js';
import { agentStates, sessionStatuses } from '../../registry/model.js';
import * as records from '../../workspaces/records.js';
import { jsonObject } from '../../workspaces/schemas.js';

const user = z.string().min(1).max(1_024);
const count = z.int().min(0);
/** To the end of the year 9999, which every home can store. */
const timeMs = z.int().min(0).max(lastTimeMs);
const agentId = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lowercase hex digits');
const uuid = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'must be a UUID in lowercase');
const ulid = z.string().regex(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/, 'must be a ULID');

export const userSchema = z.strictObject({
  type: z.literal('registry.user'),
  user,
  email: z.string(),
  created_at: timeMs,
  last_seen_at: timeMs,
  agents_max: count.nullable(),
  /** The highest fencing number of deleted agents. Only in a move. */
  deleted_fence: count.optional(),
});

export const agentSchema = z.strictObject({
  type: z.literal('registry.agent'),
  user,
  agent_id: agentId,
  name: z.string().min(1),
  status: z.enum(agentStates),
  spec: z.strictObject({ cpu_millicores: count, memory_mb: count, runtime_version: z.string() }),
  created_at: timeMs,
  updated_at: timeMs,
  last_heartbeat_at: timeMs.nullable(),
  version: z.int().min(1),
  labels: z.record(z.string(), z.string()),
  error_message: z.string().nullable(),
  status_since: timeMs,
  active_at: timeMs,
  /** The last fencing number that was given out: the next one must be higher. */
  fence: count.nullable(),
  /**
   * When the agent was last present. `lost` is false if the agent gave its lease back. Null for an agent that
   * never was present. A move has the whole lease instead.
   */
  presence: z.strictObject({ seen_at: timeMs, lost: z.boolean() }).nullable().optional(),
  /** With its holder. Only in a move. */
  lease: z
    .strictObject({
      holder: z.string().nullable(),
      fence: count,
      renewedAtMs: timeMs,
      expiresAtMs: timeMs,
      timerAtMs: timeMs.nullable(),
      lost: z.boolean(),
      implicit: z.boolean(),
    })
    .nullable()
    .optional(),
});

export const agentSessionSchema = z.strictObject({
  type: z.literal('registry.session'),
  user,
  session_id: uuid,
  agent_id: agentId,
  status: z.enum(sessionStatuses),
  created_at: timeMs,
  closed_at: timeMs.nullable(),
});

export const linkSchema = z.strictObject({
  type: z.literal('registry.link'),
  user,
  identity: uuid,
  agent_id: agentId,
});

/** In the seed's format. The data store validates the members, because their limits are settings. */
export const documentSchema = z.looseObject({
  type: z.literal('data.document'),
  userId: user,
  namespace: z.string().min(1),
  key: z.string().min(1),
  value: z.unknown(),
});

const name = z.string().min(1);

export const workspaceSchema = z.strictObject({
  type: z.literal('workspaces.workspace'),
  user,
  ...records.workspaceSchema.omit({ owner_id: true, active_tasks: true }).shape,
  name,
  /** Plain, and only in exports with secrets. */
  claude_key: z.string().nullable().optional(),
});

/** Secrets in `config` are left out, or plain in exports with secrets. */
export const projectSchema = z.strictObject({
  type: z.literal('workspaces.project'),
  user,
  ...records.projectSchema.shape,
  name,
});

export const workSessionSchema = z.strictObject({
  type: z.literal('workspaces.session'),
  user,
  ...records.sessionSchema.shape,
});

const leaseSchema = z.strictObject({
  holder: z.string().nullable(),
  fence: count,
  leaseSeconds: z.number(),
  renewedAtMs: timeMs,
  expiresAtMs: timeMs,
  resultDigest: z.string().nullable(),
});

export const taskSchema = z.strictObject({
  type: z.literal('workspaces.task'),
  user,
  ...records.taskSchema.shape,
  command: z.string().min(1),
  retry: z.strictObject({ base_seconds: z.number(), max_seconds: z.number() }).nullable(),
  lease: leaseSchema.nullable(),
});

/** Stored unchanged. */
const proof = z.custom<Proof | null>(
  (value) => jsonObject.nullable().safeParse(value).success,
  'must be an object or null',
);
const identityLink = z.strictObject({
  user,
  /** Null for the identity of the user itself. */
  agentId: agentId.nullable(),
  agentName: z.string().nullable(),
  write: z.boolean(),
  namespaces: z.array(z.string()).nullable(),
  linkedAtMs: timeMs,
});

export const identitySchema = z.strictObject({
  type: z.literal('messaging.identity'),
  id: uuid,
  publicKey: z.base64(),
  name: z.string().nullable(),
  email: z.string().nullable(),
  createdAtMs: timeMs,
  updatedAtMs: timeMs,
  proven: z.boolean(),
  serverKept: z.boolean(),
  link: identityLink.nullable(),
  /** Every key that was ever in force, oldest first. */
  keys: z.array(z.strictObject({ publicKey: z.base64(), fromMs: timeMs, proof })).min(1),
});

export const roomSchema = z
  .strictObject({
    type: z.literal('messaging.room'),
    id: uuid,
    name: z.string(),
    isPrivate: z.boolean(),
    owner: z.string().nullable(),
    retentionSeconds: count.nullable(),
    createdBy: uuid.nullable(),
    createdAtMs: timeMs,
    lastActiveAtMs: timeMs,
    messageCount: count,
    version: z.int().min(1),
    lastTsMs: timeMs,
    /** Only in exports with secrets. */
    key_hash: z.string().nullable().optional(),
  })
  .refine(({ id, isPrivate, owner }) => id !== globalRoomId || (!isPrivate && owner === null), {
    path: ['id'],
    message:
      'The global room must be public and must not have an owner. Set isPrivate to false and owner to null.',
  });

const written = { id: ulid, from: uuid, body: z.string(), tsMs: timeMs, proof, serverSigned: z.boolean() };

export const messageSchema = z.strictObject({
  type: z.literal('messaging.message'),
  roomId: uuid,
  parentId: ulid.nullable(),
  rootId: ulid.nullable(),
  ...written,
});

export const directSchema = z.strictObject({
  type: z.literal('messaging.direct'),
  to: uuid,
  acknowledged: z.boolean(),
  ...written,
});

export type UserLine = z.output<typeof userSchema>;
export type AgentLine = z.output<typeof agentSchema>;
export type AgentSessionLine = z.output<typeof agentSessionSchema>;
export type LinkLine = z.output<typeof linkSchema>;
export type DocumentLine = z.output<typeof documentSchema>;
export type WorkspaceLine = z.output<typeof workspaceSchema>;
export type ProjectLine = z.output<typeof projectSchema>;
export type WorkSessionLine = z.output<typeof workSessionSchema>;
export type TaskLine = z.output<typeof taskSchema>;
export type IdentityLine = z.output<typeof identitySchema>;
export type RoomLine = z.output<typeof roomSchema>;
export type MessageLine = z.output<typeof messageSchema>;
export type DirectLine = z.output<typeof directSchema>;
