/** Lists of documents on CouchDB, in the order of their keys. */
import { checkWanted } from '../../core/waiting/cancellation.js';
import type { Scope } from '../../datastore/model.js';
import type { KeyRange } from '../../datastore/port.js';
import type { Adoption } from './adoption.js';
import type { CouchDatabase, CouchDocument } from './database.js';
import { isLiveDocument, isOf } from '../fields.js';
import { orderKey } from './documents.js';
import { keyIndex } from './indexes.js';

export class CouchRanges {
  readonly #database: CouchDatabase;
  readonly #adoption: Adoption;
  readonly #nowMs: () => number;

  constructor(database: CouchDatabase, adoption: Adoption, nowMs: () => number) {
    this.#database = database;
    this.#adoption = adoption;
    this.#nowMs = nowMs;
  }

  /** Live documents in code-point order of their keys. */
  async live(scope: Scope, range: KeyRange, fields?: readonly string[]): Promise<CouchDocument[]> {
    await this.#adoption.settle(scope, false, range.signal);
    const found: CouchDocument[] = [];
    for (let { after } = range; ;) {
      checkWanted(range.signal);
      const page = await this.page(scope, { ...range, after }, fields);
      found.push(
        ...page.filter((document) => isOf(scope, document) && isLiveDocument(document, this.#nowMs())),
      );
      if (found.length >= range.limit || page.length < range.limit) return found.slice(0, range.limit);
      after = String(page.at(-1)?.['key']);
    }
  }

  /**
   * One page of the index. It may contain expired documents, and documents of an owner that CouchDB's
   * collation considers equal.
   */
  page(scope: Scope, range: KeyRange, fields?: readonly string[]): Promise<CouchDocument[]> {
    return this.#database.find(rangeQuery(scope, range, fields), range.signal);
  }
}

function rangeQuery(
  scope: Scope,
  { prefix, after, limit }: KeyRange,
  fields?: readonly string[],
): Parameters<CouchDatabase['find']>[0] {
  const first = orderKey(prefix);
  const isAfter = after !== null && orderKey(after) >= first;
  return {
    // A key has two digits for each byte. So the key with one more digit comes right after it, and with "g"
    // after every key with the prefix.
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
