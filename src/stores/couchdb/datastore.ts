/** The data store on CouchDB: revisions guard every write, Mango indexes serve every list. */
import { LRUCache } from 'lru-cache';
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import {
  checkVersion,
  idCollision,
  mergeDocument,
  resultOf,
  sizeOf,
} from '../../datastore/documents/merge-document.js';
import {
  type DocumentRecord,
  type KeySummary,
  type NamespaceSummary,
  type Scope,
  collectionName,
} from '../../datastore/model.js';
import {
  type AccessRead,
  type BatchResult,
  type ClearStep,
  type DataCapabilities,
  type DocumentStore,
  type DocumentWrite,
  type ExportPage,
  type KeyRange,
  PartlyRecorded,
  type WriteBatch,
  type WriteResult,
} from '../../datastore/port.js';
import { documentId } from '../../datastore/documents/document-id.js';
import { expiryOfMs, laterTime } from '../../datastore/documents/times.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { chunksOf } from '../in-flight.js';
import { NamespaceAgents } from '../namespace-agents.js';
import { contended } from '../retries.js';
import { Adoption } from './adoption.js';
import { CouchClient, type CouchDocument } from './client.js';
import {
  couchId,
  fromCouch,
  isDocument,
  isLiveDocument,
  isOf,
  orderKey,
  scopeOf,
  summaryFields,
  summaryOf,
  toCouch,
} from './documents.js';
import { GuardedWrites } from './guarded-writes.js';
import { expiryIndex, foreignIndex, keyIndex, seedIndex } from './indexes.js';
import { NamespaceView } from './namespace-view.js';
import { isUnanswered } from './transport.js';

export interface CouchOptions {
  limits: Limits;
  nowMs: () => number;
  prepare?: boolean;
}

/** `couchdb://user:password@host:5984[/database]`; `couchdbs://` for TLS. */
export async function openCouchDataStore(url: URL, options: CouchOptions): Promise<CouchDataStore> {
  const database = decodeURIComponent(url.pathname.slice(1)) || collectionName;
  const store = new CouchDataStore(new CouchClient(url, options.limits), database, options);
  if (options.prepare !== false) await store.prepare();
  return store;
}

export class CouchDataStore implements DocumentStore {
  readonly capabilities: DataCapabilities = {
    backend: 'couchdb',
    atomicBatches: false,
    changes: 'after-write',
    quotas: false,
    valueBytesMax: null,
    accessFlushMs: 10_000,
    tellsAccessVisible: false,
    sharedIds: true,
  };
  readonly #client: CouchClient;
  readonly #writes: GuardedWrites;
  readonly #view: NamespaceView;
  readonly #database: string;
  /** Beside the documents, so that no reader of the seed's database meets anything but documents. */
  readonly #namespaces: string;
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  readonly #agents: NamespaceAgents;
  /** Namespaces written to by this process, for which the seed's index was ensured. It saves two round trips to CouchDB for each write. */
  readonly #ensured = new LRUCache<string, true>({ max: rememberedMax });
  readonly #adoption: Adoption;
  /** The design document of the seed's index; CouchDB names it when the index is made. */
  #seedDesign: string | undefined;

