/** List cursors: opaque to clients, bound to the list that made them. */
import { StoaError } from '../errors.js';

export function encodeCursor(list: string, position: string): string {
  return Buffer.from(`${list}:${position}`).toString('base64url');
}

/** The position inside a cursor of the same list. */
export function decodeCursor(list: string, cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined;
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  const prefix = `${list}:`;
  if (!text.startsWith(prefix) || text.length === prefix.length) {
    throw new StoaError('invalid_cursor', 'The cursor is not one of this list.', { fix: 'Pass next_cursor of the page before as it is, or none.' });
  }
  return text.slice(prefix.length);
}
