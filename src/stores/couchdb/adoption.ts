/** Documents that other programs wrote: given their place in the index by key, so that lists show them. */
import { LRUCache } from 'lru-cache';
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import type { Scope } from '../../datastore/model.js';
import { sizeOf } from '../../datastore/documents/merge-document.js';
import type { Limits } from '../../core/settings/limits.js';
import type { CouchClient, CouchDocument } from './client.js';
import { fromCouch, orderKey } from './documents.js';
import { type GuardedWrites, refused } from './guarded-writes.js';
import { foreignIndex } from './indexes.js';

export interface AdoptionOptions {
  client: CouchClient;
  writes: GuardedWrites;
  database: string;
  limits: Limits;
}

/** Documents that are read and written together: there may be any number of them, with values of any size. */
const adoptedTogether = 50;

/** Namespaces of which it is remembered when they were looked through. */
const rememberedMax = 10_000;

export class Adoption {
  readonly #options: AdoptionOptions;
  /**
   * When each namespace was last looked through, by the clock of this process, which is never set back. It
   * saves a query to CouchDB for each list.
   */
  readonly #lookedAtMs = new LRUCache<string, number>({ max: rememberedMax });

  constructor(options: AdoptionOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the namespace was looked through less than `foreignDocumentsSeconds` ago; with `isFresh`,
   * just now.
   */
  async settle(scope: Scope, isFresh: boolean, signal?: Cancellation): Promise<void> {
    const id = `${scope.user}\n${scope.namespace}`;
    const startMs = performance.now();
    const lastMs = this.#lookedAtMs.get(id);
    const intervalMs = this.#options.limits.foreignDocumentsSeconds * 1_000;
    if (!isFresh && lastMs !== undefined && startMs - lastMs < intervalMs) return;
    await this.#look(scope, signal);
    this.#lookedAtMs.set(id, startMs);
  }

  async #look(scope: Scope, signal: Cancellation | undefined): Promise<void> {
    const { client, writes, database } = this.#options;
    for (;;) {
      checkWanted(signal);
      const selector = {
        userId: scope.user,
        namespace: scope.namespace,
        keyHex: { $exists: false },
        key: { $type: 'string' },
      };
      const found = await client.find(
        database,
        { selector, limit: adoptedTogether, use_index: foreignIndex.ddoc },
        signal,
      );
      const outcomes = await writes.bulk(found.map(placed));
      const [failure] = outcomes.filter(({ error }) => error !== undefined && error !== 'conflict');
      if (failure !== undefined) throw refused(failure);
      // Those that changed meanwhile are found by the next look.
      if (found.length < adoptedTogether || outcomes.every(({ error }) => error !== undefined)) return;
    }
  }
}

/** The document with its place in our index; nothing else of it changes. */
function placed(document: CouchDocument): CouchDocument {
  return {
    ...document,
    keyHex: orderKey(String(document['key'])),
    sizeBytes: sizeOf(fromCouch(document)),
    indexedAt: document['updatedAt'],
    valueText: undefined,
    metadataText: undefined,
  };
}
