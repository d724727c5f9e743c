/**
 * The data store on Firestore: batches with preconditions, lists from composite indexes, increments for
 * counted reads.
 */
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import { afterPrefix, compareCodePoints } from '../../datastore/documents/code-point-order.js';
import { documentId } from '../../datastore/documents/document-id.js';
import {
  checkVersion,
  idCollision,
  isLive,
  mergeDocument,
  resultOf,
} from '../../datastore/documents/merge-document.js';
import {
  type DocumentRecord,
  type KeySummary,
  type NamespaceSummary,
  type Scope,
  collectionName,
} from '../../datastore/model.js';
import type {
  AccessRead,
  BatchResult,
  ClearStep,
  DataCapabilities,
  DocumentStore,
  ExportPage,
  KeyRange,
  WriteBatch,
} from '../../datastore/port.js';
import { expiryOfMs, laterTime } from '../../datastore/documents/times.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { invalidCursor } from '../../core/paging.js';
import { chunksOf, mapInFlight, recordEach } from '../in-flight.js';
import { NamespaceAgents } from '../namespace-agents.js';
import { backOff, contended } from '../retries.js';
import { hasWrite, newWriteId } from '../write-ids.js';
import { recordAccess } from './access.js';
import {
  type Batch,
  type Collection,
  type FieldValues,
  type Fields,
  type Firestore,
  FirestoreRequests,
  type Query,
  type Snapshot,
  conditionOf,
  emulatorMessageBytesMax,
  grpc,
  isStatus,
  loadDriver,
  serviceMessageBytesMax,
} from './client.js';
import { deleteAll, deleteUnchanged } from './deletions.js';
import {
  documentBytes,
  fromFields,
  isLegalName,
  isLiveDocument,
  isOf,
  nameOf,
  optionalFields,
  scopeOf,
  summaryFields,
  toFields,
  toName,
  toSummary,
  valueBytesMax,
} from './documents.js';

export interface FirestoreOptions {
  limits: Limits;
  nowMs: () => number;
  prepare?: boolean;
}

/**
 * Bytes of a message that surround the documents of a commit, and each of them: its path, the names of its
 * fields once more, its condition.
 */
const surroundingBytes = 16 * 1024;
const surroundingBytesPerDocument = 2 * 1024;
const documentsPerRequest = 300;

export interface FirestorePlace {
  firestore: Firestore;
  values: FieldValues;
  collection: string;
  /** What the server takes in one message. */
  messageBytesMax: number;
}

/**
 * `firestore://project[/collection]?database=…`; the collection is `agent_data_store` where none is named.
 */
