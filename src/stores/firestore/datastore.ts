/**
 * The data store on Firestore: batches with preconditions, lists from composite indexes, increments for
 * counted reads.
 */
import { type DocumentRecord, type KeySummary } from '../../datastore/model.js';
import type { AccessRead, BatchResult, DataCapabilities, DocumentStore } from '../../datastore/port.js';
import { expiryOfMs } from '../../datastore/documents/times.js';
import type { Limits } from '../../core/settings/limits.js';
import { invalidCursor } from '../../core/paging.js';
import { storeCapabilities } from '../capabilities.js';
import { mapInFlight, recordEach } from '../in-flight.js';
import { NamespaceAgents } from '../namespace-agents.js';
import type { StoreOptions } from '../options.js';
import { checkIds, scopeOf } from '../owners.js';
import { type NamespaceSources, describeNamespaces, listNamespaces } from '../summaries.js';
import { backOff, contended } from '../retries.js';
import { hasWrite, newWriteId } from '../write-ids.js';
import { recordAccess } from './access.js';
import {
  type Collection,
  type FieldValues,
  type Firestore,
  type FirestorePlace,
  FirestoreRequests,
  type Snapshot,
  grpc,
  isStatus,
} from './client.js';
import { FirestoreCommits } from './commits.js';
import { deleteAll, deleteUnchanged } from './deletions.js';
import { isLiveDocument, isOf } from '../fields.js';
import { fromFields, isLegalName, nameOf, summaryFields, valueBytesMax } from './documents.js';
import { FirestoreNamespaces } from './namespaces.js';
import { FirestoreReads } from './reads.js';

export class FirestoreDataStore implements DocumentStore {
  readonly capabilities: DataCapabilities = {
    ...storeCapabilities,
    backend: 'firestore',
    atomicBatches: true,
    valueBytesMax,
  };
  readonly #firestore: Firestore;
  readonly #values: FieldValues;
  readonly #documents: Collection;
  readonly #requests: FirestoreRequests;
  readonly #reads: FirestoreReads;
  readonly #commits: FirestoreCommits;
  readonly #namespaces: FirestoreNamespaces;
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  readonly #agents: NamespaceAgents;
  readonly #namespaceSources: NamespaceSources;

  constructor(place: FirestorePlace, options: StoreOptions) {
    this.#firestore = place.firestore;
    this.#values = place.values;
    this.#documents = place.firestore.collection(place.collection);
    this.#requests = new FirestoreRequests(place.firestore, options.limits);
    this.#reads = new FirestoreReads(place.firestore, this.#documents, this.#requests, options);
    this.#commits = new FirestoreCommits(place, this.#reads, options);
    this.#namespaces = new FirestoreNamespaces(place, this.#requests, this.#reads);
    this.#limits = options.limits;
    this.#nowMs = options.nowMs;
    this.#agents = new NamespaceAgents(this.#namespaces, options);
    this.#namespaceSources = { reads: this.#namespaces, agents: this.#agents };
  }

  /** Runs the queries of lists once, so that a missing index is found at the start and not later. */
  async checkIndexes(): Promise<void> {
    const nobody = { user: 'stoa', namespace: 'index-check' };
    await this.#reads.found(this.#reads.ordered(nobody, { prefix: 'k', after: null }).limit(1));
    await this.#reads.found(this.#documents.where('userId', '==', nobody.user).orderBy('namespace').limit(1));
  }

  readonly get: DocumentStore['get'] = async (scope, key) => {
    const [record] = await this.getMany(scope, [key]);
    return record;
  };

  readonly getMany: DocumentStore['getMany'] = (scope, keys) => this.#reads.getMany(scope, keys);

