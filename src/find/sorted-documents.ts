/** Documents in the order of a member of their values. Only their places are kept while they are sorted: values may be large. */
import { compareCodePoints } from '../datastore/documents/code-point-order.js';
import { type DocumentPosition, decodeDocumentPosition, encodeDocumentPosition } from './cursor.js';
import { compareMembers, memberOf } from './filter.js';
import type { EntryName, RankedEntry } from './model.js';
import type { CheckedRequest, Sort } from './requests.js';

/** A document that is to be sorted. */
export interface SortedDocument {
  readonly name: EntryName;
  readonly member: DocumentPosition['member'];
  /** Its place among the results of the words; null without words. */
  readonly entry: RankedEntry | null;
}

/** Characters of a text that sorting compares. A cursor holds them. */
const memberCharactersMax = 256;

export function toSort(
  { namespace, key }: { readonly namespace: string; readonly key: string },
  value: unknown,
  { member }: Sort,
  entry: RankedEntry | null,
): SortedDocument {
  const name = { kind: 'data', collection: namespace, id: key } as const;
  return { name, member: shortened(memberOf(value, member)), entry };
}

/** The documents behind the cursor, in their order. */
export function sortedAfter(
  found: readonly SortedDocument[],
  { list, cursor }: CheckedRequest,
  sort: Sort,
): SortedDocument[] {
  const order = orderOf(sort);
  const position = decodeDocumentPosition(list, cursor);
  return found
    .filter((one) => position === null || order(positionOf(one), position) > 0)
    .toSorted((a, b) => order(positionOf(a), positionOf(b)));
}

export function sortedCursor({ list }: CheckedRequest, last: SortedDocument): string {
  return encodeDocumentPosition(list, positionOf(last));
}

function positionOf({ name, member }: SortedDocument): DocumentPosition {
  return { namespace: name.collection, key: name.id, member };
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
