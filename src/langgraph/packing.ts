/** Serialized values as documents: text stays readable, and a value that is too long is split into pieces. */
import { fromBase64, toBase64 } from '../client/transport/base64.js';

/** The first piece of a value, or all of it. Each further piece is another document. */
export interface Packed {
  type: string;
  /** UTF-8 text, or base64 if the bytes are not text. */
  data: string;
  isBinary?: true;
  /** The number of pieces, if more than one. */
  pieces?: number;
}

/** A character has at most six bytes as escaped JSON, so every piece is below the limit of a value. */
const pieceCharactersMax = 160_000;
/** A value that is not longer shares a document with others. */
const shortCharactersMax = 10_000;

/** The value in one piece of any length. */
export function packWhole(type: string, bytes: Uint8Array): Packed {
  const text = textIn(bytes);
  return text === undefined ? { type, data: toBase64(bytes), isBinary: true } : { type, data: text };
}

export function isShort({ data }: Packed): boolean {
  return data.length <= shortCharactersMax;
}

/** What a document that values share may have: below half of the limit of a document, as JSON of any characters. */
export const sharedCharactersMax = 80_000;
/** The names of the members of a shared value, and its place. */
const memberCharacters = 80;

/** The characters of a short value in a document that it shares with others. */
export function sharedCharacters(channel: string, { data }: Packed): number {
  return channel.length + data.length + memberCharacters;
}

/** The documents of one value by key. The first has the key `key`. */
export function split<Value extends Packed>(key: string, packed: Value): Record<string, Value | string> {
  const [first = '', ...rest] = piecesOf(packed.data);
  return {
    [key]: { ...packed, data: first, ...(rest.length > 0 && { pieces: rest.length + 1 }) },
    ...Object.fromEntries(rest.map((piece, index) => [pieceKey(key, index + 1), piece])),
  };
}

/** The keys of the pieces after the first. */
export function furtherKeys(key: string, { pieces = 1 }: Packed): string[] {
  return Array.from({ length: pieces - 1 }, (_, index) => pieceKey(key, index + 1));
}

export function unpack({ data, isBinary }: Packed, further: readonly string[]): Uint8Array {
  const text = [data, ...further].join('');
  return isBinary === true ? fromBase64(text) : new TextEncoder().encode(text);
}

function pieceKey(key: string, index: number): string {
  return `${key}:${String(index).padStart(6, '0')}`;
}

/** Undefined if the bytes are not valid UTF-8. */
function textIn(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length || start === 0;) {
    let end = Math.min(text.length, start + pieceCharactersMax);
    // Half of a surrogate pair is not valid text.
    if (end < text.length && /[\ud800-\udbff]/.test(text.charAt(end - 1))) end -= 1;
    pieces.push(text.slice(start, end));
    if (end === text.length) break;
    start = end;
  }
  return pieces;
}
