/** Documents as CouchDB stores them: the seed's fields, and a few that Stoa adds. */
import { documentId } from '../../datastore/documents/document-id.js';
import type { DocumentRecord, KeySummary, Scope } from '../../datastore/model.js';
import { sizeOf } from '../../datastore/documents/merge-document.js';
import { fromSeedFields, toSeedFields } from '../../datastore/documents/seed-document.js';
import { storedSummary } from '../fields.js';
import { scopeOf } from '../owners.js';
import type { CouchDocument } from './database.js';

/** What a list of keys needs. */
export const summaryFields = [
  '_id',
  '_rev',
  'userId',
  'namespace',
  'key',
  'version',
  'sizeBytes',
  'indexedAt',
  'updatedAt',
  'createdAt',
  'expiresAt',
  'createdByAgent',
  'lastAccessedByAgent',
];

/** CouchDB keeps ids that begin with `_` for itself. */
export function couchId(scope: Scope, key: string): string {
  const id = documentId(scope.user, scope.namespace, key);
  return /^[_%]/.test(id) ? `%${id.charCodeAt(0).toString(16).toUpperCase()}${id.slice(1)}` : id;
}

/**
 * CouchDB orders text by language. Hex digits have the same order in every language, and UTF-8 bytes are in
 * code-point order.
 */
export function orderKey(key: string): string {
  return Buffer.from(key).toString('hex');
}

/**
 * `indexedAt` names the write that `sizeBytes` and `keyHex` belong to, because another program may change a
 * document without updating them.
 */
export function toCouch(record: DocumentRecord, before: CouchDocument | undefined): CouchDocument {
  const metadataJson = JSON.stringify(record.metadata);
  return {
    ...toSeedFields(record),
    _id: couchId(scopeOf(record), record.key),
    ...(before?._rev !== undefined && { _rev: before._rev }),
    // The id of the last counted reads stays, so that they are not counted twice if their answer was lost.
    ...(before?.['readsId'] !== undefined && { readsId: before['readsId'] }),
    keyHex: orderKey(record.key),
    sizeBytes: sizeOf(record),
    indexedAt: record.updatedAt,
    ...(isAltered(record.valueJson) && { valueText: record.valueJson }),
    ...(isAltered(metadataJson) && { metadataText: metadataJson }),
  };
}

/**
 * Whether JSON may come back changed. CouchDB turns the smallest numbers into 0 (5e-324; all of them have an
 * exponent below -307, or as many zeros), and PouchDB, which many replicate with, loses a member named
 * `__proto__`.
 */
function isAltered(json: string): boolean {
  return /e-\d{3}|0{100}|"__proto__"/i.test(json);
}

export function fromCouch(document: CouchDocument): DocumentRecord {
  const { valueText, metadataText, indexedAt, updatedAt } = document;
  if (indexedAt !== updatedAt) return fromSeedFields(document);
  const fields =
    typeof metadataText === 'string'
      ? { ...document, metadata: JSON.parse(metadataText) as unknown }
      : document;
  return fromSeedFields(fields, typeof valueText === 'string' ? valueText : undefined);
}

/** Undefined if the document itself must be read. */
export function summaryOf(document: CouchDocument): KeySummary | undefined {
  return document['indexedAt'] === document['updatedAt'] ? storedSummary(document) : undefined;
}

/** A document of the data store, not a design document or a document of another program. */
export function isDocument(document: CouchDocument): boolean {
  return (
    !document._id.startsWith('_design/') &&
    typeof document['userId'] === 'string' &&
    typeof document['namespace'] === 'string' &&
    typeof document['key'] === 'string'
  );
}
