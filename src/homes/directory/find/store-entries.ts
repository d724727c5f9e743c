/**
 * The words of documents that are in a store beside the directory. The store has no index of them, so the
 * directory keeps what the index needs: these rows are to the search what documents are otherwise.
 */
import type { CurrentDocument } from '../../../datastore/document-store/current-documents.js';
import { msOf } from '../../../datastore/documents/times.js';
import type { Scope } from '../../../datastore/model.js';
import { documentEntry } from '../../../find/entries.js';
import type { EntryName } from '../../../find/model.js';
import { ByteReader, ByteWriter } from '../../../find/segments/bytes.js';
import type { WaitingEntry } from '../../../find/segments/segment.js';
import { userKey } from '../../../identity/user-key.js';
import { documentKey, documentMarkKey, namespaceKey, namesOf } from '../datastore/rows.js';
import { readSettings } from '../datastore/settings.js';
import { prefixRange } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { putChange, putMark } from './filing/marks.js';
import { findFamilies } from './rows.js';

/** As long as the timer of a document, because the limits on keys count with that. */
export const entryTimer = 'find.expiry';
const keysPerPage = 64;

/** The words of a document, and what tells an older state of it from a newer one. */
export interface StoreEntry {
  readonly user: string;
  readonly createdAtMs: number;
  readonly entry: WaitingEntry;
}

/** Expired words leave in time; the store removes the document itself. */
export function expireStoreEntries(kernel: Kernel): void {
  kernel.handleTimer(entryTimer, (tx, rowKey) => {
    const row = tx.get(findFamilies.entries, rowKey);
    if (row !== undefined && expiryOf(row) <= tx.nowMs) remove(tx, rowKey, row);
  });
}

/** Writes the words of documents as they were just read. Documents of one user, in the user's shard. */
export function putStoreEntries(tx: Transaction, documents: readonly CurrentDocument[]): void {
  for (const { user, namespace, key, record } of documents) {
    const scope = { user, namespace };
    const rowKey = documentKey(scope, key);
    const stored = tx.get(findFamilies.entries, rowKey);
    const isFound = record !== undefined && readSettings(tx, namespaceKey(scope)).index;
    const entry = isFound ? documentEntry(record) : null;
    if (entry !== null && record !== undefined)
      put(tx, rowKey, stored, { user, createdAtMs: msOf(record.createdAt), entry });
    else if (stored !== undefined) remove(tx, rowKey, stored);
  }
}

function put(tx: Transaction, rowKey: Buffer, stored: Buffer | undefined, next: StoreEntry): void {
  const before = stored === undefined ? undefined : decodeStoreEntry(rowKey, stored);
  if (before !== undefined && isOlder(next, before)) return;
  if (stored !== undefined) unschedule(tx, rowKey, stored);
  tx.put(findFamilies.entries, rowKey, encode(next));
  const { expiresAtMs } = next.entry;
  if (expiresAtMs !== null) tx.schedule({ atMs: expiresAtMs, kind: entryTimer, reference: rowKey });
  const hasSameWords =
    before?.entry.expiresAtMs === expiresAtMs && before.entry.packed.equals(next.entry.packed);
  if (hasSameWords) putChange(tx, documentMarkKey(rowKey), next.entry);
  else putMark(tx, documentMarkKey(rowKey));
}

function remove(tx: Transaction, rowKey: Buffer, row: Buffer): void {
  unschedule(tx, rowKey, row);
  tx.delete(findFamilies.entries, rowKey);
  putMark(tx, documentMarkKey(rowKey));
}

function unschedule(tx: Transaction, rowKey: Buffer, row: Buffer): void {
  const atMs = expiryOf(row);
  if (atMs !== Infinity) tx.unschedule({ atMs, kind: entryTimer, reference: rowKey });
}

/** A document that was deleted and written again begins with version 1. */
function isOlder(a: StoreEntry, b: StoreEntry): boolean {
  if (a.createdAtMs !== b.createdAtMs) return a.createdAtMs < b.createdAtMs;
  return a.entry.version < b.entry.version;
}

/** Undefined if the document has no words here, or has expired. */
export function readStoreEntry(reader: Reader, rowKey: Buffer, nowMs: number): WaitingEntry | undefined {
  const row = reader.get(findFamilies.entries, rowKey);
  if (row === undefined) return undefined;
  const { entry } = decodeStoreEntry(rowKey, row);
  return (entry.expiresAtMs ?? Infinity) > nowMs ? entry : undefined;
}

/** The next keys of a namespace after `after`, up to `through`. */
export function storeEntryKeys(
  kernel: Kernel,
  scope: Scope,
  after: string | null,
  through: string | null,
): string[] {
  const { gte, lt } = prefixRange(documentKey(scope, ''));
  const from = after === null ? { gte: gte as Buffer } : { gt: documentKey(scope, after) };
  const to = through === null ? lt !== undefined && { lt } : { lte: documentKey(scope, through) };
  const rows = kernel
    .storeOf(userKey(scope.user))
    .range(findFamilies.entries, { ...from, ...to, limit: keysPerPage });
  return Array.from(rows, ({ key }) => namesOf(key).key);
}

function encode({ user, createdAtMs, entry }: StoreEntry): Buffer {
  const writer = new ByteWriter();
  writer.number(entry.expiresAtMs ?? 0);
  writer.text(user);
  writer.time(createdAtMs);
  writer.number(entry.version);
  writer.time(entry.timeMs);
  writer.number(entry.author === null ? 0 : 1);
  writer.text(entry.author ?? '');
  writer.bytes(entry.packed);
  return writer.take();
}

export function decodeStoreEntry(rowKey: Buffer, row: Buffer): StoreEntry {
  const reader = new ByteReader(row);
  const expiresAtMs = reader.number() || null;
  const user = reader.text();
  const createdAtMs = reader.time();
  const version = reader.number();
  const timeMs = reader.time();
  const hasAuthor = reader.number() === 1;
  const name = reader.text();
  const { namespace, key } = namesOf(rowKey);
  return {
    user,
    createdAtMs,
    entry: {
      name: { kind: 'data', collection: namespace, id: key } satisfies EntryName,
      version,
      author: hasAuthor ? name : null,
      timeMs,
      expiresAtMs,
      packed: Buffer.from(row.subarray(reader.at)),
    },
  };
}

function expiryOf(row: Buffer): number {
  return new ByteReader(row).number() || Infinity;
}
