/** What the reader of a snapshot holds while it is made, so that of the changes meanwhile it is told those that it lacks. */
import { compareCodePoints } from '../datastore/code-point-order.js';
import { documentPath } from '../core/text/path-segment.js';
import type { ChangeItem } from './changes.js';

export interface ItemState {
  id: string;
  version: number;
  updatedAtMs: number;
  /** After this moment it may be made anew, from version 1 on, without a word of its end before. */
  expiresAtMs?: number | undefined;
}

interface Held extends Omit<ItemState, 'id'> {
  /** The page that listed it; -1 for what a change brought. */
  page: number;
}

/** All that comes next is news. */
const followed: Held = { page: -1, version: 0, updatedAtMs: 0 };

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
    for (const { id, ...state } of items) this.#held.set(id, { page, ...state });
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
    else this.#held.set(id, followed);
    return [change];
  }

  /** Whether all pages hold a change that comes after them: where changes follow their writes, some follow late. */
  isTold(change: ChangeItem): boolean {
    const id = this.#itemOf(change);
    const held = id === undefined ? undefined : this.#held.get(id);
    if (id === undefined || held === undefined) return false;
    if (isIn(held, change)) return true;
    this.#held.set(id, followed);
    return false;
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
      return {
        ...change,
        kind: 'document.deleted',
        id: documentPath(String(namespace), key),
        facts: { namespace: String(namespace), key },
      };
    });
  }
}

function makes({ kind }: ChangeItem): boolean {
  return kind === 'document.set' || kind.endsWith('.created') || kind.endsWith('.imported');
}

/** Those that make a new version, always one more than the last. */
const versioned =
  /^(document\.set|agent\.(updated|transitioned)|task\.(updated|claimed|returned|completed|failed|cancelled)|\w+\.created)$/;

/**
 * A page may hold a little more than its position says, and where changes are told right after the
 * write they may be told after the page was read. A change that the listed version holds is known by
 * its version; where that says nothing (an import writes any version, a task that became ready none,
 * an expired document begins anew) by version and time together.
 */
function isIn(held: Held, { kind, version, at, facts }: ChangeItem): boolean {
  if (version === null || kind.endsWith('.deleted')) return false;
  if (version === held.version && at === held.updatedAtMs) return true;
  if (kind.endsWith('.imported') || facts?.['imported'] === true) return false;
  return (
    (versioned.test(kind) ? version <= held.version : version < held.version) &&
    at < (held.expiresAtMs ?? Infinity)
  );
}
