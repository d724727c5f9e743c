/** Documents of the collection: the seed's fields, and ours beside them. */
import { createHash } from 'node:crypto';
import { documentId } from '../../datastore/documents/document-id.js';
import type { DocumentRecord, JsonObject, JsonValue, KeySummary, Scope } from '../../datastore/model.js';
import { fromSeedFields } from '../../datastore/documents/seed-document.js';
import { naming, storedSummary } from '../fields.js';
import { documentTooLarge } from '../too-large.js';
import { earlierThan } from '../write-ids.js';
import type { Fields } from './client.js';

/** Limits of Firestore, which cannot be raised. */
const documentBytesMax = 1024 * 1024;
const idBytesMax = 1_500;
/** Room for names, ids, times and our own fields around the largest value. */
const surroundingBytes = 8 * 1024;
export const valueBytesMax = documentBytesMax - surroundingBytes;

/** Fields that a document may lack. */
export const optionalFields = [
  'createdByAgent',
  'updatedByAgent',
  'lastAccessedByAgent',
  'lastAccessedAt',
  'metadata',
  'metadataJson',
  'expiresAt',
  'indexed',
] as const;

/** The fields that a list of keys needs. */
export const summaryFields = ['key', 'version', 'sizeBytes', 'updatedAt', 'jsonAt', 'expiresAt'] as const;

/**
 * The name of the document in Firestore: the seed's id, which always has two colons. If Firestore refuses
 * that id, a name without a colon, so that it can never be the id of another document.
 */
export function nameOf(scope: Scope, key: string): string {
  return toName(documentId(scope.user, scope.namespace, key));
}

export function toName(id: string): string {
  if (isLegalName(id)) return id;
  const escaped = id.replace(
    /^_|[%/:]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return isLegalName(escaped) ? escaped : `sha256.${createHash('sha256').update(id).digest('base64url')}`;
}

export function isLegalName(name: string): boolean {
  return (
    !/^\.{0,2}$/.test(name) &&
    !name.includes('/') &&
    !/^__.*__$/s.test(name) &&
    Buffer.byteLength(name) <= idBytesMax
  );
}

/**
 * `jsonAt` equals `updatedAt` while `value` is JSON text: a program that does not know it sets a new
 * `updatedAt`.
 */
export function isOurs(fields: Fields): boolean {
  return fields['jsonAt'] !== undefined && fields['jsonAt'] === fields['updatedAt'];
}

export function toFields(record: DocumentRecord, writeId: string, before: Fields = {}): Fields {
  const { valueJson, metadata, ...rest } = record;
  const present = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
  const fields: Fields = {
    _id: documentId(record.userId, record.namespace, record.key),
    ...present,
    value: valueJson,
    // The map is for other programs; Firestore sorts its members, so the text is read instead.
    ...(Object.keys(metadata).length > 0 && {
      metadataJson: JSON.stringify(metadata),
      ...(isNative(metadata) && { metadata }),
    }),
    sizeBytes: Buffer.byteLength(valueJson),
    jsonAt: record.updatedAt,
    writeId,
    earlierWriteIds: earlierThan(before),
  };
  const sizeBytes = documentBytes(fields);
  if (sizeBytes > documentBytesMax) {
    throw documentTooLarge(record.key, sizeBytes, {
      database: 'Firestore',
      name: 'documentBytesMax',
      bytesMax: documentBytesMax,
    });
  }
  return fields;
}

export function fromFields(fields: Fields): DocumentRecord {
  const ours = isOurs(fields);
  const { value, metadataJson, ...rest } = fields;
  const plain = Object.fromEntries(Object.entries(rest).map(([name, field]) => [name, toJson(field)]));
  if (ours && typeof metadataJson === 'string') plain['metadata'] = JSON.parse(metadataJson) as JsonObject;
  const isText = ours && typeof value === 'string';
  const text = isText ? value : value === undefined ? undefined : JSON.stringify(toJson(value));
  const name = String(fields['_id'] ?? fields['key']);
  return naming(`Document "${name}"`, () => fromSeedFields(plain, text));
}

/** Undefined if the size is not stored and the value must be measured. */
export function toSummary(fields: Fields): KeySummary | undefined {
  return isOurs(fields) ? storedSummary(fields) : undefined;
}

/**
 * A value of Firestore's own types as JSON: times are ISO 8601, binary is base64, a number that JSON lacks is
 * null.
 */
function toJson(value: unknown): JsonValue {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'bigint') return Number(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== 'object') return null;
  if ('toDate' in value && typeof value.toDate === 'function') return (value.toDate() as Date).toISOString(); // Only Firestore's Timestamp has it.
  if ('toArray' in value && typeof value.toArray === 'function') return toJson(value.toArray());
  if ('path' in value && 'firestore' in value) return String(value.path);
  if ('latitude' in value && 'longitude' in value)
    return { latitude: Number(value.latitude), longitude: Number(value.longitude) };
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toJson(member)]));
}

/** Firestore nests 20 levels; a few stay free. */
const nativeDepthMax = 16;

/** Whether a map returns it unchanged: no list in a list, no reserved name of Firestore, not too deep. */
function isNative(object: JsonObject): boolean {
  return fits(object, false, nativeDepthMax);
}

function fits(value: JsonValue, isInList: boolean, depthLeft: number): boolean {
  if (value === null || typeof value !== 'object') return true;
  if (depthLeft === 0 || (isInList && Array.isArray(value))) return false;
  if (Array.isArray(value)) return value.every((item) => fits(item, true, depthLeft - 1));
  return Object.entries(value).every(
    ([name, member]) =>
      name !== '' &&
      !/^__.*__$/s.test(name) &&
      Buffer.byteLength(name) <= idBytesMax &&
      fits(member, false, depthLeft - 1),
  );
}

/** Bytes by the rules of Firestore's limit, including 32 for the document and the bytes of its name. */
export function documentBytes(fields: Fields): number {
  const name = toName(String(fields['_id']));
  return 32 + 16 + Buffer.byteLength(name) + 64 + fieldsBytes(fields);
}

function fieldsBytes(fields: object): number {
  return Object.entries(fields).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + 1 + valueBytes(value),
    0,
  );
}

function valueBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value) + 1;
  if (typeof value === 'number') return 8;
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + valueBytes(item), 0);
  if (typeof value === 'object' && value !== null) return 32 + fieldsBytes(value);
  return 1;
}
