/**
 * The tables of the data store in PostgreSQL, and the conversion of rows. Columns have the seed's field
 * names.
 */
import { documentId } from '../../../datastore/documents/document-id.js';
import type { DocumentRecord, JsonObject } from '../../../datastore/model.js';
import { expiryOfMs, msOf, normaliseTime } from '../../../datastore/documents/times.js';
import type { Parameter } from '../database/connection.js';
import type { DomainTables } from '../database/migrate.js';
import { countsTables } from './counts.js';

/**
 * `json` stores the text as it was written; `jsonb` would refuse \\u0000 and reorder keys. Collation "C"
 * orders by code point. The size is a generated column, so that rows of other programs have it too.
 */
export const dataTables: DomainTables = {
  domain: 'datastore',
  about: 'the tables agent_data_store…, for documents',
  migrations: [
    `CREATE FUNCTION agent_data_store_require_rows(rows_written bigint, rows_wanted bigint) RETURNS void
  LANGUAGE plpgsql AS $$
  BEGIN
    IF rows_written < rows_wanted THEN
      RAISE EXCEPTION 'another transaction created the document' USING ERRCODE = 'serialization_failure';
    END IF;
  END $$;

  CREATE TABLE agent_data_store (
    _id text NOT NULL,
    "userId" text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value json NOT NULL,
    metadata json,
    "createdByAgent" text,
    "updatedByAgent" text,
    "lastAccessedByAgent" text,
    "accessCount" bigint NOT NULL DEFAULT 0,
    "createdAt" timestamptz NOT NULL DEFAULT now(),
    "updatedAt" timestamptz NOT NULL DEFAULT now(),
    "lastAccessedAt" timestamptz,
    version bigint NOT NULL DEFAULT 1,
    "expiresAt" timestamptz,
    -- False: searches for words do not find the document.
    indexed boolean NOT NULL DEFAULT true,
    "sizeBytes" integer NOT NULL GENERATED ALWAYS AS (octet_length(value::text)) STORED,
    PRIMARY KEY ("userId", namespace, key)
  );
  CREATE INDEX agent_data_store_expiry ON agent_data_store ("expiresAt") WHERE "expiresAt" IS NOT NULL;
  CREATE TABLE agent_data_store_agents (
    "userId" text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    PRIMARY KEY ("userId", namespace, agent)
  );
  ${countsTables}`,
  ],
};

export interface DocumentRow {
  userId: string;
  namespace: string;
  key: string;
  value: string;
  metadata: string | null;
  createdByAgent: string | null;
  updatedByAgent: string | null;
  lastAccessedByAgent: string | null;
  accessCount: string;
  createdAt: string;
  updatedAt: string;
  lastAccessedAt: string | null;
  version: string;
  expiresAt: string | null;
  indexed: boolean;
}

/**
 * In the order of `documentParameters`.
 */
const recordColumns = [
  '_id',
  'userId',
  'namespace',
  'key',
  'value',
  'metadata',
  'createdByAgent',
  'updatedByAgent',
  'lastAccessedByAgent',
  'accessCount',
  'createdAt',
  'updatedAt',
  'lastAccessedAt',
  'version',
  'expiresAt',
  'indexed',
];
export const columnsWritten = recordColumns.map(quoted).join(', ');
export const columnsWrittenCount = recordColumns.length;
export const columnsRead = recordColumns
  .slice(1)
  .map((name) => `d.${quoted(name)}`)
  .join(', ');

/** For ON CONFLICT: replaces every column except the id and the primary key. */
export const replaceAll = recordColumns
  .slice(4)
  .map((name) => `${quoted(name)} = excluded.${quoted(name)}`)
  .join(', ');

export function recordOf(row: DocumentRow): DocumentRecord {
  return {
    userId: row.userId,
    namespace: row.namespace,
    key: row.key,
    valueJson: row.value,
    metadata: row.metadata === null ? {} : (JSON.parse(row.metadata) as JsonObject),
    createdByAgent: row.createdByAgent,
    updatedByAgent: row.updatedByAgent,
    lastAccessedByAgent: row.lastAccessedByAgent,
    accessCount: Number(row.accessCount),
    createdAt: normaliseTime(row.createdAt),
    updatedAt: normaliseTime(row.updatedAt),
    lastAccessedAt: row.lastAccessedAt === null ? null : normaliseTime(row.lastAccessedAt),
    version: Number(row.version),
    expiresAt: row.expiresAt === null ? null : expiryOfMs(msOf(row.expiresAt)),
    ...(!row.indexed && { indexed: false }),
  };
}

export function documentParameters(record: DocumentRecord): Parameter[] {
  return [
    documentId(record.userId, record.namespace, record.key),
    record.userId,
    record.namespace,
    record.key,
    record.valueJson,
    JSON.stringify(record.metadata),
    record.createdByAgent,
    record.updatedByAgent,
    record.lastAccessedByAgent,
    record.accessCount,
    record.createdAt,
    record.updatedAt,
    record.lastAccessedAt,
    record.version,
    record.expiresAt,
    record.indexed !== false,
  ];
}

/** Placeholders of several rows: `($1::text, $2), ($3, $4)`. The types of the first row apply to all rows. */
export function valuesList(rows: number, types: readonly string[]): string {
  let number = 0;
  return Array.from({ length: rows }, (_, row) => {
    const placeholders = types.map((type) => {
      number += 1;
      return row === 0 && type !== '' ? `$${number}::${type}` : `$${number}`;
    });
    return `(${placeholders.join(', ')})`;
  }).join(', ');
}

function quoted(name: string): string {
  return /^[a-z_]+$/.test(name) ? name : `"${name}"`;
}
