/**
 * The verbs of the data store inside one transaction, so that a commit can combine them with those of other
 * domains.
 */
import {
  documentDeleted,
  documentImported,
  documentSet,
  namespaceCleared,
} from '../../../datastore/changes.js';
import { checkVersion, mergeDocument, requireVersion } from '../../../datastore/documents/merge-document.js';
import { readUpTo } from '../../../datastore/documents/bounded-reads.js';
import type { DocumentRecord, Scope } from '../../../datastore/model.js';
import type {
  AccessRead,
  ClearStep,
  DataBatch,
  DataBatchResult,
  Decide,
  DocumentDelete,
  DocumentWrite,
  WriteResult,
} from '../../../datastore/port.js';
import { checkQuota, hasQuota } from '../../../datastore/quota.js';
import { keptBytes } from '../kept-answers.js';
import { documentEntry, documentFacts } from '../../../find/entries.js';
import type { EntrySource } from '../find/sources.js';
import { laterTime, msOf } from '../../../datastore/documents/times.js';
import { putChange, putMark } from '../find/filing/marks.js';
import { isReindexed } from '../find/reindex/rows.js';
import { readStoreEntry } from '../find/store-entries.js';
import { removeVector, waitForVector } from '../find/vectors/rows.js';
import { prefixRange } from '../kernel/engine.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { userKey } from '../../../identity/user-key.js';
import type { Limits } from '../../../core/settings/limits.js';
import {
  dataFamilies as families,
  decodeAccess,
  decodeDocument,
  decodeHead,
  decodeNamespace,
  decodeUsage,
  documentKey,
  documentMarkKey,
  encodeAccess,
  encodeDocument,
  encodeNamespace,
  encodeUsage,
  expiresAtMsOf,
  expiryTimer,
  hasSameValue,
  isApart,
  isLiveRow,
  isUnindexed,
  namespaceKey,
  namesOf,
  noUsage,
  sizeOfRow,
  valueJsonOf,
  versionOfRow,
} from './rows.js';
import { readSettings } from './settings.js';

export interface DataVerbsOptions {
  limits: Limits;
  /** Creates the user if it is new: a user exists from its first write. */
  ensureUser: (tx: Transaction, user: string) => void;
}

/** How a write changes the counts of its namespace and user. */
interface Difference {
  documents: number;
  sizeBytes: number;
  /** When the document was set; 0 if it is removed. */
  updatedAtMs: number;
}

export class DataVerbs {
  readonly #limits: Limits;
  readonly #hasQuota: boolean;
  readonly #ensureUser: DataVerbsOptions['ensureUser'];

  constructor(options: DataVerbsOptions) {
    this.#limits = options.limits;
    this.#hasQuota = hasQuota(options.limits);
    this.#ensureUser = options.ensureUser;
  }

