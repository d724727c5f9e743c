/** Pages of lists: the number of items, and the opaque cursor where the next page begins. */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { StoaError } from './errors.js';
import type { Limits } from './settings/limits.js';

export interface PageRequest {
  limit?: number | undefined;
  cursor?: string | undefined;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

const tagBytes = 4;

/** The requested number of items, lowered to the maximum of a page. */
export function pageLimit(requested: number | undefined, limits: Limits): number {
  return Math.min(Math.max(1, requested ?? limits.pageItemsDefault), limits.pageItemsMax);
}

/** A cursor after `key`. `list` describes the list with its filters. */
export function encodeCursor(list: string, key: Buffer): string {
  return Buffer.concat([tagOf(list), key]).toString('base64url');
}

/**
 * The key in a cursor. Throws `invalid_cursor` for a cursor of another list or a damaged one; with
 * `keyBytes`, also for a key of another length. A client can forge a cursor: each list keeps its own bounds.
 */
export function decodeCursor(list: string, cursor: string | undefined, keyBytes?: number): Buffer | null {
  if (cursor === undefined) return null;
  const bytes = Buffer.from(cursor, 'base64url');
  const isWhole = keyBytes === undefined ? bytes.length > tagBytes : bytes.length === tagBytes + keyBytes;
  if (
    !isWhole ||
    bytes.toString('base64url') !== cursor ||
    !bytes.subarray(0, tagBytes).equals(tagOf(list))
  ) {
    throw invalidCursor();
  }
  return bytes.subarray(tagBytes);
}

/**
 * As `decodeCursor`, for a list whose keys are text of at most `bytesMax` bytes without control characters.
 * Some backends fail on other keys.
 */
export function decodeTextCursor(
  list: string,
  cursor: string | undefined,
  bytesMax = Infinity,
): string | null {
  const key = decodeCursor(list, cursor);
  if (key === null) return null;
  const text = key.toString();
  if (key.length > bytesMax || !isUtf8(key) || /\p{Cc}/u.test(text)) throw invalidCursor();
  return text;
}

export function invalidCursor(cause?: unknown): StoaError {
  return new StoaError('invalid_cursor', 'The cursor does not belong to this list.', {
    fix: 'Send next_cursor from the previous response with the same filters, or leave the cursor out.',
    cause,
  });
}

function tagOf(list: string): Buffer {
  return createHash('sha256').update(list).digest().subarray(0, tagBytes);
}
