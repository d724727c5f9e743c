/** Searches without words: a filter on the values of documents, and sorting by a member. */
import { checkWanted } from '../core/waiting/cancellation.js';
import type { Limits } from '../core/settings/limits.js';
import { Slices } from '../core/waiting/yielding.js';
import { compareCodePoints } from '../datastore/documents/code-point-order.js';
import type { DocumentRecord } from '../datastore/model.js';
import type { DocumentReads } from '../datastore/port.js';
import { type DocumentPosition, decodeDocumentPosition, encodeDocumentPosition } from './cursor.js';
import { compareMembers, memberOf } from './filter.js';
import { type FoundRecord, foundDocument } from './records.js';
import type { CheckedRequest, Sort } from './requests.js';

export interface DocumentPage {
  readonly records: readonly FoundRecord[];
  readonly next: string | null;
  /** False: the search stopped at `findDocumentsExaminedMax`. */
  readonly isComplete: boolean;
}

/** Documents that are read together. */
const documentsPerRead = 200;
/** Characters of a text that sorting compares. A cursor holds them. */
const memberCharactersMax = 256;

export class FilteredDocuments {
  readonly #data: DocumentReads;
  readonly #limits: Limits;

  constructor(data: DocumentReads, limits: Limits) {
    this.#data = data;
    this.#limits = limits;
  }

  async page(user: string, checked: CheckedRequest): Promise<DocumentPage> {
    if (checked.sort !== null) {
      const { records, isComplete } = await this.#collect(user, checked, null, this.#limits.findSortedMax);
      const { records: shown, next } = await this.sortedPage(records, { ...checked, filter: null });
      return { records: shown, next, isComplete };
    }
    const position = decodeDocumentPosition(checked.list, checked.cursor);
    const { records, last, isComplete, isEnd } = await this.#collect(user, checked, position, checked.limit);
    const next =
      isEnd || last === null
        ? null
        : encodeDocumentPosition(checked.list, { namespace: last.namespace, key: last.key, member: null });
    return { records, next, isComplete };
  }

  /** One page of the records, after the filter, in the order of a member of their values. */
  async sortedPage(
    records: readonly FoundRecord[],
    { filter, sort, limit, list, cursor }: CheckedRequest,
  ): Promise<{ records: FoundRecord[]; next: string | null }> {
    const slices = new Slices();
    const found: Sorted[] = [];
    for (const record of records) {
      const { document } = record;
      if (document === null) continue;
      const value: unknown = JSON.parse(document.valueJson);
      await slices.pause();
      if (filter !== null && !filter(value)) continue;
      const { namespace, key } = document;
      found.push({ record, namespace, key, member: shortened(memberOf(value, (sort as Sort).member)) });
    }
    const order = orderOf(sort as Sort);
    const position = decodeDocumentPosition(list, cursor);
    const rest = found.filter((one) => position === null || order(one, position) > 0).toSorted(order);
    const shown = rest.slice(0, limit);
    const last = shown.at(-1);
    return {
      records: shown.map(({ record }) => record),
      next: last === undefined || rest.length <= limit ? null : encodeDocumentPosition(list, last),
    };
  }

  /** The documents that pass, in the order of namespaces and keys. */
  async #collect(
    user: string,
    checked: CheckedRequest,
    position: DocumentPosition | null,
    wanted: number,
  ): Promise<{
    records: FoundRecord[];
    last: DocumentRecord | null;
    isComplete: boolean;
    isEnd: boolean;
  }> {
    const slices = new Slices();
    const records: FoundRecord[] = [];
    let last: DocumentRecord | null = null;
    let examined = 0;
    for await (const document of this.#documents(user, checked, position)) {
      // The last document that was looked at, so that the next page begins after it.
      if (records.length === wanted) return { records, last, isComplete: true, isEnd: false };
      if (examined === this.#limits.findDocumentsExaminedMax)
        return { records, last, isComplete: false, isEnd: false };
      examined += 1;
      last = document;
      if (passes(document, checked)) records.push(foundDocument(document));
      await slices.pause();
    }
    return { records, last, isComplete: true, isEnd: true };
  }

  async *#documents(
    user: string,
    { parts, prefix, signal }: CheckedRequest,
    position: DocumentPosition | null,
  ): AsyncGenerator<DocumentRecord> {
    if (parts.data === null) return;
    for await (const namespace of this.#namespaces(user, parts.data.namespaces, position)) {
      let after = position?.namespace === namespace ? position.key : null;
      for (;;) {
        checkWanted(signal);
        const page = await this.#data.listDocuments(
          { user, namespace },
          { prefix: prefix ?? '', after, limit: documentsPerRead, signal },
        );
        yield* page;
        if (page.length < documentsPerRead) break;
        after = (page.at(-1) as DocumentRecord).key;
      }
    }
  }

  async *#namespaces(
    user: string,
    given: readonly string[] | null,
    position: DocumentPosition | null,
  ): AsyncGenerator<string> {
    const from = position?.namespace;
    const isLeft = (name: string): boolean => from === undefined || compareCodePoints(name, from) >= 0;
    if (given !== null) {
      yield* [...given].filter(isLeft).toSorted(compareCodePoints);
      return;
    }
    // The namespace of the position may be gone, so the list begins before it.
    let after: string | null = null;
    for (;;) {
      const page = await this.#data.listNamespaces(user, after, documentsPerRead);
      if (page.length === 0) return;
      for (const { namespace } of page) if (isLeft(namespace)) yield namespace;
      after = page.at(-1)?.namespace ?? null;
    }
  }
}

interface Sorted extends DocumentPosition {
  readonly record: FoundRecord;
}

function passes(
  { valueJson, updatedByAgent, updatedAt }: DocumentRecord,
  { filter, agent, sinceMs, untilMs }: CheckedRequest,
): boolean {
  if (agent !== null && updatedByAgent !== agent) return false;
  const timeMs = Date.parse(updatedAt);
  if (sinceMs !== null && timeMs < sinceMs) return false;
  if (untilMs !== null && timeMs >= untilMs) return false;
  return filter === null || filter(JSON.parse(valueJson));
}

function orderOf({ isDescending }: Sort): (a: DocumentPosition, b: DocumentPosition) => number {
  return (a, b) => {
    const order = compareMembers(a.member, b.member);
    // Documents without the member come last in both directions.
    const turned = isDescending && a.member !== null && b.member !== null ? -order : order;
    return turned || compareCodePoints(a.namespace, b.namespace) || compareCodePoints(a.key, b.key);
  };
}

function shortened(member: unknown): DocumentPosition['member'] {
  if (typeof member === 'string') return member.slice(0, memberCharactersMax);
  return typeof member === 'number' || typeof member === 'boolean' ? member : null;
}
