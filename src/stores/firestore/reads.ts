/** Reads of documents on Firestore: by name, and by namespace in the order of their keys. */
import { checkWanted } from '../../core/waiting/cancellation.js';
import type { Limits } from '../../core/settings/limits.js';
import { afterPrefix, compareCodePoints } from '../../datastore/documents/code-point-order.js';
import type { DocumentRecord, KeySummary, Scope } from '../../datastore/model.js';
import type { KeyRange } from '../../datastore/port.js';
import { chunksOf, mapInFlight } from '../in-flight.js';
import type { StoreOptions } from '../options.js';
import { keySummaries } from '../summaries.js';
import type { Collection, Firestore, FirestoreRequests, Query, Snapshot } from './client.js';
import { isLiveDocument, isOf } from '../fields.js';
import { fromFields, nameOf, toSummary } from './documents.js';

export const documentsPerRequest = 300;

export class FirestoreReads {
  readonly #firestore: Firestore;
  readonly #documents: Collection;
  readonly #requests: FirestoreRequests;
  readonly #limits: Limits;
  readonly #nowMs: () => number;

  constructor(
    firestore: Firestore,
    documents: Collection,
    requests: FirestoreRequests,
    { limits, nowMs }: StoreOptions,
  ) {
    this.#firestore = firestore;
    this.#documents = documents;
    this.#requests = requests;
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  async getMany(scope: Scope, keys: readonly string[]): Promise<(DocumentRecord | undefined)[]> {
    return (await this.look(scope, keys)).map((snapshot) => this.visible(scope, snapshot));
  }

  visible(scope: Scope, snapshot: Snapshot): DocumentRecord | undefined {
    const fields = snapshot.data();
    return fields !== undefined && isOf(scope, fields) && isLiveDocument(fields, this.#nowMs())
      ? fromFields(fields)
      : undefined;
  }

  isLive(snapshot: Snapshot): boolean {
    return isLiveDocument(snapshot.data() ?? {}, this.#nowMs());
  }

  look(scope: Scope, keys: readonly string[]): Promise<Snapshot[]> {
    return this.named(keys.map((key) => nameOf(scope, key)));
  }

  /** In the order of the names, including missing ones. */
  async named(names: readonly string[]): Promise<Snapshot[]> {
    const chunks = chunksOf(names, documentsPerRequest);
    const pages = await mapInFlight(chunks, this.#limits.backendInFlightMax, (chunk) =>
      this.#requests.run(() => this.#firestore.getAll(...chunk.map((name) => this.#documents.doc(name)))),
    );
    return pages.flat();
  }

  async found(query: Query): Promise<Snapshot[]> {
    return (await this.#requests.run(() => query.get())).docs;
  }

  /** Firestore orders text by its UTF-8 bytes, which is code-point order. */
  ordered(scope: Scope, { prefix, after }: Pick<KeyRange, 'prefix' | 'after'>): Query {
    let query = this.#documents.where('userId', '==', scope.user).where('namespace', '==', scope.namespace);
    const end = afterPrefix(prefix);
    if (prefix !== '') query = query.where('key', '>=', prefix);
    if (end !== null) query = query.where('key', '<', end);
    query = query.orderBy('key');
    return after !== null && compareCodePoints(after, prefix) >= 0 ? query.startAfter(after) : query;
  }

  /** Expired documents are among them. */
  async *pages(
    scope: Scope,
    { prefix, after, limit, signal }: KeyRange,
    fields?: readonly string[],
  ): AsyncGenerator<Snapshot[]> {
    for (let last = after; ;) {
      checkWanted(signal);
      const query = this.ordered(scope, { prefix, after: last }).limit(limit);
      const page = await this.found(fields === undefined ? query : query.select(...fields));
      yield page;
      if (page.length < limit) return;
      last = String(page.at(-1)?.data()?.['key']);
    }
  }

  summaries(scope: Scope, snapshots: readonly Snapshot[]): Promise<KeySummary[]> {
    const entries = snapshots.map((snapshot) => ({
      key: String(snapshot.data()?.['key']),
      summary: toSummary(snapshot.data() ?? {}),
    }));
    return keySummaries(entries, (keys) => this.getMany(scope, keys));
  }
}