  set(tx: Transaction, scope: Scope, write: DocumentWrite): WriteResult {
    const rowKey = documentKey(scope, write.key);
    const row = tx.get(families.documents, rowKey);
    const before = row === undefined ? undefined : decodeHead(scope, write.key, row);
    // The last reader is in its own row, which matters only to a write without an agent. The count is not
    // moved: the document has the count that it was restored with, and that row has the later reads.
    const current =
      before === undefined || write.agent !== null
        ? before?.record
        : { ...withReads(tx, rowKey, before.record), accessCount: before.record.accessCount };
    const record = mergeDocument(scope, current, write, tx.nowMs, this.#limits);
    if (before !== undefined && record.version === 1) this.#forgetReads(tx, rowKey);
    const sizeBytes = this.#put(tx, scope, rowKey, before, record);
    if (write.agent !== null) this.#noteAgent(tx, scope, write.agent);
    tx.change(documentSet(scope, write.key, record.version));
    return {
      key: write.key,
      version: record.version,
      sizeBytes,
      updatedAt: record.updatedAt,
      created: record.version === 1,
    };
  }

  /** Writes what `decide` returns for the current document. */
  modify(tx: Transaction, scope: Scope, key: string, decide: Decide): WriteResult {
    return this.set(tx, scope, decide(this.get(tx, scope, key)));
  }

  delete(tx: Transaction, scope: Scope, { key, ifVersion }: DocumentDelete): boolean {
    const rowKey = documentKey(scope, key);
    const row = tx.get(families.documents, rowKey);
    const exists = row !== undefined && isLiveRow(row, tx.nowMs);
    checkVersion(key, exists ? versionOfRow(row) : 0, ifVersion);
    if (!exists) return false;
    this.#remove(tx, scope, rowKey, row);
    tx.change(documentDeleted(scope, key));
    return true;
  }

  write(tx: Transaction, scope: Scope, batch: DataBatch): DataBatchResult {
    return {
      sets: batch.sets.map((write) => this.set(tx, scope, write)),
      deletes: batch.deletes.map((removal) => this.delete(tx, scope, removal)),
      read: readUpTo(this.#limits.dataBatchBytesMax, batch.gets, (key) => this.get(tx, scope, key)).filter(
        (record) => record !== undefined,
      ),
    };
  }

  requireVersion(tx: Transaction, scope: Scope, key: string, version: number): void {
    const row = tx.get(families.documents, documentKey(scope, key));
    const current = row === undefined || !isLiveRow(row, tx.nowMs) ? 0 : versionOfRow(row);
    requireVersion(scope, key, current, version);
  }

  /** The document with all its counted reads, including those that are not on disk yet. */
  get(reader: Reader & { readonly nowMs: number }, scope: Scope, key: string): DocumentRecord | undefined {
    const rowKey = documentKey(scope, key);
    const row = reader.get(families.documents, rowKey);
    return row !== undefined && isLiveRow(row, reader.nowMs)
      ? readDocument(reader, rowKey, row, { namespace: scope.namespace, key })
      : undefined;
  }

  clearStep(tx: Transaction, scope: Scope, after: string | null, limit: number): ClearStep {
    const { gte, lt } = prefixRange(documentKey(scope, ''));
    const start = after === null ? { gte } : { gt: documentKey(scope, after) };
    const entries = [...tx.range(families.documents, { ...(start as { gte: Buffer }), lt: lt, limit })];
    let deleted = 0;
    for (const { key, value } of entries) {
      if (isLiveRow(value, tx.nowMs)) deleted += 1;
      this.#remove(tx, scope, key, value);
    }
    const last = entries.length < limit ? undefined : entries.at(-1);
    const through = last === undefined ? null : namesOf(last.key).key;
    if (deleted > 0) tx.change(namespaceCleared(scope, deleted, after, through));
    if (through !== null) return { deleted, after: through };
    // Documents that were written behind the steps have their agents here.
    if (tx.get(families.namespaces, namespaceKey(scope)) !== undefined) return { deleted, after: null };
    const agents = Array.from(
      tx.range(families.agents, { ...prefixRange(documentKey(scope, '')), limit }),
      ({ key }) => key,
    );
    for (const key of agents) tx.delete(families.agents, key);
    // Further steps remove the remaining agents; they find no documents.
    const looked = entries.at(-1);
    const rest = looked === undefined ? (after ?? '') : namesOf(looked.key).key;
    return { deleted, after: agents.length < limit ? null : rest };
  }

  recordAccess(tx: Transaction, read: AccessRead): void {
    const rowKey = documentKey(read.scope, read.key);
    if (tx.get(families.documents, rowKey) === undefined) return;
    const stored = tx.get(families.access, rowKey);
    const row = stored === undefined ? { count: 0, agent: null, at: null } : decodeAccess(stored);
    const isLater = read.last !== null && laterTime(read.last.at, row.at) === read.last.at;
    tx.put(
      families.access,
      rowKey,
      encodeAccess({
        count: row.count + read.count,
        agent: isLater ? read.last.agent : row.agent,
        at: isLater ? read.last.at : row.at,
      }),
    );
    for (const agent of read.agents) this.#noteAgent(tx, read.scope, agent);
  }

  /** Writes a document unchanged. `isCounted` means that the quotas were checked. */
  restore(tx: Transaction, record: DocumentRecord, isCounted: boolean): void {
    const scope = { user: record.userId, namespace: record.namespace };
    const rowKey = documentKey(scope, record.key);
    const row = tx.get(families.documents, rowKey);
    if (row !== undefined) this.#forgetReads(tx, rowKey);
    this.#put(
      tx,
      scope,
      rowKey,
      row === undefined ? undefined : { row, sizeBytes: sizeOfRow(row) },
      record,
      isCounted,
    );
    for (const agent of [record.createdByAgent, record.updatedByAgent, record.lastAccessedByAgent])
      if (agent !== null) this.#noteAgent(tx, scope, agent);
    tx.change(documentImported(scope, record.key, record.version));
  }

