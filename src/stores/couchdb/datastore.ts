/** The data store on CouchDB: revisions guard every write, Mango indexes serve every list. */
import {
  checkVersion,
  idCollision,
  mergeDocument,
  resultOf,
} from '../../datastore/documents/merge-document.js';
import { type DocumentRecord, type Scope } from '../../datastore/model.js';
import {
  type AccessRead,
  type DataCapabilities,
  type DocumentStore,
  type DocumentWrite,
  PartlyRecorded,
  type WriteResult,
} from '../../datastore/port.js';
import { documentId } from '../../datastore/documents/document-id.js';
import { expiryOfMs, laterTime } from '../../datastore/documents/times.js';
import type { Limits } from '../../core/settings/limits.js';
import { storeCapabilities } from '../capabilities.js';
import { NamespaceAgents } from '../namespace-agents.js';
import type { StoreOptions } from '../options.js';
import { scopeOf } from '../owners.js';
import { keySummaries } from '../summaries.js';
import { Adoption } from './adoption.js';
import type { CouchDatabase, CouchDocument } from './database.js';
import { isLiveDocument, isOf } from '../fields.js';
import { couchId, fromCouch, isDocument, summaryFields, summaryOf, toCouch } from './documents.js';
import { GuardedWrites } from './guarded-writes.js';
import { expiryIndex, foreignIndex, keyIndex } from './indexes.js';
import { CouchNamespaces } from './namespaces.js';
import { CouchRanges } from './ranges.js';

export class CouchDataStore implements DocumentStore {
  readonly capabilities: DataCapabilities = {
    ...storeCapabilities,
    backend: 'couchdb',
    atomicBatches: false,
    valueBytesMax: null,
  };
  readonly #database: CouchDatabase;
  readonly #writes: GuardedWrites;
  readonly #ranges: CouchRanges;
  readonly #namespaces: CouchNamespaces;
  readonly #agents: NamespaceAgents;
  readonly #adoption: Adoption;
  readonly #limits: Limits;
  readonly #nowMs: () => number;

  constructor(database: CouchDatabase, options: StoreOptions) {
    this.#database = database;
    this.#limits = options.limits;
    this.#nowMs = options.nowMs;
    this.#writes = new GuardedWrites(database, options.limits);
    this.#adoption = new Adoption({ database, writes: this.#writes, limits: options.limits });
    this.#ranges = new CouchRanges(database, this.#adoption, options.nowMs);
    this.#namespaces = new CouchNamespaces(database, options);
    this.#agents = new NamespaceAgents(this.#namespaces, options);
  }

  /** Creates databases and indexes where they are missing. */
  async prepare(): Promise<void> {
    await this.#database.create();
    for (const index of [keyIndex, foreignIndex, expiryIndex]) await this.#database.createIndex(index);
    await this.#namespaces.prepare();
  }

  readonly get: DocumentStore['get'] = async (scope, key) => {
    const document = await this.#database.get(couchId(scope, key));
    return document === undefined ? undefined : this.#visible(scope, document);
  };

