/** Where the rows of a long list are. */
export interface RowLayout {
  readonly height: number;
  topOf(index: number): number;
  /** The row at this distance from the top; the last one below the end. */
  indexAt(top: number): number;
}

/** Rows of one height, or of a height for each item. */
export function rowLayout<Item>(
  items: readonly Item[],
  rowHeight: number | ((item: Item) => number),
): RowLayout {
  if (typeof rowHeight === 'number')
    return {
      height: items.length * rowHeight,
      topOf: (index) => index * rowHeight,
      indexAt: (top) => Math.min(items.length - 1, Math.floor(top / rowHeight)),
    };
  const tops = [0];
  for (const item of items) tops.push((tops.at(-1) ?? 0) + rowHeight(item));
  return {
    height: tops.at(-1) ?? 0,
    topOf: (index) => tops[index] ?? 0,
    indexAt: (top) => {
      let [low, high] = [0, items.length - 1];
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if ((tops[middle] ?? 0) <= top) low = middle;
        else high = middle - 1;
      }
      return low;
    },
  };
}
