/** Serialized values as documents: text stays readable, and what is too long for one document is split. */
import { fromBase64, toBase64 } from '../client/base64.js';

/** The first piece of a value, or all of it. Further ones are documents of their own. */
export interface Packed {
  type: string;
  /** Of UTF-8 text, or in base64 where the bytes are none. */
  data: string;
  isBinary?: true;
  /** How many pieces there are, when more than one. */
  pieces?: number;
}

/** Escaped as JSON a character has at most six bytes, so that every piece stays below the limit of a value. */
const pieceCharactersMax = 160_000;

/** The value in one piece, whatever its length. */
export function packWhole(type: string, bytes: Uint8Array): Packed {
  const text = textIn(bytes);
  return text === undefined ? { type, data: toBase64(bytes), isBinary: true } : { type, data: text };
}

/** The documents of one value by key; the first is at `key` itself. */
export function pack(key: string, type: string, bytes: Uint8Array): Record<string, Packed | string> {
  const packed = packWhole(type, bytes);
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

function textIn(bytes: Uint8Array): string | undefined {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  // Bytes that are no text became U+FFFD, which takes three bytes; only true text comes back as it was.
  const again = new TextEncoder().encode(text);
  return again.length === bytes.length && again.every((byte, index) => byte === bytes[index])
    ? text
    : undefined;
}

function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < text.length || start === 0;) {
    let end = Math.min(text.length, start + pieceCharactersMax);
    // Half of a surrogate pair is no text.
    if (end < text.length && /[\ud800-\udbff]/.test(text.charAt(end - 1))) end -= 1;
    pieces.push(text.slice(start, end));
    if (end === text.length) break;
    start = end;
  }
  return pieces;
}
