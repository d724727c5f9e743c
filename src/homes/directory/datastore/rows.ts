/** The rows of the data store in the kernel's families: their keys, their bytes. */
import { StoaError } from '../../../core/errors.js';
import type { DocumentRecord, JsonObject, KeySummary, Scope } from '../../../datastore/model.js';
import type { Usage } from '../../../datastore/quota.js';
import { findKinds } from '../../../find/model.js';
import { expiryOfMs, msOf } from '../../../datastore/documents/times.js';
import { userKey } from '../../../identity/user-key.js';
import type { LimitName, Limits } from '../../../core/settings/limits.js';
import { keyBytesMax } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';

export const dataFamilies = {
  /** Document → its fields, and its value unless that is large. */
  documents: 'data/agent_data_store',
  /** Document → a large value's JSON text, so that lists need not read it. */
  values: 'data/values',
  /** Document → reads since the document was written: count, last agent, time. */
  access: 'data/access',
  /** Namespace → count, size and last write. */
  namespaces: 'data/namespaces',
  /** Namespace ‖ 0 ‖ agent → nothing. */
  agents: 'data/namespace_agents',
  /** Namespace → its settings, if they are not the defaults. */
  settings: 'data/namespace_settings',
  /** User → total documents, bytes and namespaces. */
  usage: 'data/usage',
} as const;

/** Larger values have their own row. */
const valueInlineBytesMax = 8 * 1024;

const format = 1;
const apartFlag = 1;
/** Searches for words do not find the document. */
const unindexedFlag = 2;
/** Format, flags, expiry in milliseconds, length of the head. */
const prefixBytes = 1 + 1 + 8 + 4;

/** User ‖ namespace: names have no control characters, so 0 ends them. */
export function namespaceKey({ user, namespace }: Scope): Buffer {
  return Buffer.concat([userKey(user), Buffer.from(namespace)]);
}

/** User ‖ namespace ‖ 0 ‖ key: UTF-8 bytes are in code-point order. */
export function documentKey({ user, namespace }: Scope, key: string): Buffer {
  return Buffer.concat([userKey(user), Buffer.from(`${namespace}\0${key}`)]);
}

/** The mark of a document in the search index: user ‖ kind ‖ namespace ‖ 0 ‖ key. */
export function documentMarkKey(rowKey: Buffer): Buffer {
  const key = Buffer.allocUnsafe(rowKey.length + 1);
  rowKey.copy(key, 0, 0, 32);
  key[32] = findKinds.indexOf('data');
  rowKey.copy(key, 33, 32);
  return key;
}

/** The namespace and key in a document's row key. */
export function namesOf(rowKey: Buffer): { namespace: string; key: string } {
  const end = rowKey.indexOf(0, 32);
  return { namespace: rowKey.toString('utf8', 32, end), key: rowKey.toString('utf8', end + 1) };
}

/** Throws if the limits are so high that keys would be too long for the engines. */
export function checkKeyLimits(limits: Limits): void {
  const names = ['dataKeyBytesMax', 'namespaceBytesMax'] as const satisfies readonly LimitName[];
  // The key of a timer is the longest: time and kind, then the key of the document.
  const longest = 8 + expiryTimer.length + 1 + 32 + limits.namespaceBytesMax + 1 + limits.dataKeyBytesMax;
  if (longest <= keyBytesMax && 32 + limits.namespaceBytesMax + 1 + limits.agentHeaderBytesMax <= keyBytesMax)
    return;
  throw new StoaError(
    'invalid_config',
    `With these values of ${names.join(' and ')} a key can have ${longest} bytes. The engines allow ${keyBytesMax}.`,
    { fix: 'Lower one of the two limits.' },
  );
}

export const expiryTimer = 'data.expiry';

/**
 * [user, version, created, updated, created by, last accessed by, last accessed, count, metadata, bytes of
 * the value, updated by]
 */
type Head = [
  string,
  number,
  string,
  string,
  string | null,
  string | null,
  string | null,
  number,
  JsonObject,
  number,
  /** Rows of an earlier version do not have it. */
  (string | null)?,
];

