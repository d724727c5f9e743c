/**
 * Keys in lists. A list is an element with `data-list`, its rows have `data-row`. Lists side by side are in an element
 * with `data-lists`.
 */

const steps: Readonly<Record<string, number>> = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
const sides: Readonly<Record<string, number>> = { l: 1, ArrowRight: 1, h: -1, ArrowLeft: -1 };
/** Rows of a long list are drawn after it has scrolled. */
const drawnAfterMs = 60;

/** Moves the focus. Returns whether the key meant that. */
export function moveInLists({ key, target }: KeyboardEvent): boolean {
  const inside = target instanceof Element ? target.closest<HTMLElement>('[data-list]') : null;
  // From anywhere on the page the letters go to its list; arrows scroll what has the focus.
  const list = inside ?? (key === 'j' || key === 'k' ? mainList() : null);
  if (list === null) return false;
  const step = steps[key];
  if (step !== undefined) return moveBy(list, step);
  if (inside === null) return false;
  if (key === 'Home' || key === 'End') return moveToEnd(list, key === 'End');
  const side = sides[key];
  return side === undefined ? false : openOrClose(side) || moveAside(list, side);
}

/** The list of records, before the lists that choose what is in it. */
function mainList(): HTMLElement | null {
  const lists = [...document.querySelectorAll<HTMLElement>('#page [data-list]')].filter(
    (list) => list.offsetParent !== null && rowsOf(list).length > 0,
  );
  return lists.find((list) => list.matches('.virtual')) ?? lists[0] ?? null;
}

function rowsOf(list: Element): HTMLElement[] {
  const rows = [...list.querySelectorAll<HTMLElement>('[data-row]')];
  return rows.toSorted((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
}

function focusRow(row: HTMLElement | undefined): boolean {
  if (row === undefined) return false;
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  return true;
}

function moveBy(list: HTMLElement, step: number): boolean {
  const rows = rowsOf(list);
  const at = rows.findIndex((row) => row === document.activeElement);
  if (at !== -1) return focusRow(rows[at + step]) || true;
  const top = list.getBoundingClientRect().top;
  return focusRow(
    rows.find((row) => row.hasAttribute('aria-current')) ??
      rows.find((row) => row.getBoundingClientRect().top >= top),
  );
}

function moveToEnd(list: HTMLElement, isLast: boolean): boolean {
  list.scrollTop = isLast ? list.scrollHeight : 0;
  setTimeout(() => focusRow(rowsOf(list).at(isLast ? -1 : 0)), drawnAfterMs);
  return true;
}

/** A row that opens: right opens it, left closes it. */
function openOrClose(side: number): boolean {
  const row = document.activeElement;
  const isOpen = row?.getAttribute('aria-expanded');
  if (!(row instanceof HTMLElement) || isOpen !== (side === 1 ? 'false' : 'true')) return false;
  row.click();
  return true;
}

/** To the row at the same height in the next list that has rows. */
function moveAside(list: HTMLElement, side: number): boolean {
  const lists = [...(list.closest('[data-lists]')?.querySelectorAll<HTMLElement>('[data-list]') ?? [])];
  const top = (document.activeElement ?? list).getBoundingClientRect().top;
  for (let at = lists.indexOf(list) + side; at >= 0 && at < lists.length; at += side) {
    const rows = rowsOf(lists[at] as HTMLElement);
    const row = rows.findLast((each) => each.getBoundingClientRect().top <= top) ?? rows[0];
    if (focusRow(row)) return true;
  }
  return false;
}
