/** Documents as items of the table: the seed's attributes, and ours beside them. */
import { documentId } from '../../datastore/documents/document-id.js';
import type { DocumentRecord, JsonObject, KeySummary, Scope } from '../../datastore/model.js';
import { fromSeedFields } from '../../datastore/documents/seed-document.js';
import { msOf, normaliseTime } from '../../datastore/documents/times.js';
import { StoaError } from '../../core/errors.js';
import { naming } from '../fields.js';
import { scopeOf } from '../owners.js';
import { documentTooLarge } from '../too-large.js';
import { type WriteIds, earlierThan } from '../write-ids.js';
import { isNative, itemBytes, nativeJson, toAttribute } from './attributes.js';
import type { AttributeValue, Item } from './client.js';

/** Limits of DynamoDB, which cannot be raised. */
const itemBytesMax = 400 * 1024;
export const idBytesMax = 2_048;
/** Reserve for names, ids, times and our own attributes beside the largest value. */
const surroundingBytes = 8 * 1024;
export const valueBytesMax = itemBytesMax - surroundingBytes;

/** Attributes that a document may lack. */
const optionalAttributes = [
  'createdByAgent',
  'updatedByAgent',
  'lastAccessedByAgent',
  'lastAccessedAt',
  'metadata',
  'metadataJson',
  'expiresAt',
  'expiresAtSeconds',
  'indexed',
] as const;

/** Names have no control characters, so a line break separates them. */
export function scopeKeyOf(scope: Scope): string {
  return `${scope.user}\n${scope.namespace}`;
}

/** The key of the namespace in the table beside the documents. */
export function namespaceKey(scope: Scope): Item {
  return { userId: { S: scope.user }, namespace: { S: scope.namespace } };
}

export function idOf(scope: Scope, key: string): string {
  const id = documentId(scope.user, scope.namespace, key);
  if (Buffer.byteLength(id) > idBytesMax) {
    throw new StoaError(
      'invalid_request',
      `User, namespace and key make an id of ${Buffer.byteLength(id)} bytes, which exceeds the ${idBytesMax} that DynamoDB allows.`,
      { fix: 'Use a shorter key or namespace.', details: { field: 'key', idBytesMax } },
    );
  }
  return id;
}

/** Two owners can have documents with the same id. */
export function isOf(scope: Scope, item: Item): boolean {
  return item['userId']?.S === scope.user && item['namespace']?.S === scope.namespace;
}

/**
 * Stoa adds attributes to those of the seed. `jsonAt` equals `updatedAt` while `value` is JSON text, and
 * `indexedAt` while `scopeKey` and `sizeBytes` are right: a program that writes the document without knowing
 * them sets a new `updatedAt`, which marks them as outdated.
 */
export function toItem(record: DocumentRecord, writeId: string, before?: Item): Item {
  const { metadata, expiresAt } = record;
  const item: Item = {
    _id: { S: idOf(scopeOf(record), record.key) },
    userId: { S: record.userId },
    namespace: { S: record.namespace },
    key: { S: record.key },
    value: { S: record.valueJson },
    accessCount: { N: String(record.accessCount) },
    createdAt: { S: record.createdAt },
    updatedAt: { S: record.updatedAt },
    version: { N: String(record.version) },
    scopeKey: { S: scopeKeyOf(scopeOf(record)) },
    sizeBytes: { N: String(Buffer.byteLength(record.valueJson)) },
    jsonAt: { S: record.updatedAt },
    indexedAt: { S: record.updatedAt },
    writeId: { S: writeId },
    earlierWriteIds: { S: earlierThan(writeIdsOf(before)) },
    ...(record.createdByAgent !== null && { createdByAgent: { S: record.createdByAgent } }),
    ...(record.updatedByAgent !== null && { updatedByAgent: { S: record.updatedByAgent } }),
    ...(record.lastAccessedByAgent !== null && { lastAccessedByAgent: { S: record.lastAccessedByAgent } }),
    ...(record.lastAccessedAt !== null && { lastAccessedAt: { S: record.lastAccessedAt } }),
    // The map is for other programs; DynamoDB returns its members in another order, so the text is read
    // instead.
    ...(Object.keys(metadata).length > 0 && {
      metadataJson: { S: JSON.stringify(metadata) },
      ...(isNative(metadata) && { metadata: toAttribute(metadata) }),
    }),
    // DynamoDB deletes items whose time in seconds is in the past.
    ...(expiresAt !== null && {
      expiresAt: { S: expiresAt },
      expiresAtSeconds: { N: String(Math.ceil(msOf(expiresAt) / 1000)) },
    }),
    ...(record.indexed === false && { indexed: { BOOL: false } }),
  };
  const sizeBytes = itemBytes(item);
  if (sizeBytes > itemBytesMax) {
    throw documentTooLarge(record.key, sizeBytes, {
      database: 'DynamoDB',
      name: 'itemBytesMax',
      bytesMax: itemBytesMax,
    });
  }
  return item;
}

