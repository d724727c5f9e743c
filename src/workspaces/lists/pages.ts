/** Pages of the lists of workspaces, with their cursors. */
import type { Caller } from '../../core/caller.js';
import { type Page, decodeTextCursor, encodeCursor } from '../../core/paging.js';
import type { Limits } from '../../core/settings/limits.js';
import { Places } from '../../core/waiting/places.js';
import type { Listed, NamedListRequest } from '../port.js';
import type { WorkspaceListRequest } from '../schemas.js';

export class Pages {
  readonly #limits: Limits;
  /** Pages that are being read, each of a few megabytes at most. */
  readonly #reading: Places;

  constructor(limits: Limits) {
    this.#limits = limits;
    this.#reading = new Places(limits.pagesAtOnceMax);
  }

  /** A page of a list; its cursor works for the same list with the same filters only. */
  async read<T>(
    { user }: Caller,
    list: string,
    request: WorkspaceListRequest | { limit?: number | undefined; cursor?: string | undefined },
    read: (request: NamedListRequest) => Promise<Listed<T>>,
  ): Promise<Page<T>> {
    const { limit, cursor, ...filters } = request;
    const { workspacePageItemsDefault, workspacePageItemsMax, workspacePageBytesMax } = this.#limits;
    const tag = `${list} ${JSON.stringify(filters)}`;
    const named = filters as Partial<NamedListRequest>;
    const after = decodeTextCursor(tag, cursor);
    const page = {
      ...named,
      deleted: named.deleted ?? false,
      after,
      limit: Math.min(limit ?? workspacePageItemsDefault, workspacePageItemsMax),
      bytesMax: workspacePageBytesMax,
    };
    const { items, next } = await this.#reading.run(() => read(page), user);
    return { items, next_cursor: next === null ? null : encodeCursor(tag, Buffer.from(next, 'utf8')) };
  }
}
