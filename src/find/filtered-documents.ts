/** Searches without words: every document is read, in the order of namespaces and keys. */
import { checkWanted } from '../core/waiting/cancellation.js';
import type { Limits } from '../core/settings/limits.js';
import { Slices } from '../core/waiting/yielding.js';
import { compareCodePoints } from '../datastore/documents/code-point-order.js';
import { readDocuments } from '../datastore/documents/pages.js';
import type { DocumentRecord } from '../datastore/model.js';
import type { DocumentReads } from '../datastore/port.js';
import { type DocumentPosition, decodeDocumentPosition, encodeDocumentPosition } from './cursor.js';
import { type FoundRecord, foundDocument } from './records.js';
import type { CheckedRequest, Sort } from './requests.js';
import { type SortedDocument, toSort } from './sorted-documents.js';

export interface DocumentPage {
  readonly records: readonly FoundRecord[];
  readonly next: string | null;
  /** False: the search stopped at `findDocumentsExaminedMax`. */
  readonly isComplete: boolean;
}

export interface SortedDocuments {
  readonly found: readonly SortedDocument[];
  /** False: the search stopped at `findDocumentsExaminedMax` or `findSortedMax`. */
  readonly isComplete: boolean;
}

/** Documents that are read together, if they are not large. */
const documentsPerRead = 500;
const namespacesPerRead = 200;

export class FilteredDocuments {
  readonly #data: DocumentReads;
  readonly #limits: Limits;

  constructor(data: DocumentReads, limits: Limits) {
    this.#data = data;
    this.#limits = limits;
  }

  /** One page in the order of namespaces and keys. It ends early where its values are too large. */
  async page(user: string, checked: CheckedRequest): Promise<DocumentPage> {
    const { list, cursor, limit } = checked;
    const records: FoundRecord[] = [];
    let bytesLeft = this.#limits.dataPageBytesMax;
    const { last, stopped } = await this.#walk(
      user,
      checked,
      decodeDocumentPosition(list, cursor),
      (document) => {
        records.push(foundDocument(document));
        bytesLeft -= document.valueJson.length;
        return records.length < limit && bytesLeft > 0;
      },
    );
    return {
      records,
      next:
        stopped === null || last === null
          ? null
          : encodeDocumentPosition(list, { namespace: last.namespace, key: last.key, member: null }),
      isComplete: stopped !== 'examined',
    };
  }

  /** Everything that is to be sorted. */
  async sorted(user: string, checked: CheckedRequest, sort: Sort): Promise<SortedDocuments> {
    const found: SortedDocument[] = [];
    const { stopped } = await this.#walk(user, checked, null, (document, value) => {
      found.push(toSort(document, value, sort, null));
      return found.length < this.#limits.findSortedMax;
    });
    return { found, isComplete: stopped === null };
  }

  /** Calls `onFound` for each document that passes, until it returns false. `stopped` is null at the end of all. */
  async #walk(
    user: string,
    checked: CheckedRequest,
    position: DocumentPosition | null,
    onFound: (document: DocumentRecord, value: unknown) => boolean,
  ): Promise<{ last: DocumentRecord | null; stopped: 'full' | 'examined' | null }> {
    const slices = new Slices();
    let last: DocumentRecord | null = null;
    let examined = 0;
    let isFull = false;
    for await (const document of this.#documents(user, checked, position)) {
      // There is another document, so the next page begins after the last one.
      if (isFull) return { last, stopped: 'full' };
      if (examined === this.#limits.findDocumentsExaminedMax) return { last, stopped: 'examined' };
      examined += 1;
      last = document;
      if (isWritten(document, checked)) {
        const value: unknown = JSON.parse(document.valueJson);
        if (checked.filter === null || checked.filter(value)) isFull = !onFound(document, value);
      }
      await slices.pause();
    }
    return { last, stopped: null };
  }

  async *#documents(
    user: string,
    { parts, prefix, signal }: CheckedRequest,
    position: DocumentPosition | null,
  ): AsyncGenerator<DocumentRecord> {
    if (parts.data === null) return;
    for await (const namespace of this.#namespaces(user, parts.data.namespaces, position)) {
      let after = position?.namespace === namespace ? position.key : null;
      for (let isEnd = false; !isEnd;) {
        checkWanted(signal);
        const { items, ended } = await readDocuments(
          this.#data,
          this.#limits.dataPageBytesMax,
          { user, namespace },
          { prefix: prefix ?? '', after, limit: documentsPerRead, signal },
        );
        yield* items;
        after = items.at(-1)?.key ?? after;
        isEnd = ended;
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
      const page = await this.#data.listNamespaces(user, after, namespacesPerRead);
      if (page.length === 0) return;
      for (const { namespace } of page) if (isLeft(namespace)) yield namespace;
      after = page.at(-1)?.namespace ?? null;
    }
  }
}

/** By the agent and between the times of the search. */
function isWritten(
  { updatedByAgent, updatedAt }: DocumentRecord,
  { agent, sinceMs, untilMs }: CheckedRequest,
): boolean {
  if (agent !== null && updatedByAgent !== agent) return false;
  const timeMs = Date.parse(updatedAt);
  return (sinceMs === null || timeMs >= sinceMs) && (untilMs === null || timeMs < untilMs);
}
