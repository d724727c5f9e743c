/**
 * Tracks the items of a snapshot while it is read, to report only the changes that the snapshot does not
 * include.
 */
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import { documentPath } from '../../core/text/path-segment.js';
import type { ChangeItem } from './changes.js';

export interface ItemState {
  id: string;
  version: number;
  updatedAtMs: number;
  /** After this time the item may be created again, from version 1, without a report of its end. */
  expiresAtMs?: number | undefined;
}

interface Held extends Omit<ItemState, 'id'> {
  /** The page that listed the item; -1 for an item from a change. */
  page: number;
}

/** All later changes of such an item are new. */
const followed: Held = { page: -1, version: 0, updatedAtMs: 0 };

export class WatchView {
  readonly #held = new Map<string, Held>();
  readonly #itemOf: (change: ChangeItem) => string | undefined;
  readonly #ordered: boolean;
  /** The last id of each page. */
  readonly #ends: (string | undefined)[] = [];

  /** `ordered`: the pages list ids in code-point order, so the page of an unlisted id is known. */
  constructor(itemOf: (change: ChangeItem) => string | undefined, ordered: boolean) {
    this.#itemOf = itemOf;
    this.#ordered = ordered;
  }

  list(items: readonly ItemState[]): void {
    const page = this.#ends.push(items.at(-1)?.id) - 1;
    for (const { id, ...state } of items) this.#held.set(id, { page, ...state });
  }

  /**
   * The changes to report for a change. The pages from number `segment` on were read after it, and include
   * it.
   */
  news(change: ChangeItem, segment: number): ChangeItem[] {
    if (change.kind === 'namespace.cleared') return this.#cleared(change, segment);
    const id = this.#itemOf(change);
    if (id === undefined) return [change];
    const held = this.#held.get(id);
    if (held === undefined) {
      // An item that was neither listed nor created since was deleted before its page was read.
      if (this.#pageFor(id) >= segment || !makes(change)) return [];
      this.#held.set(id, { page: -1, version: change.version ?? 0, updatedAtMs: Date.parse(change.at) });
      return [change];
    }
    if (held.page >= segment || isIn(held, change)) return [];
    if (change.kind.endsWith('.deleted')) this.#held.delete(id);
    else this.#held.set(id, followed);
    return [change];
  }

  /** Whether all pages include a change that comes after them: some stores report changes late. */
  isTold(change: ChangeItem): boolean {
    const id = this.#itemOf(change);
    const held = id === undefined ? undefined : this.#held.get(id);
    if (id === undefined || held === undefined) return false;
    if (isIn(held, change)) return true;
    this.#held.set(id, followed);
    return false;
  }

  /** The page that would have listed the item; -1 if unknown. */
  #pageFor(id: string): number {
    if (!this.#ordered) return -1;
    const page = this.#ends.findIndex((end) => end !== undefined && compareCodePoints(id, end) <= 0);
    return page === -1 ? this.#ends.length - 1 : page;
  }

  /** A clear must not delete items that a later page listed, so it is reported as single deletions. */
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

/** Changes that make a new version, always one more than the last. */
const versioned =
  /^(document\.set|agent\.(updated|transitioned)|task\.(updated|claimed|returned|completed|failed|cancelled)|\w+\.created)$/;

/**
 * A page may include a little more than its position says, and a store that reports changes after the
 * write may report them after the page was read. The version shows whether the listed item includes a
 * change. Where the version is not enough (an import writes any version, a task that became ready has
 * none, an expired document starts at 1 again), version and time together show it.
 */
function isIn(held: Held, { kind, version, at, facts }: ChangeItem): boolean {
  if (version === null || kind.endsWith('.deleted')) return false;
  const atMs = Date.parse(at);
  if (version === held.version && atMs === held.updatedAtMs) return true;
  if (kind.endsWith('.imported') || facts?.['imported'] === true) return false;
  return (
    (versioned.test(kind) ? version <= held.version : version < held.version) &&
    atMs < (held.expiresAtMs ?? Infinity)
  );
}
