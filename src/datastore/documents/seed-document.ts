/**
 * Documents in the seed's format, in which other databases store them and in which they are exported and
 * imported.
 */
import { StoaError } from '../../core/errors.js';
import { documentId } from './document-id.js';
import type { DataDocument, DocumentRecord, JsonObject, JsonValue } from '../model.js';
import { expiryOfMs, msOf, normaliseTime } from './times.js';

/** The document as callers see it. */
export function toDocument(record: DocumentRecord): DataDocument {
  return {
    _id: documentId(record.userId, record.namespace, record.key),
    userId: record.userId,
    namespace: record.namespace,
    key: record.key,
    value: JSON.parse(record.valueJson) as JsonValue,
    metadata: ownCopy(record.metadata),
    createdByAgent: record.createdByAgent,
    updatedByAgent: record.updatedByAgent,
    lastAccessedByAgent: record.lastAccessedByAgent,
    accessCount: record.accessCount,
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    lastAccessedAt: record.lastAccessedAt,
    version: record.version,
    expiresAt: record.expiresAt,
    ...(record.indexed === false && { indexed: false }),
  };
}

/** The caller may change its document; the record may be shared with later readers. */
function ownCopy(metadata: JsonObject): JsonObject {
  return Object.keys(metadata).length === 0 ? {} : structuredClone(metadata);
}

/** The document as JSON text. The text of the value is inserted without being parsed. */
export function toDocumentJson(record: DocumentRecord): string {
  const {
    userId,
    namespace,
    key,
    valueJson,
    metadata,
    createdByAgent,
    updatedByAgent,
    lastAccessedByAgent,
    accessCount,
    createdAt,
    updatedAt,
    lastAccessedAt,
    version,
    expiresAt,
    indexed,
  } = record;
  const names = `{"_id":${quoted(documentId(userId, namespace, key))},"userId":${quoted(userId)},"namespace":${quoted(namespace)},"key":${quoted(key)}`;
  const agents = `"createdByAgent":${quoted(createdByAgent)},"updatedByAgent":${quoted(updatedByAgent)},"lastAccessedByAgent":${quoted(lastAccessedByAgent)},"accessCount":${accessCount}`;
  const times = `"createdAt":"${createdAt}","updatedAt":"${updatedAt}","lastAccessedAt":${quotedTime(lastAccessedAt)},"version":${version},"expiresAt":${quotedTime(expiresAt)}${indexed === false ? ',"indexed":false' : ''}}`;
  return `${names},"value":${valueJson},"metadata":${JSON.stringify(metadata)},${agents},${times}`;
}

const plainText = /^[ !#-[\]-~]*$/;

/** A text as JSON. Most texts have nothing to escape, and checking that costs less than JSON.stringify. */
function quoted(text: string | null): string {
  return text !== null && plainText.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** Times have nothing to escape. */
function quotedTime(time: string | null): string {
  return time === null ? 'null' : `"${time}"`;
}

/** The seed's fields without empty ones, for other databases and for export. */
export function toSeedFields(record: DocumentRecord): JsonObject & { _id: string } {
  const { valueJson: _, ...rest } = record;
  const fields = {
    _id: documentId(record.userId, record.namespace, record.key),
    ...rest,
    value: JSON.parse(record.valueJson) as JsonValue,
  };
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null || value === fields.value),
  ) as JsonObject & { _id: string };
}

/**
 * A record from fields that this or another program wrote: optional ones may be absent or null,
 * times may lack their zone. `valueJson` is given where the value is stored as text.
 */
export function fromSeedFields(
  fields: Readonly<Record<string, unknown>>,
  valueJson?: string,
): DocumentRecord {
  const json = valueJson ?? JSON.stringify(fields.value);
  if (json === undefined) throw invalid('value', 'is missing');
  const createdAt = optionalTime(fields, 'createdAt') ?? optionalTime(fields, 'updatedAt');
  if (createdAt === null) throw invalid('createdAt', 'is missing');
  const expiresAt = optionalTime(fields, 'expiresAt');
  return {
    userId: requiredText(fields, 'userId'),
    namespace: requiredText(fields, 'namespace'),
    key: requiredText(fields, 'key'),
    valueJson: json,
    metadata: optionalObject(fields, 'metadata'),
    createdByAgent: optionalText(fields, 'createdByAgent'),
    updatedByAgent: optionalText(fields, 'updatedByAgent'),
    lastAccessedByAgent: optionalText(fields, 'lastAccessedByAgent'),
    accessCount: optionalCount(fields, 'accessCount') ?? 0,
    createdAt,
    updatedAt: optionalTime(fields, 'updatedAt') ?? createdAt,
    lastAccessedAt: optionalTime(fields, 'lastAccessedAt'),
    version: optionalCount(fields, 'version') ?? 1,
    expiresAt: expiresAt === null ? null : expiryOfMs(msOf(expiresAt)),
    ...(fields.indexed === false && { indexed: false }),
  };
}

function requiredText(fields: Readonly<Record<string, unknown>>, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string' || value === '')
    throw invalid(name, value === undefined ? 'is missing' : 'is not a string');
  return value;
}

function optionalText(fields: Readonly<Record<string, unknown>>, name: string): string | null {
  const value = fields[name] ?? null;
  if (value !== null && typeof value !== 'string') throw invalid(name, 'is not a string');
  return value;
}

function optionalTime(fields: Readonly<Record<string, unknown>>, name: string): string | null {
  const value = optionalText(fields, name);
  return value === null ? null : normaliseTime(value);
}

function optionalCount(fields: Readonly<Record<string, unknown>>, name: string): number | null {
  const value = fields[name] ?? null;
  if (value !== null && (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0))
    throw invalid(name, 'is not a whole number of 0 or more');
  return value;
}

function optionalObject(fields: Readonly<Record<string, unknown>>, name: string): JsonObject {
  const value = fields[name] ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) throw invalid(name, 'is not an object');
  return value as JsonObject;
}

function invalid(field: string, problem: string): StoaError {
  return new StoaError('invalid_data', `The document's field "${field}" ${problem}.`, { details: { field } });
}