  /**
   * Writes the whole batch in one commit, on condition that no document was changed since it was read;
   * otherwise reads again.
   */
  readonly write: DocumentStore['write'] = async (scope, batch) => {
    const keys = [...batch.sets, ...batch.deletes].map(({ key }) => key);
    const writeId = newWriteId();
    let previous: BatchResult | undefined;
    let isUnsure = false;
    for (let attempts = 1; ; attempts += 1) {
      const seen = await this.#reads.look(scope, keys);
      // A commit whose answer was lost may have succeeded, and then as a whole.
      if (previous !== undefined && seen.some((snapshot) => hasWrite(snapshot.data() ?? {}, writeId)))
        return previous;
      // Deletions leave no mark: if the documents are gone after a lost answer, this commit is assumed to
      // have deleted them.
      if (
        isUnsure &&
        batch.sets.length === 0 &&
        previous?.deletes.every((was, index) => was !== true || seen[index]?.data() === undefined) === true
      )
        return previous;
      const { commit, result } = this.#commits.ofBatch(scope, batch, seen, writeId);
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
  };

  readonly listKeys: DocumentStore['listKeys'] = async (scope, range) => {
    const summaries: KeySummary[] = [];
    for await (const page of this.#reads.pages(scope, range, summaryFields)) {
      const live = page.filter((snapshot) => this.#reads.isLive(snapshot));
      summaries.push(...(await this.#reads.summaries(scope, live)));
      if (summaries.length >= range.limit) break;
    }
    return summaries.slice(0, range.limit);
  };

  readonly listDocuments: DocumentStore['listDocuments'] = async (scope, range) => {
    const documents: DocumentRecord[] = [];
    for await (const page of this.#reads.pages(scope, range)) {
      documents.push(
        ...page
          .map((snapshot) => this.#reads.visible(scope, snapshot))
          .filter((record) => record !== undefined),
      );
      if (documents.length >= range.limit) break;
    }
    return documents.slice(0, range.limit);
  };

  listNamespaces: DocumentStore['listNamespaces'] = (...wanted) =>
    listNamespaces(this.#namespaceSources, ...wanted);

  describeNamespaces: DocumentStore['describeNamespaces'] = (...wanted) =>
    describeNamespaces(this.#namespaceSources, ...wanted);

  readonly clearStep: DocumentStore['clearStep'] = async (scope, after, limit) => {
    const page = await this.#reads.found(
      this.#reads
        .ordered(scope, { prefix: '', after })
        .select('userId', 'namespace', 'key', 'expiresAt')
        .limit(limit),
    );
    const deleted = await deleteAll(this.#firestore, this.#requests, page);
    const isLast = page.length < limit;
    // Documents that were written behind the steps have their agents there.
    const first = this.#reads.ordered(scope, { prefix: '', after: null }).select('key').limit(1);
    if (isLast && (await this.#reads.found(first)).length === 0) await this.#agents.forget(scope);
    return {
      deleted: deleted.filter((snapshot) => this.#reads.isLive(snapshot)).length,
      after: isLast ? null : String(page.at(-1)?.data()?.['key']),
    };
  };

  readonly recordAccess: DocumentStore['recordAccess'] = async (reads) => {
    const seen = new Map<AccessRead, Snapshot | undefined>();
    const snapshots = await this.#reads.named(reads.map(({ scope, key }) => nameOf(scope, key)));
    for (const [index, read] of reads.entries()) seen.set(read, snapshots[index]);
    await recordEach(reads, this.#limits.backendInFlightMax, async (read) => {
      const snapshot = seen.get(read);
      if (snapshot !== undefined)
        await recordAccess(this.#documents, this.#values, this.#requests, read, snapshot);
    });
    for (const { scope, agents } of reads) await this.#agents.seen(scope, agents);
  };

  readonly exportPage: DocumentStore['exportPage'] = async (after, limit) => {
    // A cursor can be forged.
    if (after !== null && !isLegalName(after)) throw invalidCursor();
    const ordered = this.#documents.orderBy('__name__').limit(limit);
    const page = await this.#reads.found(after === null ? ordered : ordered.startAfter(after));
    const documents = page
      .map((snapshot) => snapshot.data() ?? {})
      .filter((fields) => isLiveDocument(fields, this.#nowMs()))
      .map(fromFields);
    return { documents, after: page.length < limit ? null : (page.at(-1)?.ref.id ?? null) };
  };

  readonly heldByOthers: NonNullable<DocumentStore['heldByOthers']> = async (documents) => {
    const found = await this.#reads.named(documents.map((record) => nameOf(scopeOf(record), record.key)));
    return documents.filter((record, index) => {
      const fields = found[index]?.data();
      return fields !== undefined && !isOf(scopeOf(record), fields);
    });
  };

  readonly restore: DocumentStore['restore'] = async (documents) => {
    checkIds(documents);
    for await (const commit of this.#commits.ofDocuments(documents))
      await this.#requests.run(() => commit.commit());
    await this.#agents.seenIn(documents);
  };

  readonly sweepExpired: NonNullable<DocumentStore['sweepExpired']> = async (limit) => {
    const now = expiryOfMs(this.#nowMs());
    const expired = await this.#reads.found(
      this.#documents.where('expiresAt', '<=', now).orderBy('expiresAt').select('expiresAt').limit(limit),
    );
    const swept = await mapInFlight(expired, this.#limits.backendInFlightMax, (snapshot) =>
      deleteUnchanged(this.#requests, snapshot),
    );
    return swept.filter(Boolean).length;
  };

  readonly close: DocumentStore['close'] = async () => {
    try {
      await this.#agents.flush();
    } finally {
      await this.#requests.close();
    }
  };
}
