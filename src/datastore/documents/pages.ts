/** Pages of a namespace: from a cursor to the next, within a number of items and of bytes. */
import type { Cancellation } from '../../core/waiting/cancellation.js';
import type { Limits } from '../../core/settings/limits.js';
import { type Page, type PageRequest, decodeTextCursor, encodeCursor, pageLimit } from '../../core/paging.js';
import type { DocumentRecord, Scope } from '../model.js';
import { checkPrefix } from '../names.js';
import type { DocumentReads, KeyRange, MaybePromise } from '../port.js';

export interface ListOptions extends PageRequest {
  prefix?: string | undefined;
  /** For documents: a page ends after this many bytes of values, if that is below the server's limit. */
  bytesMax?: number | undefined;
  /** Ends a list that takes several requests to a database when the caller disconnects. */
  signal?: Cancellation | undefined;
}

/** A page that is shorter than its limit although the list continues. */
export interface BoundedPage<Item> {
  items: Item[];
  ended: boolean;
}

/** The first step of a page reads at most this many documents of the maximum size. */
const documentsStepMin = 16;

export async function readPage<Item extends { key: string }>(
  scope: Scope,
  kind: string,
  options: ListOptions,
  limits: Limits,
  read: (range: KeyRange) => MaybePromise<Item[] | BoundedPage<Item>>,
): Promise<Page<Item>> {
  const prefix = options.prefix ?? '';
  checkPrefix(prefix, limits);
  const limit = pageLimit(options.limit, limits);
  const list = JSON.stringify(['data', kind, scope.user, scope.namespace, prefix]);
  const after = decodeTextCursor(list, options.cursor, limits.dataKeyBytesMax);
  const answer = await read({ prefix, after, limit, signal: options.signal });
  const { items, ended } = Array.isArray(answer) ? { items: answer, ended: answer.length < limit } : answer;
  const last = ended ? undefined : items.at(-1);
  return { items, next_cursor: last === undefined ? null : encodeCursor(list, Buffer.from(last.key)) };
}

/** Documents are read in steps, so that a page of large ones ends before it is too large. */
export async function readDocuments(
  port: DocumentReads,
  bytesMax: number,
  scope: Scope,
  range: KeyRange,
): Promise<BoundedPage<DocumentRecord>> {
  const items: DocumentRecord[] = [];
  let { after } = range;
  let largest = 1;
  let left = bytesMax;
  for (
    let step = Math.min(range.limit, documentsStepMin);
    ;
    step = Math.min(range.limit - items.length, Math.max(documentsStepMin, Math.floor(left / largest / 2)))
  ) {
    const found = await port.listDocuments(scope, { ...range, after, limit: step });
    for (const [index, document] of found.entries()) {
      items.push(document);
      left -= document.valueJson.length;
      largest = Math.max(largest, document.valueJson.length);
      if (left <= 0 && index < found.length - 1) return { items, ended: false };
    }
    if (found.length < step) return { items, ended: true };
    after = found.at(-1)?.key ?? after;
    if (items.length >= range.limit || left <= 0) return { items, ended: false };
  }
}