export function fromItem(item: Item): DocumentRecord {
  const isOurs = item['jsonAt'] !== undefined && item['jsonAt'].S === item['updatedAt']?.S;
  const { value, metadataJson, metadata } = item;
  const valueJson =
    isOurs && value?.S !== undefined ? value.S : value === undefined ? undefined : nativeJson(value);
  const fields = {
    ...Object.fromEntries(
      [
        'userId',
        'namespace',
        'key',
        'createdByAgent',
        'updatedByAgent',
        'lastAccessedByAgent',
        'createdAt',
        'updatedAt',
        'lastAccessedAt',
        'expiresAt',
        'indexed',
      ].map((name) => [name, plain(item[name])]),
    ),
    accessCount: plain(item['accessCount']),
    version: plain(item['version']),
    metadata:
      isOurs && metadataJson?.S !== undefined ? (JSON.parse(metadataJson.S) as JsonObject) : plain(metadata),
  };
  return naming(`Item "${item['_id']?.S ?? ''}"`, () => fromSeedFields(fields, valueJson));
}

/** An entry of the index by scope and key; a document of another program has no version. */
export function toSummary(entry: Item): KeySummary {
  return {
    key: entry['key']?.S ?? '',
    version: Number(entry['version']?.N ?? 1),
    sizeBytes: Number(entry['sizeBytes']?.N ?? 0),
    updatedAt: normaliseTime(entry['updatedAt']?.S ?? ''),
  };
}

export function isLiveItem(item: Item, nowMs: number): boolean {
  const expiresAt = item['expiresAt']?.S;
  return expiresAt === undefined || msOf(expiresAt) > nowMs;
}

/** Sets all attributes of the item and removes those that it lacks. Attributes of other programs stay. */
export function setExpression(item: Item, kept: ReadonlySet<string>): { expression: string; values: Item } {
  const set = Object.entries(item).filter(([name]) => name !== '_id' && !kept.has(name));
  const removed = optionalAttributes.filter((name) => item[name] === undefined && !kept.has(name));
  return {
    expression: `SET ${set.map(([name]) => `#${name} = :${name}`).join(', ')}${removed.length > 0 ? ` REMOVE ${removed.map((name) => `#${name}`).join(', ')}` : ''}`,
    values: Object.fromEntries(set.map(([name, value]) => [`:${name}`, value])),
  };
}

export function writeIdsOf(item: Item | undefined): WriteIds {
  return { writeId: item?.['writeId']?.S, earlierWriteIds: item?.['earlierWriteIds']?.S };
}

/** True if the item was not changed since it was read, apart from counted reads. */
export function unchangedCondition(seen: Item | undefined): {
  expression: string;
  values: Item;
} {
  if (seen === undefined) return { expression: 'attribute_not_exists(#_id)', values: {} };
  const checked = ['userId', 'namespace', 'updatedAt', 'writeId', 'version'] as const;
  const present = checked.filter((name) => seen[name] !== undefined);
  return {
    expression: checked
      .map((name) =>
        seen[name] === undefined ? `attribute_not_exists(#${name})` : `#${name} = :seen_${name}`,
      )
      .join(' AND '),
    values: Object.fromEntries(present.map((name) => [`:seen_${name}`, seen[name] as AttributeValue])), // `present` contains only names that exist.
  };
}

function plain(value: AttributeValue | undefined): unknown {
  return value === undefined ? undefined : (JSON.parse(nativeJson(value)) as unknown);
}
