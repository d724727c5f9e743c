/** What the reader of a snapshot holds while it is made, so that of the changes meanwhile it is told those that it lacks. */
import { compareCodePoints } from '../datastore/code-point-order.js';
import { documentPath } from '../path-segment.js';
import type { ChangeItem } from './changes.js';

export interface ItemState {
  id: string;
  version: number;
  updatedAtMs: number;
}

interface Held {
  /** The page that listed it; -1 for what a change brought. */
  page: number;
  version: number;
  updatedAtMs: number;
}

export class WatchView {
  readonly #held = new Map<string, Held>();
  readonly #itemOf: (change: ChangeItem) => string | undefined;
  readonly #ordered: boolean;
  /** The last id of each page. */
  readonly #ends: (string | undefined)[] = [];

  /** `ordered`: the pages list ids in code-point order, so that it is known where one would have been. */
  constructor(itemOf: (change: ChangeItem) => string | undefined, ordered: boolean) {
    this.#itemOf = itemOf;
    this.#ordered = ordered;
  }

  list(items: readonly ItemState[]): void {
    const page = this.#ends.push(items.at(-1)?.id) - 1;
    for (const { id, version, updatedAtMs } of items) this.#held.set(id, { page, version, updatedAtMs });
  }

  /** What a change tells the reader. The pages from number `segment` on were read after it, and hold it already. */
  news(change: ChangeItem, segment: number): ChangeItem[] {
    if (change.kind === 'namespace.cleared') return this.#cleared(change, segment);
    const id = this.#itemOf(change);
    if (id === undefined) return [change];
    const held = this.#held.get(id);
    if (held === undefined) {
      // What was neither listed nor made since was gone before its page was read.
      if (this.#pageFor(id) >= segment || !makes(change)) return [];
      this.#held.set(id, { page: -1, version: change.version ?? 0, updatedAtMs: change.at });
      return [change];
    }
    if (held.page >= segment || isIn(held, change)) return [];
    if (change.kind.endsWith('.deleted')) this.#held.delete(id);
    else this.#held.set(id, { page: -1, version: 0, updatedAtMs: 0 });
    return [change];
  }

  /** The page that would have listed it; -1 where that is not known. */
  #pageFor(id: string): number {
    if (!this.#ordered) return -1;
    const page = this.#ends.findIndex((end) => end !== undefined && compareCodePoints(id, end) <= 0);
    return page === -1 ? this.#ends.length - 1 : page;
  }

  /** A clear must not take what a later page listed, so that it is told as the deletions that it was for this reader. */
  #cleared(change: ChangeItem, segment: number): ChangeItem[] {
    const { namespace, after, through } = change.facts ?? {};
    const gone = [...this.#held].flatMap(([key, { page }]) => {
      if (page >= segment) return [];
      if (typeof after === 'string' && compareCodePoints(key, after) <= 0) return [];
      return typeof through === 'string' && compareCodePoints(key, through) > 0 ? [] : [key];
    });
    return gone.map((key) => {
      this.#held.delete(key);
      return { ...change, kind: 'document.deleted', id: documentPath(String(namespace), key), facts: { namespace: String(namespace), key } };
    });
  }
}

function makes({ kind }: ChangeItem): boolean {
  return kind === 'document.set' || kind.endsWith('.created') || kind.endsWith('.imported');
}

/**
 * A page may hold a little more than its position says. A change that made the listed version is known
 * by version and time together: versions begin again when a document is made anew, and some changes
 * (a task that became ready) make no new version.
 */
function isIn(held: Held, { version, at }: ChangeItem): boolean {
  return version !== null && ((version === held.version && at === held.updatedAtMs) || (version > 1 && version < held.version));
}