  constructor(client: CouchClient, database: string, options: CouchOptions) {
    this.#client = client;
    this.#writes = new GuardedWrites(client, database, options.limits);
    this.#view = new NamespaceView(client, database, options.limits);
    this.#adoption = new Adoption({ client, writes: this.#writes, database, limits: options.limits });
    this.#database = database;
    this.#namespaces = `${database}_namespaces`;
    this.#limits = options.limits;
    this.#nowMs = options.nowMs;
    this.#agents = new NamespaceAgents({
      nowMs: options.nowMs,
      knownSeconds: options.limits.knownAgentSeconds,
      store: {
        add: (scope, agents) => this.#changeAgents(scope, (kept) => [...new Set([...kept, ...agents])]),
        remove: (scope) => this.#changeAgents(scope, () => []),
      },
    });
  }

  /** Databases and indexes, made where they are missing. */
  async prepare(): Promise<void> {
    for (const database of [this.#database, this.#namespaces]) await this.#client.createDatabase(database);
    this.#seedDesign = await this.#client.createIndex(this.#database, seedIndex);
    for (const index of [keyIndex, foreignIndex, expiryIndex])
      await this.#client.createIndex(this.#database, index);
    await this.#view.prepare();
    const served = await this.#client.explain(this.#database, this.#namespaceQuery('user', null));
    if (served !== undefined && served !== seedIndex.name) {
      throw new StoaError(
        'damaged_data',
        `CouchDB uses the index "${served}" to list namespaces. Expected ${seedIndex.name}.`,
        { fix: `Check the indexes of the database ${this.#database}.` },
      );
    }
  }

  async get(scope: Scope, key: string): Promise<DocumentRecord | undefined> {
    const document = await this.#client.get(this.#database, couchId(scope, key));
    return document === undefined ? undefined : this.#visible(scope, document);
  }

  async getMany(scope: Scope, keys: readonly string[]): Promise<(DocumentRecord | undefined)[]> {
    const documents = await this.#writes.look(keys.map((key) => couchId(scope, key)));
    return documents.map((document) => (document === undefined ? undefined : this.#visible(scope, document)));
  }

  async write(scope: Scope, batch: WriteBatch): Promise<BatchResult> {
    await this.#ensureIndexed(scope);
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
  }

  async listKeys(scope: Scope, range: KeyRange): Promise<KeySummary[]> {
    const documents = await this.#range(scope, range, summaryFields);
    return this.#keySummaries(scope, documents);
  }

  async listDocuments(scope: Scope, range: KeyRange): Promise<DocumentRecord[]> {
    return (await this.#range(scope, range)).map(fromCouch);
  }

  async listNamespaces(
    user: string,
    after: string | null,
    limit: number,
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    await this.#agents.flush();
    const names = new Set<string>();
    // One request for each namespace. CouchDB sorts differently from Stoa, so all names are read before sorting.
    for (let last: string | null = null; ;) {
      checkWanted(signal);
      const [next] = await this.#client.find(this.#database, this.#namespaceQuery(user, last), signal);
      if (next === undefined) break;
      last = String(next['namespace']);
      if (next['userId'] === user) names.add(last);
    }
    // CouchDB skips names that it considers equal to another. Stoa's own list of namespaces adds those.
    for (const namespace of await this.#keptNamespaces(user)) names.add(namespace);
    const wanted = [...names]
      .toSorted(compareCodePoints)
      .filter((name) => after === null || compareCodePoints(name, after) > 0);
    const summaries: NamespaceSummary[] = [];
    for (const page of chunksOf(wanted, limit)) {
      checkWanted(signal);
      summaries.push(...(await this.#summaries(user, page, signal)));
      if (summaries.length >= limit) break;
    }
    return summaries.slice(0, limit);
  }

  async describeNamespaces(
    user: string,
    names: readonly string[],
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    await this.#agents.flush();
    return this.#summaries(user, names, signal);
  }

  async clearStep(scope: Scope, after: string | null, limit: number): Promise<ClearStep> {
    await this.#adoption.settle(scope, after === null);
    const page = await this.#client.find(
      this.#database,
      this.#rangeQuery(scope, { prefix: '', after, limit }, [
        '_id',
        '_rev',
        'userId',
        'namespace',
        'key',
        'expiresAt',
      ]),
    );
    const own = page.filter((document) => isOf(scope, document));
    const removed = await this.#writes.settle(
      scope,
      own.map((document) => ({ key: String(document['key']) })),
      (_item, document) => {
        const isThere = document !== undefined && isOf(scope, document);
        return isThere
          ? { answer: isLiveDocument(document, this.#nowMs()), document: deleted(document) }
          : { answer: false };
      },
    );
    for (const outcome of removed) if (outcome instanceof Error) throw outcome;
    const isLast = page.length < limit;
    if (isLast) await this.#agents.forget(scope);
    return {
      deleted: removed.filter((outcome) => outcome === true).length,
      after: isLast ? null : String(page.at(-1)?.['key']),
    };
  }

  async recordAccess(reads: readonly AccessRead[]): Promise<void> {
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
  }

  async exportPage(after: string | null, limit: number): Promise<ExportPage> {
    const page = await this.#client.allAfter(this.#database, after, limit);
    const documents = page
      .filter((document) => isDocument(document) && isLiveDocument(document, this.#nowMs()))
      .map(fromCouch);
    return { documents, after: page.length < limit ? null : (page.at(-1)?._id ?? null) };
  }

  async heldByOthers(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]> {
    const found = await this.#writes.look(documents.map((record) => couchId(scopeOf(record), record.key)));
    return documents.filter(
      (record, index) => found[index] !== undefined && !isOf(scopeOf(record), found[index]),
    );
  }

  async restore(documents: readonly DocumentRecord[]): Promise<void> {
    for (const record of documents) await this.#ensureIndexed(scopeOf(record));
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
      await this.#agents.seen(
        scope,
        own.flatMap(({ createdByAgent, lastAccessedByAgent }) => [createdByAgent, lastAccessedByAgent]),
      );
    }
  }

  async sweepExpired(limit: number): Promise<number> {
    const selector = { expiresAt: { $gte: '', $lte: expiryOfMs(this.#nowMs()) } };
    const expired = await this.#client.find(this.#database, {
      selector,
      fields: ['_id', '_rev'],
      limit,
      use_index: expiryIndex.ddoc,
    });
    // A document that was written meanwhile conflicts, and stays.
    return (await this.#writes.bulk(expired.map(deleted))).filter(({ error }) => error === undefined).length;
  }

  async close(): Promise<void> {
    try {
      await this.#agents.flush();
    } finally {
      this.#client.close();
    }
  }

  /** What a write makes of the stored document. */
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

  /** Live documents in code-point order of their keys. */
  async #range(scope: Scope, range: KeyRange, fields?: readonly string[]): Promise<CouchDocument[]> {
    await this.#adoption.settle(scope, false, range.signal);
    const found: CouchDocument[] = [];
    for (let { after } = range; ;) {
      checkWanted(range.signal);
      const page = await this.#client.find(
        this.#database,
        this.#rangeQuery(scope, { ...range, after }, fields),
        range.signal,
      );
      found.push(
        ...page.filter((document) => isOf(scope, document) && isLiveDocument(document, this.#nowMs())),
      );
      if (found.length >= range.limit || page.length < range.limit) return found.slice(0, range.limit);
      after = String(page.at(-1)?.['key']);
    }
  }

  #rangeQuery(
    scope: Scope,
    { prefix, after, limit }: KeyRange,
    fields?: readonly string[],
  ): Parameters<CouchClient['find']>[1] {
    const first = orderKey(prefix);
    const isAfter = after !== null && orderKey(after) >= first;
    return {
      // A key has two digits a byte, so that one digit more is just behind it, and "g" behind every key with
      // the prefix.
      selector: {
        userId: scope.user,
        namespace: scope.namespace,
        keyHex: { $gte: isAfter ? `${orderKey(after)}0` : first, $lt: `${first}g` },
      },
      sort: [{ userId: 'asc' }, { namespace: 'asc' }, { keyHex: 'asc' }],
      limit,
      use_index: keyIndex.ddoc,
      ...(fields !== undefined && { fields }),
    };
  }

  #namespaceQuery(user: string, after: string | null): Parameters<CouchClient['find']>[1] {
    return {
      selector: { userId: user, namespace: { $gt: after } },
      sort: [{ userId: 'asc' }, { namespace: 'asc' }],
      fields: ['userId', 'namespace'],
      limit: 1,
      ...(this.#seedDesign !== undefined && { use_index: this.#seedDesign }),
    };
  }

  /** The seed ensures its index again on the first write to each namespace. */
  async #ensureIndexed(scope: Scope): Promise<void> {
    const id = `${scope.user}\n${scope.namespace}`;
    if (this.#ensured.get(id) === true) return;
    this.#seedDesign = await this.#client.createIndex(this.#database, seedIndex);
    await this.#keepNamespace(scope);
    this.#ensured.set(id, true);
  }

  async #keySummaries(scope: Scope, documents: readonly CouchDocument[]): Promise<KeySummary[]> {
    const unknown = documents
      .filter((document) => summaryOf(document) === undefined)
      .map((document) => String(document['key']));
    const measured = new Map(
      (await this.getMany(scope, unknown)).flatMap((record) =>
        record === undefined ? [] : [[record.key, record] as const],
      ),
    );
    return documents.flatMap((document): KeySummary[] => {
      const summary = summaryOf(document);
      const record = measured.get(String(document['key']));
      if (summary !== undefined) return [summary];
      return record === undefined
        ? []
        : [
            {
              key: record.key,
              version: record.version,
              sizeBytes: sizeOf(record),
              updatedAt: record.updatedAt,
            },
          ];
    });
  }

  /**
   * Of those that have documents: the view adds them up, and the agents are also those whose documents are
   * gone.
   */
  async #summaries(
    user: string,
    names: readonly string[],
    signal: Cancellation | undefined,
  ): Promise<NamespaceSummary[]> {
    const totals = await this.#view.totals(user, names, this.#nowMs(), signal);
    const found = [...totals.keys()];
    const kept = await this.#client.getAll(
      this.#namespaces,
      found.map((namespace) => namespaceId({ user, namespace })),
    );
    return [...totals].map(([namespace, { agents, ...total }], index) => ({
      namespace,
      ...total,
      agents: [...new Set([...agents, ...agentsIn(kept[index])])].toSorted(compareCodePoints),
    }));
  }

  async #keptNamespaces(user: string): Promise<string[]> {
    const owner = namespaceId({ user, namespace: '' });
    const ids = await this.#client.idsBetween(this.#namespaces, owner, `${owner.slice(0, -1)};`);
    return ids.map((id) => Buffer.from(id.slice(owner.length), 'base64url').toString());
  }

  /** The name stays when the namespace is cleared. A list checks what is in it. */
  async #keepNamespace(scope: Scope): Promise<void> {
    if ((await this.#client.get(this.#namespaces, namespaceId(scope))) !== undefined) return;
    // Another process may keep it at the same moment, which is as good.
    await this.#client.bulk(this.#namespaces, [
      { _id: namespaceId(scope), userId: scope.user, namespace: scope.namespace, agents: [] },
    ]);
  }

  async #changeAgents(scope: Scope, change: (kept: readonly string[]) => string[]): Promise<void> {
    for (let attempts = 1; ; attempts += 1) {
      const document = await this.#client.get(this.#namespaces, namespaceId(scope));
      const kept = agentsIn(document);
      const agents = change(kept);
      if (agents.length === kept.length) return;
      const next = {
        _id: namespaceId(scope),
        ...(document?._rev !== undefined && { _rev: document._rev }),
        userId: scope.user,
        namespace: scope.namespace,
        agents,
      };
      try {
        const [outcome] = await this.#client.bulk(this.#namespaces, [next]);
        if (outcome?.error === undefined) return;
      } catch (error) {
        // Whether it happened shows at the next look: the same change twice is the change once.
        if (!isUnanswered(error) || attempts >= this.#limits.backendAttemptsMax) throw error;
      }
      if (attempts >= this.#limits.updateAttemptsMax) throw contended(scope.namespace, attempts);
    }
  }
}

/** Namespaces that are remembered as ensured. */
const rememberedMax = 10_000;

function agentsIn(namespace: CouchDocument | undefined): string[] {
  const agents = namespace?.['agents'];
  return Array.isArray(agents) ? agents.map(String) : [];
}

function namespaceId(scope: Scope): string {
  return `${Buffer.from(scope.user).toString('base64url')}:${Buffer.from(scope.namespace).toString('base64url')}`;
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
