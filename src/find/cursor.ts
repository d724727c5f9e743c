/**
 * The cursor of a search: the last result, and the numbers that its score came from. Later pages use the same
 * numbers, so their scores continue where the first page ended, whatever was written in between.
 */
import { decodeCursor, encodeCursor, invalidCursor } from '../core/paging.js';
import { type FindKind, findKinds } from './model.js';
import type { Statistics } from './ranking/formula.js';
import type { RankedPlace } from './ranking/order.js';

/** Where the next page of a search for words begins. */
export interface WordsPosition {
  readonly asOfMs: number;
  readonly statistics: Statistics;
  readonly after: RankedPlace;
}

/** Where the next page of a search without words begins: after this document. */
export interface DocumentPosition {
  readonly namespace: string;
  readonly key: string;
  /** With `sort`: the member by which the document was sorted. */
  readonly member: string | number | boolean | null;
}

export function encodeWordsPosition(list: string, { asOfMs, statistics, after }: WordsPosition): string {
  const { entries, titleLength, bodyLength, frequencies } = statistics;
  const { score, timeMs, name } = after;
  return encode(list, [
    asOfMs,
    entries,
    titleLength,
    bodyLength,
    frequencies,
    score,
    timeMs,
    findKinds.indexOf(name.kind),
    name.collection,
    name.id,
  ]);
}

export function decodeWordsPosition(
  list: string,
  cursor: string | undefined,
  groups: number,
): WordsPosition | null {
  const fields = decode(list, cursor);
  if (fields === null) return null;
  const [asOfMs, entries, titleLength, bodyLength, frequencies, score, timeMs, kind, collection, id] = fields;
  if (
    !isNumber(asOfMs) ||
    !isNumber(entries) ||
    !isNumber(titleLength) ||
    !isNumber(bodyLength) ||
    !isNumber(score) ||
    !isFinite(timeMs) ||
    !Array.isArray(frequencies) ||
    frequencies.length !== groups ||
    !frequencies.every(isNumber) ||
    typeof collection !== 'string' ||
    typeof id !== 'string'
  )
    throw invalidCursor();
  const kindName: FindKind | undefined = findKinds[Number(kind)];
  if (kindName === undefined) throw invalidCursor();
  return {
    asOfMs,
    statistics: { entries, titleLength, bodyLength, frequencies },
    after: { score, timeMs, name: { kind: kindName, collection, id } },
  };
}

export function encodeDocumentPosition(list: string, position: DocumentPosition): string {
  return encode(list, [position.namespace, position.key, position.member]);
}

export function decodeDocumentPosition(list: string, cursor: string | undefined): DocumentPosition | null {
  const fields = decode(list, cursor);
  if (fields === null) return null;
  const [namespace, key, member] = fields;
  const isMember = member === null || ['string', 'boolean', 'number'].includes(typeof member);
  if (typeof namespace !== 'string' || typeof key !== 'string' || !isMember) throw invalidCursor();
  return { namespace, key, member: member as DocumentPosition['member'] }; // Its type was checked above.
}

function encode(list: string, fields: readonly unknown[]): string {
  return encodeCursor(list, Buffer.from(JSON.stringify(fields)));
}

function decode(list: string, cursor: string | undefined): unknown[] | null {
  const bytes = decodeCursor(list, cursor);
  if (bytes === null) return null;
  try {
    const fields: unknown = JSON.parse(bytes.toString());
    if (Array.isArray(fields)) return fields;
  } catch (error) {
    throw invalidCursor(error);
  }
  throw invalidCursor();
}

function isNumber(value: unknown): value is number {
  return isFinite(value) && value >= 0;
}

/** Times before 1970 are negative. */
function isFinite(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