  readonly getMany: DocumentStore['getMany'] = async (scope, keys) => {
    const documents = await this.#writes.look(keys.map((key) => couchId(scope, key)));
    return documents.map((document) => (document === undefined ? undefined : this.#visible(scope, document)));
  };

  readonly write: DocumentStore['write'] = async (scope, batch) => {
    await this.#namespaces.ensureIndexed(scope);
    const sets = await this.#writes.settle(scope, batch.sets, (write, document) =>
      this.#merged(scope, write, document),
    );
    const deletes = await this.#writes.settle(scope, batch.deletes, ({ key, ifVersion }, document) => {
      const current = document === undefined ? undefined : this.#visible(scope, document);
      checkVersion(key, current?.version ?? 0, ifVersion);
      return current === undefined || document === undefined
        ? { answer: false }
        : { answer: true, document: deleted(document) };
    });
    await this.#agents.seen(
      scope,
      batch.sets.map(({ agent }, index) => (sets[index] instanceof Error ? null : agent)),
    );
    return { sets, deletes };
  };

  readonly listKeys: DocumentStore['listKeys'] = async (scope, range) => {
    const documents = await this.#ranges.live(scope, range, summaryFields);
    const entries = documents.map((document) => ({
      key: String(document['key']),
      summary: summaryOf(document),
    }));
    return keySummaries(entries, async (keys) => this.getMany(scope, keys));
  };

  readonly listDocuments: DocumentStore['listDocuments'] = async (scope, range) =>
    (await this.#ranges.live(scope, range)).map(fromCouch);

  readonly listNamespaces: DocumentStore['listNamespaces'] = async (user, after, limit, signal) => {
    await this.#agents.flush();
    return this.#namespaces.list(user, after, limit, signal);
  };

  readonly describeNamespaces: DocumentStore['describeNamespaces'] = async (user, names, signal) => {
    await this.#agents.flush();
    return this.#namespaces.summaries(user, names, signal);
  };

  readonly clearStep: DocumentStore['clearStep'] = async (scope, after, limit) => {
    await this.#adoption.settle(scope, after === null);
    const page = await this.#ranges.page(scope, { prefix: '', after, limit }, [
      '_id',
      '_rev',
      'userId',
      'namespace',
      'key',
      'expiresAt',
    ]);
    const own = page.filter((document) => isOf(scope, document));
    const removed = await this.#writes.settle(
      scope,
      own.map((document) => ({ key: String(document['key']) })),
      (_item, document) => {
        const exists = document !== undefined && isOf(scope, document);
        return exists
          ? { answer: isLiveDocument(document, this.#nowMs()), document: deleted(document) }
          : { answer: false };
      },
    );
    for (const outcome of removed) if (outcome instanceof Error) throw outcome;
    const isLast = page.length < limit;
    // Documents that were written behind the steps have their agents there.
    const isEmpty =
      isLast && (await this.#ranges.page(scope, { prefix: '', after: null, limit: 1 }, ['_id'])).length === 0;
    if (isEmpty) await this.#agents.forget(scope);
    return {
      deleted: removed.filter((outcome) => outcome === true).length,
      after: isLast ? null : String(page.at(-1)?.['key']),
    };
  };

  readonly recordAccess: DocumentStore['recordAccess'] = async (reads) => {
    const scopes = new Map(reads.map(({ scope }) => [`${scope.user}\n${scope.namespace}`, scope]));
    let unrecorded = [...reads];
    for (const scope of scopes.values()) {
      const own = reads.filter(
        (read) => read.scope.user === scope.user && read.scope.namespace === scope.namespace,
      );
      try {
        const outcomes = await this.#writes.settle(
          scope,
          own,
          (read, document) =>
            document === undefined || !isOf(scope, document)
              ? { answer: false }
              : { answer: true, document: counted(document, read) },
          'readsId',
        );
        const recorded = new Set(own.filter((_, index) => !(outcomes[index] instanceof Error)));
        unrecorded = unrecorded.filter((read) => !recorded.has(read));
        for (const outcome of outcomes) if (outcome instanceof Error) throw outcome;
      } catch (error) {
        throw new PartlyRecorded(unrecorded, error);
      }
      await this.#agents.seen(
        scope,
        own.flatMap(({ agents }) => agents),
      );
    }
  };

  readonly exportPage: DocumentStore['exportPage'] = async (after, limit) => {
    const page = await this.#database.allAfter(after, limit);
    const documents = page
      .filter((document) => isDocument(document) && isLiveDocument(document, this.#nowMs()))
      .map(fromCouch);
    return { documents, after: page.length < limit ? null : (page.at(-1)?._id ?? null) };
  };

  readonly heldByOthers: NonNullable<DocumentStore['heldByOthers']> = async (documents) => {
    const found = await this.#writes.look(documents.map((record) => couchId(scopeOf(record), record.key)));
    return documents.filter(
      (record, index) => found[index] !== undefined && !isOf(scopeOf(record), found[index]),
    );
  };

  readonly restore: DocumentStore['restore'] = async (documents) => {
    for (const record of documents) await this.#namespaces.ensureIndexed(scopeOf(record));
    const scopes = new Map(
      documents.map((record) => [`${record.userId}\n${record.namespace}`, scopeOf(record)]),
    );
    for (const scope of scopes.values()) {
      const own = documents.filter(
        (record) => record.userId === scope.user && record.namespace === scope.namespace,
      );
      const outcomes = await this.#writes.settle(scope, own, (record, document) => {
        if (document !== undefined && !isOf(scope, document))
          throw idCollision(documentId(scope.user, scope.namespace, record.key));
        return { answer: true, document: toCouch(record, document) };
      });
      for (const outcome of outcomes) if (outcome instanceof Error) throw outcome;
      await this.#agents.seenIn(own);
    }
  };

  readonly sweepExpired: NonNullable<DocumentStore['sweepExpired']> = async (limit) => {
    const selector = { expiresAt: { $gte: '', $lte: expiryOfMs(this.#nowMs()) } };
    const expired = await this.#database.find({
      selector,
      fields: ['_id', '_rev'],
      limit,
      use_index: expiryIndex.ddoc,
    });
    // A document that was written meanwhile conflicts, and stays.
    return (await this.#writes.bulk(expired.map(deleted))).filter(({ error }) => error === undefined).length;
  };

  readonly close: DocumentStore['close'] = async () => {
    try {
      await this.#agents.flush();
    } finally {
      this.#database.close();
    }
  };

  /** The document after a write. */
  #merged(
    scope: Scope,
    write: DocumentWrite,
    document: CouchDocument | undefined,
  ): { answer: WriteResult; document: CouchDocument } {
    if (document !== undefined && !isOf(scope, document))
      throw idCollision(documentId(scope.user, scope.namespace, write.key));
    const current = document === undefined ? undefined : fromCouch(document);
    const record = mergeDocument(scope, current, write, this.#nowMs(), this.#limits);
    return { answer: resultOf(record), document: toCouch(record, document) };
  }

  #visible(scope: Scope, document: CouchDocument): DocumentRecord | undefined {
    return isOf(scope, document) && isLiveDocument(document, this.#nowMs()) ? fromCouch(document) : undefined;
  }
}

function deleted(document: CouchDocument): CouchDocument {
  return { _id: document._id, ...(document._rev !== undefined && { _rev: document._rev }), _deleted: true };
}

function counted(document: CouchDocument, { count, last }: AccessRead): CouchDocument {
  const record = fromCouch(document);
  const isLater = last !== null && laterTime(last.at, record.lastAccessedAt) === last.at;
  return {
    ...document,
    accessCount: record.accessCount + count,
    ...(isLater && { lastAccessedAt: last.at, lastAccessedByAgent: last.agent }),
  };
}
