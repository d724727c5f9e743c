/** The data store in memory, for tests and experiments. Nothing is stored on disk. */
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import {
  checkVersion,
  isLive,
  mergeDocument,
  resultOf,
  sizeOf,
} from '../../datastore/documents/merge-document.js';
import type { DocumentRecord, KeySummary, NamespaceSummary, Scope } from '../../datastore/model.js';
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
import { laterTime } from '../../datastore/documents/times.js';
import type { Limits } from '../../core/settings/limits.js';

interface Namespace {
  readonly scope: Scope;
  readonly documents: Map<string, DocumentRecord>;
  readonly agents: Set<string>;
}

export interface MemoryDataStoreOptions {
  limits: Limits;
  nowMs?: () => number;
}

export class MemoryDataStore implements DocumentStore {
  readonly capabilities: DataCapabilities = {
    backend: 'memory',
    atomicBatches: true,
    changes: 'after-write',
    quotas: false,
    valueBytesMax: null,
    accessFlushMs: 100,
    reportsAccessVisible: false,
    sharedIds: false,
    listsLag: false,
  };
  readonly #namespaces = new Map<string, Namespace>();
  readonly #limits: Limits;
  readonly #nowMs: () => number;

  constructor(options: MemoryDataStoreOptions) {
    this.#limits = options.limits;
    this.#nowMs = options.nowMs ?? Date.now;
  }

  get(scope: Scope, key: string): DocumentRecord | undefined {
    const record = this.#find(scope)?.documents.get(key);
    return record !== undefined && isLive(record, this.#nowMs()) ? record : undefined;
  }

  getMany(scope: Scope, keys: readonly string[]): (DocumentRecord | undefined)[] {
    return keys.map((key) => this.get(scope, key));
  }

  async write(scope: Scope, batch: WriteBatch): Promise<BatchResult> {
    // Everything that can refuse comes before the first change.
    const merged = batch.sets.map((write) => ({
      agent: write.agent,
      record: mergeDocument(scope, this.get(scope, write.key), write, this.#nowMs(), this.#limits),
    }));
    for (const { key, ifVersion } of batch.deletes)
      checkVersion(key, this.get(scope, key)?.version ?? 0, ifVersion);
    for (const { agent, record } of merged) this.#put(record, agent);
    return {
      sets: merged.map(({ record }) => resultOf(record)),
      deletes: batch.deletes.map(({ key }) => this.#delete(scope, key)),
    };
  }

  listKeys(scope: Scope, range: KeyRange): KeySummary[] {
    return this.listDocuments(scope, range).map((record) => ({
      key: record.key,
      version: record.version,
      sizeBytes: sizeOf(record),
      updatedAt: record.updatedAt,
    }));
  }

  listDocuments(scope: Scope, { prefix, after, limit }: KeyRange): DocumentRecord[] {
    return this.#sorted(scope)
      .filter(
        (record) =>
          record.key.startsWith(prefix) && (after === null || compareCodePoints(record.key, after) > 0),
      )
      .slice(0, limit);
  }

  describeNamespaces(user: string, names: readonly string[]): NamespaceSummary[] {
    return this.listNamespaces(user, null, Infinity).filter(({ namespace }) => names.includes(namespace));
  }

  listNamespaces(user: string, after: string | null, limit: number): NamespaceSummary[] {
    return [...this.#namespaces.values()]
      .filter(
        ({ scope, documents }) =>
          scope.user === user &&
          documents.size > 0 &&
          (after === null || compareCodePoints(scope.namespace, after) > 0),
      )
      .toSorted((a, b) => compareCodePoints(a.scope.namespace, b.scope.namespace))
      .slice(0, limit)
      .map(({ scope, documents, agents }) => ({
        namespace: scope.namespace,
        count: documents.size,
        sizeBytes: [...documents.values()].reduce((sum, record) => sum + sizeOf(record), 0),
        agents: [...agents].toSorted(compareCodePoints),
        updatedAt: [...documents.values()]
          .map((record) => record.updatedAt)
          .reduce((a, b) => laterTime(a, b) ?? a),
      }));
  }

  async clearStep(scope: Scope, after: string | null, limit: number): Promise<ClearStep> {
    const keys = this.listDocuments(scope, { prefix: '', after, limit }).map(({ key }) => key);
    for (const key of keys) this.#delete(scope, key);
    const namespace = this.#find(scope);
    if (keys.length < limit && namespace?.documents.size === 0) namespace.agents.clear();
    return { deleted: keys.length, after: keys.length < limit ? null : (keys.at(-1) ?? null) };
  }

  async recordAccess(reads: readonly AccessRead[]): Promise<void> {
    for (const { scope, key, count, last, agents } of reads) {
      const namespace = this.#find(scope);
      const record = namespace?.documents.get(key);
      if (namespace === undefined || record === undefined) continue;
      for (const agent of agents) namespace.agents.add(agent);
      const newer = last !== null && laterTime(last.at, record.lastAccessedAt) === last.at;
      namespace.documents.set(key, {
        ...record,
        accessCount: record.accessCount + count,
        ...(newer && { lastAccessedAt: last.at, lastAccessedByAgent: last.agent }),
      });
    }
  }

  async exportPage(after: string | null, limit: number): Promise<ExportPage> {
    const start = after === null ? 0 : Number(after);
    const all = [...this.#namespaces.values()].flatMap(({ scope }) => this.#sorted(scope));
    const documents = all.slice(start, start + limit);
    return { documents, after: start + limit < all.length ? String(start + limit) : null };
  }

  async restore(documents: readonly DocumentRecord[]): Promise<void> {
    for (const record of documents) this.#put(record, record.createdByAgent);
  }

  async sweepExpired(limit: number): Promise<number> {
    const expired = [...this.#namespaces.values()]
      .flatMap(({ documents }) => [...documents.values()])
      .filter((record) => !isLive(record, this.#nowMs()));
    for (const record of expired.slice(0, limit))
      this.#delete({ user: record.userId, namespace: record.namespace }, record.key);
    return Math.min(expired.length, limit);
  }

  async close(): Promise<void> {
    this.#namespaces.clear();
  }

  #put(record: DocumentRecord, agent: string | null): void {
    const scope = { user: record.userId, namespace: record.namespace };
    let namespace = this.#find(scope);
    if (namespace === undefined) {
      namespace = { scope, documents: new Map(), agents: new Set() };
      this.#namespaces.set(idOf(scope), namespace);
    }
    namespace.documents.set(record.key, record);
    if (agent !== null) namespace.agents.add(agent);
  }

  #delete(scope: Scope, key: string): boolean {
    const wasThere = this.get(scope, key) !== undefined;
    this.#find(scope)?.documents.delete(key);
    return wasThere;
  }

  #sorted(scope: Scope): DocumentRecord[] {
    const documents = this.#find(scope)?.documents.values() ?? [];
    return [...documents]
      .filter((record) => isLive(record, this.#nowMs()))
      .toSorted((a, b) => compareCodePoints(a.key, b.key));
  }

  #find(scope: Scope): Namespace | undefined {
    return this.#namespaces.get(idOf(scope));
  }
}

function idOf(scope: Scope): string {
  return JSON.stringify([scope.user, scope.namespace]);
}
