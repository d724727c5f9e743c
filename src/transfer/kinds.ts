/** Every kind of record in an export: its id, what it refers to, and how ids in it are rewritten. */
import type { z } from 'zod';
import type { TransferDomain, TransferRecord } from './model.js';
import {
  agentSchema,
  agentSessionSchema,
  directSchema,
  documentSchema,
  identitySchema,
  linkSchema,
  messageSchema,
  projectSchema,
  roomSchema,
  taskSchema,
  userSchema,
  workSessionSchema,
  workspaceSchema,
} from './record-schemas.js';

interface Reference {
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
        record.link === null || record.link.agentId === null
          ? record.link
          : { ...record.link, agentId: map('registry.agent', record.link.agentId) },
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