export async function openFirestoreDataStore(
  url: URL,
  options: FirestoreOptions,
): Promise<FirestoreDataStore> {
  if (url.hostname === '')
    throw new StoaError('invalid_config', 'The Firestore URL has no project.', {
      fix: 'Write the URL as firestore://my-project.',
    });
  const driver = await loadDriver();
  const database = url.searchParams.get('database');
  // The variable by which the driver finds an emulator.
  const isEmulator = (process.env['FIRESTORE_EMULATOR_HOST'] ?? '') !== '';
  const firestore = new driver.Firestore({
    projectId: decodeURIComponent(url.hostname),
    ...(database !== null && { databaseId: database }),
  });
  const store = new FirestoreDataStore(
    {
      firestore,
      values: driver.FieldValue,
      collection: decodeURIComponent(url.pathname.slice(1)) || collectionName,
      messageBytesMax: isEmulator ? emulatorMessageBytesMax : serviceMessageBytesMax,
    },
    options,
  );
  try {
    if (options.prepare !== false) await store.checkIndexes();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}

export class FirestoreDataStore implements DocumentStore {
  readonly capabilities: DataCapabilities = {
    backend: 'firestore',
    atomicBatches: true,
    changes: 'after-write',
    quotas: false,
    valueBytesMax,
    accessFlushMs: 10_000,
    tellsAccessVisible: false,
    sharedIds: true,
  };
  readonly #firestore: Firestore;
  readonly #values: FieldValues;
  readonly #documents: Collection;
  readonly #namespaces: Collection;
  readonly #requests: FirestoreRequests;
  readonly #messageBytesMax: number;
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  readonly #agents: NamespaceAgents;

  constructor(place: FirestorePlace, options: FirestoreOptions) {
    this.#messageBytesMax = place.messageBytesMax;
    this.#firestore = place.firestore;
    this.#values = place.values;
    this.#documents = place.firestore.collection(place.collection);
    // Beside the documents, so that no reader of the seed's collection meets anything but documents.
    this.#namespaces = place.firestore.collection(`${place.collection}_namespaces`);
    this.#requests = new FirestoreRequests(place.firestore, options.limits);
    this.#limits = options.limits;
    this.#nowMs = options.nowMs;
    this.#agents = new NamespaceAgents({
      nowMs: options.nowMs,
      knownSeconds: options.limits.knownAgentSeconds,
      store: {
        add: (scope, agents) => this.#addAgents(scope, agents),
        remove: (scope) => this.#removeAgents(scope),
      },
    });
  }

  /**
   * Asks what every list asks, so that a missing index is found at the start and not in the middle of the
   * work.
   */
  async checkIndexes(): Promise<void> {
    const nobody = { user: 'stoa', namespace: 'index-check' };
    await this.#snapshots(this.#ordered(nobody, { prefix: 'k', after: null }).limit(1));
    await this.#snapshots(this.#documents.where('userId', '==', nobody.user).orderBy('namespace').limit(1));
  }

  async get(scope: Scope, key: string): Promise<DocumentRecord | undefined> {
    const [record] = await this.getMany(scope, [key]);
    return record;
  }

  async getMany(scope: Scope, keys: readonly string[]): Promise<(DocumentRecord | undefined)[]> {
    const snapshots = await this.#look(scope, keys);
    return snapshots.map((snapshot) => this.#visible(scope, snapshot));
  }

  /**
   * Writes the whole batch in one commit, on condition that no document was changed since it was read;
   * otherwise reads again.
   */
  async write(scope: Scope, batch: WriteBatch): Promise<BatchResult> {
    const keys = [...batch.sets, ...batch.deletes].map(({ key }) => key);
    const writeId = newWriteId();
    let previous: BatchResult | undefined;
    let isUnsure = false;
    for (let attempts = 1; ; attempts += 1) {
      const seen = await this.#look(scope, keys);
      // A commit whose answer was lost may have succeeded, and then as a whole.
      if (previous !== undefined && seen.some((snapshot) => hasWrite(snapshot.data() ?? {}, writeId)))
        return previous;
      // Deletions leave no mark: gone after a lost answer means, as far as anybody can tell, that they were
      // these.
      if (
        isUnsure &&
        batch.sets.length === 0 &&
        previous?.deletes.every((was, index) => was !== true || seen[index]?.data() === undefined) === true
      )
        return previous;
      const { commit, result } = this.#prepare(scope, batch, seen, writeId);
      isUnsure = false;
      try {
        await this.#requests.run(
          () => commit.commit(),
          () => (isUnsure = true),
        );
        await this.#agents.seen(
          scope,
          batch.sets.map(({ agent }) => agent),
        );
        return result;
      } catch (error) {
        if (!isStatus(error, grpc.failedPrecondition, grpc.alreadyExists, grpc.notFound, grpc.aborted))
          throw error;
        if (attempts >= this.#limits.updateAttemptsMax) throw contended(keys[0] ?? '', attempts);
      }
      previous = result;
      if (attempts > 1) await backOff(Math.min(attempts - 1, 4), this.#limits);
    }
  }

  async listKeys(scope: Scope, range: KeyRange): Promise<KeySummary[]> {
    const summaries: KeySummary[] = [];
    for await (const page of this.#pages(scope, range, summaryFields)) {
      const live = page.filter((snapshot) => isLiveDocument(snapshot.data() ?? {}, this.#nowMs()));
      summaries.push(...(await this.#summaries(scope, live)));
      if (summaries.length >= range.limit) break;
    }
    return summaries.slice(0, range.limit);
  }

  async listDocuments(scope: Scope, range: KeyRange): Promise<DocumentRecord[]> {
    const documents: DocumentRecord[] = [];
    for await (const page of this.#pages(scope, range)) {
      documents.push(
        ...page.map((snapshot) => this.#visible(scope, snapshot)).filter((record) => record !== undefined),
      );
      if (documents.length >= range.limit) break;
    }
    return documents.slice(0, range.limit);
  }

  async listNamespaces(
    user: string,
    after: string | null,
    limit: number,
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    await this.#agents.flush();
    const found: NamespaceSummary[] = [];
    for (
      let namespace = await this.#nextNamespace(user, after);
      namespace !== undefined;
      namespace = await this.#nextNamespace(user, namespace)
    ) {
      const summary = await this.#summarise({ user, namespace }, signal);
      if (summary.count > 0) found.push(summary);
      if (found.length >= limit) break;
    }
    return found;
  }

  async describeNamespaces(
    user: string,
    names: readonly string[],
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    await this.#agents.flush();
    const found: NamespaceSummary[] = [];
    for (const namespace of names) found.push(await this.#summarise({ user, namespace }, signal));
    return found.filter(({ count }) => count > 0);
  }

  async clearStep(scope: Scope, after: string | null, limit: number): Promise<ClearStep> {
    const page = await this.#snapshots(
      this.#ordered(scope, { prefix: '', after })
        .select('userId', 'namespace', 'key', 'expiresAt')
        .limit(limit),
    );
    const deleted = await deleteAll(this.#firestore, this.#requests, page);
    const isLast = page.length < limit;
    if (isLast) await this.#agents.forget(scope);
    return {
      deleted: deleted.filter((snapshot) => isLiveDocument(snapshot.data() ?? {}, this.#nowMs())).length,
      after: isLast ? null : String(page.at(-1)?.data()?.['key']),
    };
  }

  async recordAccess(reads: readonly AccessRead[]): Promise<void> {
    const seen = new Map<AccessRead, Snapshot | undefined>();
    const snapshots = await this.#getAll(reads.map(({ scope, key }) => nameOf(scope, key)));
    for (const [index, read] of reads.entries()) seen.set(read, snapshots[index]);
    await recordEach(reads, this.#limits.backendInFlightMax, async (read) => {
      const snapshot = seen.get(read);
      if (snapshot !== undefined)
        await recordAccess(this.#documents, this.#values, this.#requests, read, snapshot);
    });
    for (const { scope, agents } of reads) await this.#agents.seen(scope, agents);
  }

  async exportPage(after: string | null, limit: number): Promise<ExportPage> {
    // A cursor can be forged.
    if (after !== null && !isLegalName(after)) throw invalidCursor();
    const ordered = this.#documents.orderBy('__name__').limit(limit);
    const page = await this.#snapshots(after === null ? ordered : ordered.startAfter(after));
    const documents = page
      .map((snapshot) => snapshot.data() ?? {})
      .filter((fields) => isLiveDocument(fields, this.#nowMs()))
      .map(fromFields);
    return { documents, after: page.length < limit ? null : (page.at(-1)?.ref.id ?? null) };
  }

  async heldByOthers(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    const found = await this.#getAll(documents.map((record) => nameOf(scopeOf(record), record.key)));
    return documents.filter((record, index) => {
      const fields = found[index]?.data();
      return fields !== undefined && !isOf(scopeOf(record), fields);
    });
  }

  async restore(documents: readonly DocumentRecord[]): Promise<void> {
    const byName = new Map<string, Fields>();
    for (const record of documents) {
      const fields = toFields(record, newWriteId());
      const name = nameOf(scopeOf(record), record.key);
      const twin = byName.get(name);
      if (twin !== undefined && !isOf(scopeOf(record), twin)) throw idCollision(String(fields['_id']));
      byName.set(name, fields);
    }
    for (const chunk of this.#commitChunks([...byName])) {
      const seen = await this.#getAll(chunk.map(([name]) => name));
      const commit = this.#firestore.batch();
      for (const [index, [name, fields]] of chunk.entries()) {
        const found = seen[index]?.data();
        if (
          found !== undefined &&
          (found['userId'] !== fields['userId'] || found['namespace'] !== fields['namespace'])
        )
          throw idCollision(String(fields['_id']));
        commit.set(this.#documents.doc(name), fields);
      }
      await this.#requests.run(() => commit.commit());
    }
    for (const record of documents)
      await this.#agents.seen(scopeOf(record), [record.createdByAgent, record.lastAccessedByAgent]);
  }

  async sweepExpired(limit: number): Promise<number> {
    const now = expiryOfMs(this.#nowMs());
    const expired = await this.#snapshots(
      this.#documents.where('expiresAt', '<=', now).orderBy('expiresAt').select('expiresAt').limit(limit),
    );
    const swept = await mapInFlight(expired, this.#limits.backendInFlightMax, (snapshot) =>
      deleteUnchanged(this.#requests, snapshot),
    );
    return swept.filter(Boolean).length;
  }

  async close(): Promise<void> {
    try {
      await this.#agents.flush();
    } finally {
      await this.#requests.close();
    }
  }

  /** What the batch makes of the documents that were read. Throws where a write is refused. */
  #prepare(
    scope: Scope,
    batch: WriteBatch,
    seen: readonly Snapshot[],
    writeId: string,
  ): { commit: Batch; result: BatchResult } {
    const commit = this.#firestore.batch();
    let sizeBytes = surroundingBytes + batch.deletes.length * surroundingBytesPerDocument;
    const sets = batch.sets.map((write, index) => {
      const snapshot = seen[index];
      const current = snapshot?.data();
      if (current !== undefined && !isOf(scope, current))
        throw idCollision(documentId(scope.user, scope.namespace, write.key));
      const existing = current === undefined ? undefined : fromFields(current);
      const merged = mergeDocument(scope, existing, write, this.#nowMs(), this.#limits);
      const fields = toFields(merged, writeId, current);
      sizeBytes += documentBytes(fields) + surroundingBytesPerDocument;
      const reference = this.#documents.doc(nameOf(scope, write.key));
      if (current === undefined) commit.create(reference, fields);
      else {
        const isContinued =
          existing !== undefined && isLive(existing, this.#nowMs()) && current['accessCount'] !== undefined;
        commit.update(reference, this.#replacing(fields, isContinued), conditionOf(snapshot));
      }
      return resultOf(merged);
    });
    const deletes = batch.deletes.map(({ key, ifVersion }, index) => {
      const snapshot = seen[batch.sets.length + index];
      const record = snapshot === undefined ? undefined : this.#visible(scope, snapshot);
      checkVersion(key, record?.version ?? 0, ifVersion);
      if (record === undefined) return false;
      commit.delete(this.#documents.doc(nameOf(scope, key)), conditionOf(snapshot));
      return true;
    });
    const messageBytesMax = this.#messageBytesMax;
    if (sizeBytes > messageBytesMax) {
      throw new StoaError(
        'too_large',
        `The batch needs about ${sizeBytes} bytes in one commit, which exceeds the ${messageBytesMax} that this Firestore server accepts.`,
        { fix: 'Split the batch.', details: { sizeBytes, messageBytesMax } },
      );
    }
    return { commit, result: { sets, deletes } };
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

  #visible(scope: Scope, snapshot: Snapshot): DocumentRecord | undefined {
    const fields = snapshot.data();
    return fields !== undefined && isOf(scope, fields) && isLiveDocument(fields, this.#nowMs())
      ? fromFields(fields)
      : undefined;
  }

  #look(scope: Scope, keys: readonly string[]): Promise<Snapshot[]> {
    return this.#getAll(keys.map((key) => nameOf(scope, key)));
  }

  /** In the order of the names, missing ones among them. */
  async #getAll(names: readonly string[]): Promise<Snapshot[]> {
    const chunks = chunksOf(names, documentsPerRequest);
    const pages = await mapInFlight(chunks, this.#limits.backendInFlightMax, (chunk) =>
      this.#requests.run(() => this.#firestore.getAll(...chunk.map((name) => this.#documents.doc(name)))),
    );
    return pages.flat();
  }

  async #snapshots(query: Query): Promise<Snapshot[]> {
    return (await this.#requests.run(() => query.get())).docs;
  }

  /** Firestore orders text by its UTF-8 bytes, which is code-point order. */
  #ordered(scope: Scope, { prefix, after }: Pick<KeyRange, 'prefix' | 'after'>): Query {
    let query = this.#documents.where('userId', '==', scope.user).where('namespace', '==', scope.namespace);
    const end = afterPrefix(prefix);
    if (prefix !== '') query = query.where('key', '>=', prefix);
    if (end !== null) query = query.where('key', '<', end);
    query = query.orderBy('key');
    return after !== null && compareCodePoints(after, prefix) >= 0 ? query.startAfter(after) : query;
  }

  async *#pages(
    scope: Scope,
    { prefix, after, limit, signal }: KeyRange,
    fields?: readonly string[],
  ): AsyncGenerator<Snapshot[]> {
    for (let last = after; ;) {
      checkWanted(signal);
      const query = this.#ordered(scope, { prefix, after: last }).limit(limit);
      const page = await this.#snapshots(fields === undefined ? query : query.select(...fields));
      yield page;
      if (page.length < limit) return;
      last = String(page.at(-1)?.data()?.['key']);
    }
  }

  /** Sizes are stored with Stoa's documents. Documents of other programs are read. */
  async #summaries(scope: Scope, snapshots: readonly Snapshot[]): Promise<KeySummary[]> {
    const kept = snapshots.map((snapshot) => ({
      key: String(snapshot.data()?.['key']),
      summary: toSummary(snapshot.data() ?? {}),
    }));
    const foreign = await this.getMany(
      scope,
      kept.filter(({ summary }) => summary === null).map(({ key }) => key),
    );
    const measured = new Map(
      foreign.flatMap((record) => (record === undefined ? [] : [[record.key, record] as const])),
    );
    return kept.flatMap(({ key, summary }) => {
      if (summary !== null) return [summary];
      const record = measured.get(key);
      return record === undefined
        ? []
        : [
            {
              key,
              version: record.version,
              sizeBytes: Buffer.byteLength(record.valueJson),
              updatedAt: record.updatedAt,
            },
          ];
    });
  }

  /** One request for each namespace, however many documents are in it. */
  async #nextNamespace(user: string, after: string | null): Promise<string | undefined> {
    const ordered = this.#documents
      .where('userId', '==', user)
      .orderBy('namespace')
      .select('namespace')
      .limit(1);
    const [next] = await this.#snapshots(after === null ? ordered : ordered.startAfter(after));
    const namespace = next?.data()?.['namespace'];
    return typeof namespace === 'string' ? namespace : undefined;
  }

  /** Adds up the documents without their values. */
  async #summarise(scope: Scope, signal?: Cancellation): Promise<NamespaceSummary> {
    const summary: NamespaceSummary = {
      namespace: scope.namespace,
      count: 0,
      sizeBytes: 0,
      agents: [],
      updatedAt: '',
    };
    const agents = new Set<string>();
    for await (const page of this.#pages(
      scope,
      { prefix: '', after: null, limit: this.#limits.pageItemsMax, signal },
      [...summaryFields, 'createdByAgent', 'lastAccessedByAgent'],
    )) {
      const live = page.filter((snapshot) => isLiveDocument(snapshot.data() ?? {}, this.#nowMs()));
      for (const { sizeBytes, updatedAt } of await this.#summaries(scope, live)) {
        summary.count += 1;
        summary.sizeBytes += sizeBytes;
        summary.updatedAt = laterTime(summary.updatedAt || null, updatedAt) ?? updatedAt;
      }
      for (const { createdByAgent, lastAccessedByAgent } of live.map((snapshot) => snapshot.data() ?? {})) {
        for (const agent of [createdByAgent, lastAccessedByAgent])
          if (typeof agent === 'string') agents.add(agent);
      }
    }
    const kept = (await this.#requests.run(() => this.#namespace(scope).get())).data()?.['agents'];
    for (const agent of Array.isArray(kept) ? kept : []) agents.add(String(agent));
    summary.agents = [...agents].toSorted(compareCodePoints);
    return summary;
  }

  *#commitChunks(
    documents: readonly (readonly [string, Fields])[],
  ): Generator<(readonly [string, Fields])[]> {
    let chunk: (readonly [string, Fields])[] = [];
    let sizeBytes = surroundingBytes;
    for (const entry of documents) {
      const entryBytes = documentBytes(entry[1]) + surroundingBytesPerDocument;
      // Nobody was promised one commit, so they are small enough for every server.
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

  #namespace(scope: Scope): ReturnType<Collection['doc']> {
    return this.#namespaces.doc(toName(documentId(scope.user, scope.namespace, '')));
  }

  async #addAgents(scope: Scope, agents: readonly string[]): Promise<void> {
    const fields = {
      userId: scope.user,
      namespace: scope.namespace,
      agents: this.#values.arrayUnion(...agents),
    };
    await this.#requests.run(() => this.#namespace(scope).set(fields, { merge: true }));
  }

  async #removeAgents(scope: Scope): Promise<void> {
    await this.#requests.run(() => this.#namespace(scope).delete());
  }
}
