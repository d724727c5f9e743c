/** Namespaces on Firestore: their names, their totals, and the agents that worked in them. */
import type { Cancellation } from '../../core/waiting/cancellation.js';
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import { documentId } from '../../datastore/documents/document-id.js';
import type { NamespaceSummary, Scope } from '../../datastore/model.js';
import type { AgentsStore } from '../namespace-agents.js';
import { type NamespaceReads, addKey, emptySummary } from '../summaries.js';
import type { Collection, FieldValues, FirestorePlace, FirestoreRequests, Reference } from './client.js';
import { summaryFields, toName } from './documents.js';
import type { FirestoreReads } from './reads.js';

export class FirestoreNamespaces implements NamespaceReads, AgentsStore {
  readonly #documents: Collection;
  readonly #namespaces: Collection;
  readonly #values: FieldValues;
  readonly #requests: FirestoreRequests;
  readonly #reads: FirestoreReads;

  constructor(place: FirestorePlace, requests: FirestoreRequests, reads: FirestoreReads) {
    this.#documents = place.firestore.collection(place.collection);
    // A separate collection: readers of the seed's collection find only documents there.
    this.#namespaces = place.firestore.collection(`${place.collection}_namespaces`);
    this.#values = place.values;
    this.#requests = requests;
    this.#reads = reads;
  }

  async next(user: string, after: string | null): Promise<string | undefined> {
    const ordered = this.#documents
      .where('userId', '==', user)
      .orderBy('namespace')
      .select('namespace')
      .limit(1);
    const [next] = await this.#reads.found(after === null ? ordered : ordered.startAfter(after));
    const namespace = next?.data()?.['namespace'];
    return typeof namespace === 'string' ? namespace : undefined;
  }

  /** Adds up the documents without their values. */
  async summarise(scope: Scope, signal?: Cancellation): Promise<NamespaceSummary> {
    const summary = emptySummary(scope);
    const agents = new Set<string>();
    for await (const page of this.#reads.pages(
      scope,
      { prefix: '', after: null, limit: this.#requests.limits.pageItemsMax, signal },
      [...summaryFields, 'createdByAgent', 'lastAccessedByAgent'],
    )) {
      const live = page.filter((snapshot) => this.#reads.isLive(snapshot));
      for (const entry of await this.#reads.summaries(scope, live)) addKey(summary, entry);
      for (const { createdByAgent, lastAccessedByAgent } of live.map((snapshot) => snapshot.data() ?? {})) {
        for (const agent of [createdByAgent, lastAccessedByAgent])
          if (typeof agent === 'string') agents.add(agent);
      }
    }
    const kept = (await this.#requests.run(() => this.#reference(scope).get())).data()?.['agents'];
    for (const agent of Array.isArray(kept) ? kept : []) agents.add(String(agent));
    summary.agents = [...agents].toSorted(compareCodePoints);
    return summary;
  }

  async add(scope: Scope, agents: readonly string[]): Promise<void> {
    const fields = {
      userId: scope.user,
      namespace: scope.namespace,
      agents: this.#values.arrayUnion(...agents),
    };
    await this.#requests.run(() => this.#reference(scope).set(fields, { merge: true }));
  }

  async remove(scope: Scope): Promise<void> {
    await this.#requests.run(() => this.#reference(scope).delete());
  }

  #reference(scope: Scope): Reference {
    return this.#namespaces.doc(toName(documentId(scope.user, scope.namespace, '')));
  }
}