  /** The timer of a document. The document may have been written again with another expiry or none. */
  expire(tx: Transaction, rowKey: Buffer): void {
    const row = tx.get(families.documents, rowKey);
    if (row === undefined || isLiveRow(row, tx.nowMs)) return;
    const { userId, namespace, key } = decodeDocument(rowKey, row, '');
    this.#remove(tx, { user: userId, namespace }, rowKey, row);
    tx.change(documentDeleted({ user: userId, namespace }, key, true));
  }

  /** Returns the size of the value. */
  #put(
    tx: Transaction,
    scope: Scope,
    rowKey: Buffer,
    before: { row: Buffer; sizeBytes: number; record?: DocumentRecord } | undefined,
    record: DocumentRecord,
    isCounted = false,
  ): number {
    const { row, apart, sizeBytes } = encodeDocument(record);
    this.#account(
      tx,
      scope,
      {
        documents: before === undefined ? 1 : 0,
        sizeBytes: sizeBytes - (before?.sizeBytes ?? 0),
        updatedAtMs: msOf(record.updatedAt),
      },
      isCounted,
    );
    tx.put(families.documents, rowKey, row);
    if (apart !== undefined) tx.put(families.values, rowKey, apart);
    else if (before !== undefined && isApart(before.row)) tx.delete(families.values, rowKey);
    this.#reschedule(tx, rowKey, before?.row, row);
    const { index, embed } = readSettings(tx, namespaceKey(scope));
    // The index has no words of a document that was written without them, so there is nothing to take out either.
    const concernsIndex = !isUnindexed(row) || (before !== undefined && !isUnindexed(before.row));
    if (concernsIndex && (index || hasWords(tx, scope))) {
      const mark = documentMarkKey(rowKey);
      if (index && hasSameWords(before, row, record)) putChange(tx, mark, documentFacts(record));
      else putMark(tx, mark);
    }
    if (embed) waitForVector(tx, rowKey);
    return sizeBytes;
  }

  #remove(tx: Transaction, scope: Scope, rowKey: Buffer, row: Buffer): void {
    tx.removesRecords = true;
    this.#account(tx, scope, { documents: -1, sizeBytes: -sizeOfRow(row), updatedAtMs: 0 });
    tx.delete(families.documents, rowKey);
    if (isApart(row)) tx.delete(families.values, rowKey);
    this.#forgetReads(tx, rowKey);
    this.#reschedule(tx, rowKey, row, undefined);
    const { index, embed } = readSettings(tx, namespaceKey(scope));
    if (!isUnindexed(row) && (index || hasWords(tx, scope))) putMark(tx, documentMarkKey(rowKey));
    if (embed) removeVector(tx, rowKey);
  }

  /** The reads of a deleted document must not count for the next one. */
  #forgetReads(tx: Transaction, rowKey: Buffer): void {
    if (tx.get(families.access, rowKey) !== undefined) tx.delete(families.access, rowKey);
  }

  #reschedule(tx: Transaction, rowKey: Buffer, before: Buffer | undefined, after: Buffer | undefined): void {
    const [was, is] = [
      before === undefined ? 0 : expiresAtMsOf(before),
      after === undefined ? 0 : expiresAtMsOf(after),
    ];
    if (was === is) return;
    if (was > 0) tx.unschedule({ atMs: was, kind: expiryTimer, reference: rowKey });
    if (is > 0) tx.schedule({ atMs: is, kind: expiryTimer, reference: rowKey });
  }

  /** Updates the counts of namespace and user. Throws if a quota is exceeded. */
  #account(tx: Transaction, scope: Scope, difference: Difference, isCounted = false): void {
    const namespaceRowKey = namespaceKey(scope);
    const storedNamespace = tx.get(families.namespaces, namespaceRowKey);
    const namespace =
      storedNamespace === undefined
        ? { count: 0, sizeBytes: 0, updatedAtMs: 0 }
        : decodeNamespace(storedNamespace);
    const count = namespace.count + difference.documents;
    // A restored document keeps its time, and a namespace has the time of its last set.
    const updatedAtMs = Math.max(namespace.updatedAtMs, difference.updatedAtMs);
    // A write with the same size changes no count, and one in the same millisecond does not change the time
    // either.
    const isResized = difference.documents !== 0 || difference.sizeBytes !== 0;
    if (count === 0) tx.delete(families.namespaces, namespaceRowKey);
    else if (isResized || namespace.updatedAtMs !== updatedAtMs)
      tx.put(
        families.namespaces,
        namespaceRowKey,
        encodeNamespace({
          count,
          sizeBytes: namespace.sizeBytes + difference.sizeBytes,
          updatedAtMs,
        }),
      );
    if (!isResized) return;

    const userRowKey = userKey(scope.user);
    const storedUsage = tx.get(families.usage, userRowKey);
    if (storedUsage === undefined) this.#ensureUser(tx, scope.user);
    const before = storedUsage === undefined ? noUsage : decodeUsage(storedUsage);
    const after = {
      documents: before.documents + difference.documents,
      sizeBytes: before.sizeBytes + difference.sizeBytes,
      namespaces: before.namespaces + (count > 0 ? 1 : 0) - (namespace.count > 0 ? 1 : 0),
    };
    if (!isCounted && this.#hasQuota) {
      const kept = keptBytes(tx, userRowKey);
      checkQuota(
        { ...before, sizeBytes: before.sizeBytes + kept },
        { ...after, sizeBytes: after.sizeBytes + kept },
        this.#limits,
      );
    }
    tx.put(families.usage, userRowKey, encodeUsage(after));
  }

  #noteAgent(tx: Transaction, scope: Scope, agent: string): void {
    const rowKey = documentKey(scope, agent);
    if (tx.get(families.agents, rowKey) === undefined) tx.put(families.agents, rowKey, Buffer.alloc(0));
  }
}

