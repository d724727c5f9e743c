/** Adds documents that other programs wrote to the index by key, so that lists show them. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import type { Scope } from '../../datastore/model.js';
import { sizeOf } from '../../datastore/documents/merge-document.js';
import type { Limits } from '../../core/settings/limits.js';
import type { CouchDatabase, CouchDocument } from './database.js';
import { fromCouch, orderKey } from './documents.js';
import { type GuardedWrites, refused } from './guarded-writes.js';
import { foreignIndex } from './indexes.js';

export interface AdoptionOptions {
  database: CouchDatabase;
  writes: GuardedWrites;
  limits: Limits;
}

/** Documents that are read and written together: there may be any number of them, with values of any size. */
const adoptedTogether = 50;

/** Namespaces whose time of the last scan is cached. */
const rememberedMax = 10_000;

export class Adoption {
  readonly #options: AdoptionOptions;
  /**
   * When each namespace was last scanned, by the clock of this process, which is never set back. It saves a
   * query to CouchDB for each list.
   */
  readonly #scannedAtMs = new LRUCache<string, number>(entriesAtMost(rememberedMax));

  constructor(options: AdoptionOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the last scan of the namespace is less than `foreignDocumentsSeconds` old; with `isFresh`,
   * after a new scan.
   */
  async settle(scope: Scope, isFresh: boolean, signal?: Cancellation): Promise<void> {
    const id = `${scope.user}\n${scope.namespace}`;
    const startMs = performance.now();
    const lastMs = this.#scannedAtMs.get(id);
    const intervalMs = this.#options.limits.foreignDocumentsSeconds * 1_000;
    if (!isFresh && lastMs !== undefined && startMs - lastMs < intervalMs) return;
    await this.#scan(scope, signal);
    this.#scannedAtMs.set(id, startMs);
  }

  async #scan(scope: Scope, signal: Cancellation | undefined): Promise<void> {
    const { database, writes } = this.#options;
    for (;;) {
      checkWanted(signal);
      const selector = {
        userId: scope.user,
        namespace: scope.namespace,
        keyHex: { $exists: false },
        key: { $type: 'string' },
      };
      const found = await database.find(
        { selector, limit: adoptedTogether, use_index: foreignIndex.ddoc },
        signal,
      );
      const outcomes = await writes.bulk(found.map(placed));
      const [failure] = outcomes.filter(({ error }) => error !== undefined && error !== 'conflict');
      if (failure !== undefined) throw refused(failure);
      // Documents that changed meanwhile are found by the next scan.
      if (found.length < adoptedTogether || outcomes.every(({ error }) => error !== undefined)) return;
    }
  }
}

/** The document with its entry for our index; its other fields do not change. */
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
