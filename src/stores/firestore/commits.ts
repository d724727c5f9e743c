/** Commits of several documents on Firestore, within the size of one message. */
import { StoaError } from '../../core/errors.js';
import { documentId } from '../../datastore/documents/document-id.js';
import {
  checkVersion,
  idCollision,
  isLive,
  mergeDocument,
  resultOf,
} from '../../datastore/documents/merge-document.js';
import type { DocumentRecord, Scope } from '../../datastore/model.js';
import type { BatchResult, WriteBatch } from '../../datastore/port.js';
import type { StoreOptions } from '../options.js';
import { scopeOf } from '../owners.js';
import { newWriteId } from '../write-ids.js';
import {
  type Batch,
  type Collection,
  type FieldValues,
  type Fields,
  type FirestorePlace,
  type Snapshot,
  conditionOf,
  emulatorMessageBytesMax,
} from './client.js';
import { isOf } from '../fields.js';
import { documentBytes, fromFields, nameOf, optionalFields, toFields } from './documents.js';
import { type FirestoreReads, documentsPerRequest } from './reads.js';

/**
 * Bytes of a message that surround the documents of a commit, and each of them: its path, the names of its
 * fields once more, its condition.
 */
const surroundingBytes = 16 * 1024;
const surroundingBytesPerDocument = 2 * 1024;

export class FirestoreCommits {
  readonly #place: FirestorePlace;
  readonly #documents: Collection;
  readonly #values: FieldValues;
  readonly #reads: FirestoreReads;
  readonly #options: StoreOptions;

  constructor(place: FirestorePlace, reads: FirestoreReads, options: StoreOptions) {
    this.#place = place;
    this.#documents = place.firestore.collection(place.collection);
    this.#values = place.values;
    this.#reads = reads;
    this.#options = options;
  }

  /** The commit of a batch, from the documents that were read. Throws if a write is refused. */
  ofBatch(
    scope: Scope,
    batch: WriteBatch,
    seen: readonly Snapshot[],
    writeId: string,
  ): { commit: Batch; result: BatchResult } {
    const commit = this.#place.firestore.batch();
    let sizeBytes = surroundingBytes + batch.deletes.length * surroundingBytesPerDocument;
    const sets = batch.sets.map((write, index) => {
      const snapshot = seen[index];
      const current = snapshot?.data();
      if (current !== undefined && !isOf(scope, current))
        throw idCollision(documentId(scope.user, scope.namespace, write.key));
      const existing = current === undefined ? undefined : fromFields(current);
      const nowMs = this.#options.nowMs();
      const merged = mergeDocument(scope, existing, write, nowMs, this.#options.limits);
      const fields = toFields(merged, writeId, current);
      sizeBytes += documentBytes(fields) + surroundingBytesPerDocument;
      const reference = this.#documents.doc(nameOf(scope, write.key));
      if (current === undefined) commit.create(reference, fields);
      else {
        const isContinued =
          existing !== undefined && isLive(existing, nowMs) && current['accessCount'] !== undefined;
        commit.update(reference, this.#replacing(fields, isContinued), conditionOf(snapshot));
      }
      return resultOf(merged);
    });
    const deletes = batch.deletes.map(({ key, ifVersion }, index) => {
      const snapshot = seen[batch.sets.length + index];
      const record = snapshot === undefined ? undefined : this.#reads.visible(scope, snapshot);
      checkVersion(key, record?.version ?? 0, ifVersion);
      if (record === undefined) return false;
      commit.delete(this.#documents.doc(nameOf(scope, key)), conditionOf(snapshot));
      return true;
    });
    this.#checkSize(sizeBytes);
    return { commit, result: { sets, deletes } };
  }

  /** The commits that write whole documents, whatever version is stored. */
  async *ofDocuments(documents: readonly DocumentRecord[]): AsyncGenerator<Batch> {
    const byName = new Map(
      documents.map((record) => [nameOf(scopeOf(record), record.key), toFields(record, newWriteId())]),
    );
    for (const chunk of chunks([...byName])) {
      const seen = await this.#reads.named(chunk.map(([name]) => name));
      const commit = this.#place.firestore.batch();
      for (const [index, [name, fields]] of chunk.entries()) {
        const found = seen[index]?.data();
        if (
          found !== undefined &&
          (found['userId'] !== fields['userId'] || found['namespace'] !== fields['namespace'])
        )
          throw idCollision(String(fields['_id']));
        commit.set(this.#documents.doc(name), fields);
      }
      yield commit;
    }
  }

  #checkSize(sizeBytes: number): void {
    const { messageBytesMax } = this.#place;
    if (sizeBytes <= messageBytesMax) return;
    throw new StoaError(
      'too_large',
      `The batch needs about ${sizeBytes} bytes in one commit, which exceeds the ${messageBytesMax} that this Firestore server accepts.`,
      { fix: 'Split the batch.', details: { sizeBytes, messageBytesMax } },
    );
  }

  /**
   * Sets the fields of the document and removes those that it lacks. A count stays, because reads may be
   * counted at the same time.
   */
  #replacing(fields: Fields, keepsCount: boolean): Fields {
    const removed = optionalFields
      .filter((name) => fields[name] === undefined)
      .map((name) => [name, this.#values.delete()] as const);
    const { accessCount, ...rest } = fields;
    return { ...rest, ...(!keepsCount && { accessCount }), ...Object.fromEntries(removed) };
  }
}

/**
 * The documents of each commit. Several commits are allowed here, so each is small enough for every server.
 */
function* chunks(
  documents: readonly (readonly [string, Fields])[],
): Generator<(readonly [string, Fields])[]> {
  let chunk: (readonly [string, Fields])[] = [];
  let sizeBytes = surroundingBytes;
  for (const entry of documents) {
    const entryBytes = documentBytes(entry[1]) + surroundingBytesPerDocument;
    if (chunk.length >= documentsPerRequest || sizeBytes + entryBytes > emulatorMessageBytesMax) {
      yield chunk;
      chunk = [];
      sizeBytes = surroundingBytes;
    }
    chunk.push(entry);
    sizeBytes += entryBytes;
  }
  if (chunk.length > 0) yield chunk;
}
