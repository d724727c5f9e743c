/** Keys as a tree by prefix: a part that ends with "/" or ":" and is shared by several keys is a folder. */
import type { KeySummary } from '../../../../src/client/index.js';

export type TreeRow =
  | {
      readonly kind: 'folder';
      readonly path: string;
      readonly name: string;
      readonly count: number;
      readonly depth: number;
      readonly isOpen: boolean;
    }
  | { readonly kind: 'key'; readonly item: KeySummary; readonly name: string; readonly depth: number };

const ends = /[/:]/;

/** `items` are sorted by key. Closed folders cost only the count of their keys. */
export function treeRows(items: readonly KeySummary[], open: ReadonlySet<string>): TreeRow[] {
  const rows: TreeRow[] = [];
  addRows(items, 0, items.length, '', 0, open, rows);
  return rows;
}

function addRows(
  items: readonly KeySummary[],
  from: number,
  to: number,
  prefix: string,
  depth: number,
  open: ReadonlySet<string>,
  rows: TreeRow[],
): void {
  for (let at = from; at < to;) {
    const item = items[at] as KeySummary;
    const rest = item.key.slice(prefix.length);
    const end = rest.search(ends);
    const path = end === -1 ? '' : prefix + rest.slice(0, end + 1);
    const last = path === '' ? at + 1 : endOf(items, at, to, path);
    if (last - at > 1) {
      const isOpen = open.has(path);
      rows.push({ kind: 'folder', path, name: path.slice(prefix.length), count: last - at, depth, isOpen });
      if (isOpen) addRows(items, at, last, path, depth + 1, open, rows);
    } else rows.push({ kind: 'key', item, name: rest === '' ? '(empty)' : rest, depth });
    at = last;
  }
}

/** The keys with a prefix stand together, so their end is found by halving. */
function endOf(items: readonly KeySummary[], from: number, to: number, path: string): number {
  let [low, high] = [from + 1, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((items[middle] as KeySummary).key.startsWith(path)) low = middle + 1;
    else high = middle;
  }
  return low;
}
