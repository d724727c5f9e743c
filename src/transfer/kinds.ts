/**
 * Every kind of record in an export: its shape, its id, what it refers to, and how ids in it are rewritten.
 */
import { z } from 'zod';
import { agentStates, sessionStatuses as agentSessionStatuses } from '../registry/model.js';
import { idPatterns } from '../workspaces/ids.js';
import { type JsonObject, sessionStatuses, taskStatuses, workspaceStatuses } from '../workspaces/model.js';
import type { TransferDomain, TransferRecord } from './model.js';

export interface Reference {
  type: string;
  id: string;
}

/** The new id of a record; the same id if ids are kept, or if the file does not define it. */
export type MapId = (type: string, id: string) => string;

/** A kind with its record's type erased: the schema has checked each record before the rest sees it. */
export interface RecordKind {
  readonly type: string;
  readonly domain: TransferDomain;
  readonly schema: z.ZodType<TransferRecord>;
  idOf(record: TransferRecord): string;
  /** The records that must exist before it. */
  referencesOf(record: TransferRecord): Reference[];
  mapped(record: TransferRecord, map: MapId): TransferRecord;
}

interface KindDefinition<Schema extends z.ZodType<TransferRecord>> {
  type: string;
  domain: TransferDomain;
  schema: Schema;
  idOf(record: z.output<Schema>): string;
  referencesOf?(record: z.output<Schema>): Reference[];
  mapped?(record: z.output<Schema>, map: MapId): z.output<Schema>;
}

function kind<Schema extends z.ZodType<TransferRecord>>(definition: KindDefinition<Schema>): RecordKind {
  const { idOf, referencesOf = () => [], mapped = (record) => record } = definition;
  // Only records that the same schema let through come here.
  return { ...definition, idOf, referencesOf, mapped };
}

const user = z.string().min(1).max(1_024);
const count = z.int().min(0);
/** To the end of the year 9999, which every home can store. */
const timeMs = z.int().min(0).max(253_402_300_799_999);
const isoTime = z.iso.datetime();
const agentId = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 lowercase hex digits');
const uuid = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'must be a UUID in lowercase');
const ulid = z.string().regex(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/, 'must be a ULID');
const jsonObject: z.ZodType<JsonObject> = z.record(z.string(), z.json());

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
  /** With its holder. Only in a move. */
  lease: z
    .strictObject({
      holder: z.string().nullable(),
      fence: count,
      renewedAtMs: timeMs,
      expiresAtMs: timeMs,
      timerAtMs: timeMs.nullable(),
      lost: z.boolean(),
    })
    .nullable()
    .optional(),
});

