/** Every kind of record in an export: its id, what it refers to, and how ids in it are rewritten. */
import type { z } from 'zod';
import type { TransferDomain, TransferRecord } from '../model.js';
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

/** A field that contains an id, a list of ids or null, and the type of the records that have these ids. */
type IdField<Line> = readonly [field: Exclude<keyof Line & string, 'type'>, type: string];

interface KindDefinition<Line> {
  idOf(record: Line): string;
  /** The records in these fields must exist before it. */
  needs?: readonly IdField<Line>[];
  /** Its own id, and records that may be missing. */
  ids?: readonly IdField<Line>[];
  /** Rewrites ids that are inside other fields. */
  rewritten?(record: Line, map: MapId): Line;
}

function kind<Line extends TransferRecord>(
  type: `${TransferDomain}.${string}`,
  schema: z.ZodType<Line>,
  { idOf, needs = [], ids = [], rewritten = (record) => record }: KindDefinition<Line>,
): RecordKind {
  return {
    type,
    // A type begins with its domain.
    domain: type.split('.')[0] as TransferDomain,
    schema,
    // Only records that the same schema let through come here.
    idOf: (record) => idOf(record as Line),
    referencesOf: (record) =>
      needs.map(([field, of]) => ({ type: of, id: String(Reflect.get(record, field)) })),
    mapped: (record, map) => ({
      ...rewritten(record as Line, map),
      ...Object.fromEntries(
        [...needs, ...ids].map(([field, of]) => [
          field,
          mappedIds(Reflect.get(record, field), (id) => map(of, id)),
        ]),
      ),
    }),
  };
}

function mappedIds(value: unknown, map: (id: string) => string): unknown {
  if (typeof value === 'string') return map(value);
  return Array.isArray(value) ? value.map((id) => map(String(id))) : value;
}

/** In the order of a file: a record comes after the records that it refers to. */
export const recordKinds: readonly RecordKind[] = [
  kind('registry.user', userSchema, { idOf: ({ user }) => user }),
  kind('messaging.identity', identitySchema, {
    idOf: ({ id }) => id,
    ids: [['id', 'messaging.identity']],
    rewritten: (record, map) =>
      record.link === null || record.link.agentId === null
        ? record
        : { ...record, link: { ...record.link, agentId: map('registry.agent', record.link.agentId) } },
  }),
  kind('registry.agent', agentSchema, {
    idOf: ({ agent_id }) => agent_id,
    ids: [['agent_id', 'registry.agent']],
  }),
  kind('registry.session', agentSessionSchema, {
    idOf: ({ session_id }) => session_id,
    needs: [['agent_id', 'registry.agent']],
    ids: [['session_id', 'registry.session']],
  }),
  kind('registry.link', linkSchema, {
    idOf: ({ identity }) => identity,
    needs: [['agent_id', 'registry.agent']],
    ids: [['identity', 'messaging.identity']],
  }),
  kind('data.document', documentSchema, {
    idOf: ({ userId, namespace, key }) => JSON.stringify([userId, namespace, key]),
  }),
  kind('workspaces.workspace', workspaceSchema, {
    idOf: ({ id }) => id,
    ids: [['id', 'workspaces.workspace']],
  }),
  kind('workspaces.project', projectSchema, {
    idOf: ({ id }) => id,
    needs: [['workspace_id', 'workspaces.workspace']],
    ids: [['id', 'workspaces.project']],
  }),
  kind('workspaces.session', workSessionSchema, {
    idOf: ({ id }) => id,
    needs: [['project_id', 'workspaces.project']],
    ids: [
      ['id', 'workspaces.session'],
      ['agent_id', 'registry.agent'],
    ],
  }),
  kind('workspaces.task', taskSchema, {
    idOf: ({ id }) => id,
    needs: [['session_id', 'workspaces.session']],
    // What it depends on may have been deleted since.
    ids: [
      ['id', 'workspaces.task'],
      ['depends_on', 'workspaces.task'],
    ],
  }),
  kind('messaging.room', roomSchema, {
    idOf: ({ id }) => id,
    ids: [
      ['id', 'messaging.room'],
      ['createdBy', 'messaging.identity'],
    ],
  }),
  // The id of a message contains its time, by which it is found in its room, so it is kept.
  kind('messaging.message', messageSchema, {
    idOf: ({ roomId, id }) => `${roomId}/${id}`,
    needs: [
      ['roomId', 'messaging.room'],
      ['from', 'messaging.identity'],
    ],
  }),
  kind('messaging.direct', directSchema, {
    idOf: ({ to, id }) => `${to}/${id}`,
    needs: [
      ['to', 'messaging.identity'],
      ['from', 'messaging.identity'],
    ],
  }),
];
