/** Pages of the lists of workspaces, with their cursors. */
import { type Page, decodeTextCursor, encodeCursor } from '../core/paging.js';
import type { Limits } from '../core/settings/limits.js';
import type { Listed, NamedListRequest } from './port.js';
import type { WorkspaceListRequest } from './schemas.js';

/** A page of a list; its cursor works for the same list with the same filters only. */
export async function readPage<T>(
  limits: Limits,
  list: string,
  request: WorkspaceListRequest | { limit?: number | undefined; cursor?: string | undefined },
  read: (request: NamedListRequest) => Promise<Listed<T>>,
): Promise<Page<T>> {
  const { limit, cursor, ...filters } = request;
  const tag = `${list} ${JSON.stringify(filters)}`;
  const named = filters as Partial<NamedListRequest>;
  const { items, next } = await read({
    ...named,
    deleted: named.deleted ?? false,
    after: decodeTextCursor(tag, cursor),
    limit: Math.min(limit ?? limits.workspacePageItemsDefault, limits.workspacePageItemsMax),
    bytesMax: limits.workspacePageBytesMax,
  });
  return { items, next_cursor: next === null ? null : encodeCursor(tag, Buffer.from(next, 'utf8')) };
}