/** The row of a document; `apart` is the separate row of a large value. */
export function encodeDocument(record: DocumentRecord): {
  row: Buffer;
  apart: Buffer | undefined;
  sizeBytes: number;
} {
  const { valueJson } = record;
  const sizeBytes = Buffer.byteLength(valueJson);
  const isInline = sizeBytes <= valueInlineBytesMax;
  const text = headText(record, sizeBytes);
  const headBytes = Buffer.byteLength(text);
  const row = Buffer.allocUnsafe(prefixBytes + headBytes + (isInline ? sizeBytes : 0));
  row[0] = format;
  row[1] = (isInline ? 0 : apartFlag) | (record.indexed === false ? unindexedFlag : 0);
  // 0 means "never", so a time of 1970 or before is stored as 1 ms.
  row.writeDoubleBE(record.expiresAt === null ? 0 : Math.max(1, msOf(record.expiresAt)), 2);
  row.writeUInt32BE(headBytes, 10);
  row.write(text, prefixBytes);
  // If the text has as many bytes as characters, it is ASCII, and latin1 encodes it faster.
  if (isInline)
    row.write(valueJson, prefixBytes + headBytes, sizeBytes === valueJson.length ? 'latin1' : 'utf8');
  return { row, apart: isInline ? undefined : Buffer.from(valueJson), sizeBytes };
}

/** The JSON of a `Head`, built by hand because every write makes one. Times need no escaping. */
function headText(record: DocumentRecord, sizeBytes: number): string {
  const {
    userId,
    version,
    createdAt,
    updatedAt,
    createdByAgent,
    updatedByAgent,
    lastAccessedByAgent,
    lastAccessedAt,
    accessCount,
    metadata,
  } = record;
  const lastAccessed = lastAccessedAt === null ? 'null' : `"${lastAccessedAt}"`;
  return `[${JSON.stringify(userId)},${version},"${createdAt}","${updatedAt}",${JSON.stringify(createdByAgent)},${JSON.stringify(lastAccessedByAgent)},${lastAccessed},${accessCount},${JSON.stringify(metadata)},${sizeBytes},${JSON.stringify(updatedByAgent)}]`;
}

/** Milliseconds, or 0 for a document that does not expire. */
export function expiresAtMsOf(row: Buffer): number {
  if (row[0] !== format)
    throw new StoaError(
      'newer_data',
      `A document has format ${row[0]}. This program reads format ${format}.`,
      { fix: 'Use the version of Stoa that wrote the document.' },
    );
  return row.readDoubleBE(2);
}

export function isLiveRow(row: Buffer, nowMs: number): boolean {
  const expiresAtMs = expiresAtMsOf(row);
  return expiresAtMs === 0 || expiresAtMs > nowMs;
}

export function isApart(row: Buffer): boolean {
  return ((row[1] ?? 0) & apartFlag) !== 0;
}

/** Whether the document has no words in the index, or none once its mark is filed. */
export function isUnindexed(row: Buffer): boolean {
  return ((row[1] ?? 0) & unindexedFlag) !== 0;
}

/** Whether two rows of a document have the same expiry, and the same value in themselves. */
export function hasSameValue(a: Buffer, b: Buffer): boolean {
  if (isApart(a) || a[1] !== b[1] || expiresAtMsOf(a) !== expiresAtMsOf(b)) return false;
  const [from, to] = [prefixBytes + a.readUInt32BE(10), prefixBytes + b.readUInt32BE(10)];
  return a.length - from === b.length - to && a.compare(b, to, b.length, from, a.length) === 0;
}

/** The JSON text of a value that is stored in the row itself. */
export function inlineValue(row: Buffer): string {
  return row.toString('utf8', prefixBytes + row.readUInt32BE(10));
}

/**
 * The JSON text of a document's value. A missing value is damage and throws; it must not look like a null.
 */
export function valueJsonOf(reader: Reader, rowKey: Buffer, row: Buffer): string {
  if (!isApart(row)) return inlineValue(row);
  const value = reader.get(dataFamilies.values, rowKey);
  if (value !== undefined) return value.toString();
  throw new StoaError(
    'invalid_data',
    `The value of the document "${namesOf(rowKey).key}" is missing in the database.`,
    { fix: 'Restore a backup into a new directory, or delete the document.' },
  );
}

