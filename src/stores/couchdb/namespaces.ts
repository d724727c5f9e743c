/** Namespaces on CouchDB: their names, their totals, and the agents that worked in them. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import { StoaError } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import type { NamespaceSummary, Scope } from '../../datastore/model.js';
import type { AgentsStore } from '../namespace-agents.js';
import type { StoreOptions } from '../options.js';
import { chunksOf } from '../in-flight.js';
import { contended } from '../retries.js';
import type { CouchDatabase, CouchDocument } from './database.js';
import { seedIndex } from './indexes.js';
import { NamespaceView } from './namespace-view.js';
import { isUnanswered } from './transport.js';

/** Namespaces whose index is known to exist. */
const rememberedMax = 10_000;

export class CouchNamespaces implements AgentsStore {
  readonly #database: CouchDatabase;
  /** A separate database: readers of the seed's database find only documents there. */
  readonly #namespaces: CouchDatabase;
  readonly #view: NamespaceView;
  readonly #limits: Limits;
  readonly #nowMs: () => number;
  /**
   * Namespaces written to by this process, for which the seed's index was ensured. It saves two round trips
   * to CouchDB for each write.
   */
  readonly #ensured = new LRUCache<string, true>(entriesAtMost(rememberedMax));
  /** The design document of the seed's index; CouchDB names it when the index is made. */
  #seedDesign: string | undefined;

  constructor(database: CouchDatabase, { limits, nowMs }: StoreOptions) {
    this.#database = database;
    this.#namespaces = database.beside('_namespaces');
    this.#view = new NamespaceView(database, limits);
    this.#limits = limits;
    this.#nowMs = nowMs;
  }

  /** Creates the database of namespaces, the seed's index and the view, where they are missing. */
  async prepare(): Promise<void> {
    await this.#namespaces.create();
    this.#seedDesign = await this.#database.createIndex(seedIndex);
    await this.#view.prepare();
    const served = await this.#database.explain(this.#nameQuery('user', null));
    if (served !== undefined && served !== seedIndex.name) {
      throw new StoaError(
        'damaged_data',
        `CouchDB uses the index "${served}" to list namespaces. Expected ${seedIndex.name}.`,
        { fix: `Check the indexes of the database ${this.#database.name}.` },
      );
    }
  }

  async list(
    user: string,
    after: string | null,
    limit: number,
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    const names = new Set<string>();
    // One request for each namespace. CouchDB sorts differently from Stoa, so all names are read before
    // sorting.
    for (let last: string | null = null; ;) {
      checkWanted(signal);
      const [next] = await this.#database.find(this.#nameQuery(user, last), signal);
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
      summaries.push(...(await this.summaries(user, page, signal)));
      if (summaries.length >= limit) break;
    }
    return summaries.slice(0, limit);
  }

  /** Of the namespaces that have documents. The agents include those whose documents are gone. */
  async summaries(
    user: string,
    names: readonly string[],
    signal?: Cancellation,
  ): Promise<NamespaceSummary[]> {
    const totals = await this.#view.totals(user, names, this.#nowMs(), signal);
    const found = [...totals.keys()];
    const kept = await this.#namespaces.getAll(found.map((namespace) => namespaceId({ user, namespace })));
    return [...totals].map(([namespace, { agents, ...total }], index) => ({
      namespace,
      ...total,
      agents: [...new Set([...agents, ...agentsIn(kept[index])])].toSorted(compareCodePoints),
    }));
  }

  /** The seed ensures its index again on the first write to each namespace. */
  async ensureIndexed(scope: Scope): Promise<void> {
    const id = `${scope.user}\n${scope.namespace}`;
    if (this.#ensured.get(id) === true) return;
    this.#seedDesign = await this.#database.createIndex(seedIndex);
    await this.#keepNamespace(scope);
    this.#ensured.set(id, true);
  }

  readonly add: AgentsStore['add'] = (scope, agents) =>
    this.#changeAgents(scope, (kept) => [...new Set([...kept, ...agents])]);

  readonly remove: AgentsStore['remove'] = (scope) => this.#changeAgents(scope, () => []);

  #nameQuery(user: string, after: string | null): Parameters<CouchDatabase['find']>[0] {
    return {
      selector: { userId: user, namespace: { $gt: after } },
      sort: [{ userId: 'asc' }, { namespace: 'asc' }],
      fields: ['userId', 'namespace'],
      limit: 1,
      ...(this.#seedDesign !== undefined && { use_index: this.#seedDesign }),
    };
  }

  async #keptNamespaces(user: string): Promise<string[]> {
    const owner = namespaceId({ user, namespace: '' });
    const ids = await this.#namespaces.idsBetween(owner, `${owner.slice(0, -1)};`);
    return ids.map((id) => Buffer.from(id.slice(owner.length), 'base64url').toString());
  }

  /** The name stays when the namespace is cleared. A list checks whether it has documents. */
  async #keepNamespace(scope: Scope): Promise<void> {
    if ((await this.#namespaces.get(namespaceId(scope))) !== undefined) return;
    // Another process may store it at the same moment, with the same result.
    await this.#namespaces.bulk([
      { _id: namespaceId(scope), userId: scope.user, namespace: scope.namespace, agents: [] },
    ]);
  }

  async #changeAgents(scope: Scope, change: (kept: readonly string[]) => string[]): Promise<void> {
    for (let attempts = 1; ; attempts += 1) {
      const document = await this.#namespaces.get(namespaceId(scope));
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
        const [outcome] = await this.#namespaces.bulk([next]);
        if (outcome?.error === undefined) return;
      } catch (error) {
        // If the outcome is unknown, the change is made again later: making it twice has the same result.
        if (!isUnanswered(error) || attempts >= this.#limits.backendAttemptsMax) throw error;
      }
      if (attempts >= this.#limits.updateAttemptsMax) throw contended(scope.namespace, attempts);
    }
  }
}

function agentsIn(namespace: CouchDocument | undefined): string[] {
  const agents = namespace?.['agents'];
  return Array.isArray(agents) ? agents.map(String) : [];
}

function namespaceId(scope: Scope): string {
  return `${Buffer.from(scope.user).toString('base64url')}:${Buffer.from(scope.namespace).toString('base64url')}`;
}