export const agentSessionSchema = z.strictObject({
  type: z.literal('registry.session'),
  user,
  session_id: uuid,
  agent_id: agentId,
  status: z.enum(agentSessionStatuses),
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

const versioned = { created_at: isoTime, updated_at: isoTime, version: z.int().min(1) };
const deletable = { ...versioned, deleted_at: isoTime.nullable() };

export const workspaceSchema = z.strictObject({
  type: z.literal('workspaces.workspace'),
  user,
  id: z.string().regex(idPatterns.workspace),
  name: z.string().min(1),
  project_path: z.string(),
  status: z.enum(workspaceStatuses),
  /** Plain, and only in exports with secrets. */
  claude_key: z.string().nullable().optional(),
  ...deletable,
});

export const projectSchema = z.strictObject({
  type: z.literal('workspaces.project'),
  user,
  id: z.string().regex(idPatterns.project),
  workspace_id: z.string().regex(idPatterns.workspace),
  name: z.string().min(1),
  path: z.string(),
  description: z.string(),
  git_url: z.string(),
  git_branch: z.string(),
  language: z.string(),
  status: z.enum(workspaceStatuses),
  /** Secrets in it are left out, or plain in exports with secrets. */
  config: jsonObject,
  git_info: jsonObject,
  ...deletable,
});

export const workSessionSchema = z.strictObject({
  type: z.literal('workspaces.session'),
  user,
  id: z.string().regex(idPatterns.session),
  project_id: z.string().regex(idPatterns.project),
  agent_id: z.string().nullable(),
  process_id: z.int().nullable(),
  status: z.enum(sessionStatuses),
  started_at: isoTime.nullable(),
  ended_at: isoTime.nullable(),
  last_active: isoTime,
  metadata: jsonObject,
  command_count: count,
  bytes_in: count,
  bytes_out: count,
  error_count: count,
  max_idle_time: z.number().min(0),
  max_lifetime: z.number().min(0),
  ...versioned,
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
  id: z.string().regex(idPatterns.task),
  session_id: z.string().regex(idPatterns.session),
  command: z.string().min(1),
  status: z.enum(taskStatuses),
  output: z.string().nullable(),
  error: z.string().nullable(),
  started_at: isoTime.nullable(),
  completed_at: isoTime.nullable(),
  bytes_in: count,
  bytes_out: count,
  duration: z.number().nullable(),
  depends_on: z.array(z.string().regex(idPatterns.task)),
  priority: z.int(),
  claimed_by: z.string().nullable(),
  attempts: count,
  max_attempts: count,
  reason: z.string().nullable(),
  labels: z.array(z.string()),
  run_at: isoTime.nullable(),
  retry: z.strictObject({ base_seconds: z.number(), max_seconds: z.number() }).nullable(),
  question: z.string().nullable(),
  asked_at: isoTime.nullable(),
  question_expires_at: isoTime.nullable(),
  answer: z.string().nullable(),
  answered_at: isoTime.nullable(),
  answered_by: z.string().nullable(),
  lease: leaseSchema.nullable(),
  ...versioned,
});

const proof = jsonObject.nullable();
const identityLink = z.strictObject({
  user,
  agentId,
  agentName: z.string(),
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

export const roomSchema = z.strictObject({
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
  lastTsMs: timeMs,
  /** Only in exports with secrets. */
  key_hash: z.string().nullable().optional(),
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

const author = (id: string): Reference => ({ type: 'messaging.identity', id });

/** In the order of a file: a record comes after the records that it refers to. */
export const recordKinds: readonly RecordKind[] = [
  kind({ type: 'registry.user', domain: 'registry', schema: userSchema, idOf: (record) => record.user }),
  kind({
    type: 'messaging.identity',
    domain: 'messaging',
    schema: identitySchema,
    idOf: (record) => record.id,
    mapped: (record, map) => ({
      ...record,
      id: map(record.type, record.id),
      link:
        record.link === null ? null : { ...record.link, agentId: map('registry.agent', record.link.agentId) },
    }),
  }),
  kind({
    type: 'registry.agent',
    domain: 'registry',
    schema: agentSchema,
    idOf: (record) => record.agent_id,
    mapped: (record, map) => ({ ...record, agent_id: map(record.type, record.agent_id) }),
  }),
  kind({
    type: 'registry.session',
    domain: 'registry',
    schema: agentSessionSchema,
    idOf: (record) => record.session_id,
    referencesOf: (record) => [{ type: 'registry.agent', id: record.agent_id }],
    mapped: (record, map) => ({
      ...record,
      session_id: map(record.type, record.session_id),
      agent_id: map('registry.agent', record.agent_id),
    }),
  }),
  kind({
    type: 'registry.link',
    domain: 'registry',
    schema: linkSchema,
    idOf: (record) => record.identity,
    referencesOf: (record) => [{ type: 'registry.agent', id: record.agent_id }],
    mapped: (record, map) => ({
      ...record,
      identity: map('messaging.identity', record.identity),
      agent_id: map('registry.agent', record.agent_id),
    }),
  }),
  kind({
    type: 'data.document',
    domain: 'data',
    schema: documentSchema,
    idOf: (record) => JSON.stringify([record.userId, record.namespace, record.key]),
  }),
  kind({
    type: 'workspaces.workspace',
    domain: 'workspaces',
    schema: workspaceSchema,
    idOf: (record) => record.id,
    mapped: (record, map) => ({ ...record, id: map(record.type, record.id) }),
  }),
  kind({
    type: 'workspaces.project',
    domain: 'workspaces',
    schema: projectSchema,
    idOf: (record) => record.id,
    referencesOf: (record) => [{ type: 'workspaces.workspace', id: record.workspace_id }],
    mapped: (record, map) => ({
      ...record,
      id: map(record.type, record.id),
      workspace_id: map('workspaces.workspace', record.workspace_id),
    }),
  }),
  kind({
    type: 'workspaces.session',
    domain: 'workspaces',
    schema: workSessionSchema,
    idOf: (record) => record.id,
    referencesOf: (record) => [{ type: 'workspaces.project', id: record.project_id }],
    mapped: (record, map) => ({
      ...record,
      id: map(record.type, record.id),
      project_id: map('workspaces.project', record.project_id),
      agent_id: record.agent_id === null ? null : map('registry.agent', record.agent_id),
    }),
  }),
  kind({
    type: 'workspaces.task',
    domain: 'workspaces',
    schema: taskSchema,
    idOf: (record) => record.id,
    // What it depends on may have been deleted since.
    referencesOf: (record) => [{ type: 'workspaces.session', id: record.session_id }],
    mapped: (record, map) => ({
      ...record,
      id: map(record.type, record.id),
      session_id: map('workspaces.session', record.session_id),
      depends_on: record.depends_on.map((id) => map(record.type, id)),
    }),
  }),
  kind({
    type: 'messaging.room',
    domain: 'messaging',
    schema: roomSchema,
    idOf: (record) => record.id,
    mapped: (record, map) => ({
      ...record,
      id: map(record.type, record.id),
      createdBy: record.createdBy === null ? null : map('messaging.identity', record.createdBy),
    }),
  }),
  kind({
    type: 'messaging.message',
    domain: 'messaging',
    schema: messageSchema,
    idOf: (record) => `${record.roomId}/${record.id}`,
    referencesOf: (record) => [{ type: 'messaging.room', id: record.roomId }, author(record.from)],
    // The id of a message contains its time, by which it is found in its room, so it is kept.
    mapped: (record, map) => ({
      ...record,
      roomId: map('messaging.room', record.roomId),
      from: map('messaging.identity', record.from),
    }),
  }),
  kind({
    type: 'messaging.direct',
    domain: 'messaging',
    schema: directSchema,
    idOf: (record) => `${record.to}/${record.id}`,
    referencesOf: (record) => [author(record.to), author(record.from)],
    mapped: (record, map) => ({
      ...record,
      to: map('messaging.identity', record.to),
      from: map('messaging.identity', record.from),
    }),
  }),
];