/** Whether the index has the words of the document as it was. A large value is not compared. */
function hasSameWords(
  before: { row: Buffer; record?: DocumentRecord } | undefined,
  row: Buffer,
  { metadata, version }: DocumentRecord,
): boolean {
  // Version 1 follows a document that has expired and was not removed yet.
  return (
    before?.record !== undefined &&
    version > 1 &&
    hasSameValue(before.row, row) &&
    JSON.stringify(before.record.metadata) === JSON.stringify(metadata)
  );
}

/** Whether the index may still have words of a namespace that was taken out of it. */
function hasWords(tx: Transaction, { user, namespace }: Scope): boolean {
  return isReindexed(tx, userKey(user), namespace);
}

/** The document in a row, with its counted reads. */
export function readDocument(
  reader: Reader,
  rowKey: Buffer,
  row: Buffer,
  names?: { namespace: string; key: string },
): DocumentRecord {
  return withReads(reader, rowKey, decodeDocument(rowKey, row, valueJsonOf(reader, rowKey, row), names));
}

/** The document with the reads that were counted since it was written here. */
function withReads(reader: Reader, rowKey: Buffer, record: DocumentRecord): DocumentRecord {
  const stored = reader.get(families.access, rowKey);
  if (stored === undefined) return record;
  const access = decodeAccess(stored);
  const isLater = access.at !== null && laterTime(access.at, record.lastAccessedAt) === access.at;
  return {
    ...record,
    accessCount: record.accessCount + access.count,
    ...(isLater && { lastAccessedAt: access.at, lastAccessedByAgent: access.agent }),
  };
}

/** The entry of a document, here or in a store beside; undefined if it does not exist or is not to be found. */
export const documentSource: EntrySource = (reader, partition, { collection, id }, nowMs) => {
  const rowKey = Buffer.concat([partition, Buffer.from(`${collection}\0${id}`)]);
  const row = reader.get(families.documents, rowKey);
  if (row !== undefined && !isLiveRow(row, nowMs)) return undefined;
  if (!readSettings(reader, rowKey.subarray(0, partition.length + Buffer.byteLength(collection))).index)
    return undefined;
  if (row === undefined) return readStoreEntry(reader, rowKey, nowMs);
  const names = { namespace: collection, key: id };
  return documentEntry(decodeDocument(rowKey, row, valueJsonOf(reader, rowKey, row), names)) ?? undefined;
};