export function versionOfRow(row: Buffer): number {
  return headOf(row)[1];
}

export function sizeOfRow(row: Buffer): number {
  return headOf(row)[9];
}

/** Everything of a document except its value. */
export interface DocumentHead {
  row: Buffer;
  record: DocumentRecord;
  sizeBytes: number;
}

export function decodeHead(scope: Scope, key: string, row: Buffer): DocumentHead {
  const head = headOf(row);
  return { row, record: recordOf(scope.namespace, key, row, head, ''), sizeBytes: head[9] };
}

export function summaryOf(rowKey: Buffer, row: Buffer): KeySummary {
  const [, version, , updatedAt, , , , , , sizeBytes] = headOf(row);
  return { key: namesOf(rowKey).key, version, sizeBytes, updatedAt };
}

/**
 * `value` is the JSON text, from the row or from its own; the names come from its row key if they are not
 * given.
 */
export function decodeDocument(
  rowKey: Buffer,
  row: Buffer,
  value: string,
  names = namesOf(rowKey),
): DocumentRecord {
  return recordOf(names.namespace, names.key, row, headOf(row), value);
}

function recordOf(namespace: string, key: string, row: Buffer, head: Head, value: string): DocumentRecord {
  const [
    userId,
    version,
    createdAt,
    updatedAt,
    createdByAgent,
    lastAccessedByAgent,
    lastAccessedAt,
    accessCount,
    metadata,
    ,
    updatedByAgent = null,
  ] = head;
  const expiresAtMs = expiresAtMsOf(row);
  return {
    userId,
    namespace,
    key,
    valueJson: value,
    metadata,
    createdByAgent,
    updatedByAgent,
    lastAccessedByAgent,
    accessCount,
    createdAt,
    updatedAt,
    lastAccessedAt,
    version,
    expiresAt: expiresAtMs === 0 ? null : expiryOfMs(expiresAtMs),
    ...(isUnindexed(row) && { indexed: false }),
  };
}

function headOf(row: Buffer): Head {
  return JSON.parse(row.toString('utf8', prefixBytes, prefixBytes + row.readUInt32BE(10))) as Head;
}

export interface AccessRow {
  count: number;
  agent: string | null;
  at: string | null;
}

export interface NamespaceRow {
  count: number;
  sizeBytes: number;
  updatedAtMs: number;
}

export const noUsage: Usage = { documents: 0, sizeBytes: 0, namespaces: 0 };

export function encodeAccess(row: AccessRow): Buffer {
  return Buffer.from(JSON.stringify(row));
}

export function decodeAccess(value: Buffer): AccessRow {
  return JSON.parse(value.toString()) as AccessRow;
}

// Every write reads and writes these two, so they are three numbers each instead of text.

export function encodeNamespace({ count, sizeBytes, updatedAtMs }: NamespaceRow): Buffer {
  return threeNumbers(count, sizeBytes, updatedAtMs);
}

export function decodeNamespace(value: Buffer): NamespaceRow {
  return {
    count: value.readDoubleBE(0),
    sizeBytes: value.readDoubleBE(8),
    updatedAtMs: value.readDoubleBE(16),
  };
}

export function encodeUsage({ documents, sizeBytes, namespaces }: Usage): Buffer {
  return threeNumbers(documents, sizeBytes, namespaces);
}

export function decodeUsage(value: Buffer): Usage {
  return {
    documents: value.readDoubleBE(0),
    sizeBytes: value.readDoubleBE(8),
    namespaces: value.readDoubleBE(16),
  };
}

/** The usage of a user's documents. */
export function readUsage(reader: Reader, user: Buffer): Usage {
  const row = reader.get(dataFamilies.usage, user);
  return row === undefined ? noUsage : decodeUsage(row);
}

function threeNumbers(a: number, b: number, c: number): Buffer {
  const row = Buffer.allocUnsafe(24);
  row.writeDoubleBE(a, 0);
  row.writeDoubleBE(b, 8);
  row.writeDoubleBE(c, 16);
  return row;
}
