/** A list of any length: only the rows near the visible part are in the page. All rows have the same height. */
import type { ComponentChildren, RefObject } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface VirtualListProps<Item> {
  readonly items: readonly Item[];
  readonly rowHeight: number;
  readonly label: string;
  keyOf(item: Item, index: number): string;
  row(item: Item, index: number): ComponentChildren;
  readonly empty?: ComponentChildren;
  readonly class?: string;
  /** Called when the end comes near. */
  onEnd?(): void;
  onScroll?(top: number): void;
  /** Scrolls to this item once it is there. */
  readonly shown?: string | undefined;
}

const spareRows = 8;

export function VirtualList<Item>(props: VirtualListProps<Item>) {
  const { items, rowHeight, label, keyOf, row, empty, onEnd } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ from: 0, to: 40 });
  const measure = useCallback(() => {
    const element = scroller.current;
    if (element === null) return;
    const from = Math.max(0, Math.floor(element.scrollTop / rowHeight) - spareRows);
    const to = Math.ceil((element.scrollTop + element.clientHeight) / rowHeight) + spareRows;
    setRange((before) => (before.from === from && before.to === to ? before : { from, to }));
  }, [rowHeight]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    measure();
    const resizing = new ResizeObserver(measure);
    resizing.observe(element);
    return () => resizing.disconnect();
  }, [measure]);
  useEffect(() => {
    if (range.to >= items.length - spareRows) onEnd?.();
  }, [range.to, items.length]);
  useShown(scroller, props);
  const last = Math.min(items.length, range.to);
  const first = Math.min(range.from, Math.max(0, last - 1));
  const height: Record<string, string> = { height: `${items.length * rowHeight}px` };
  return (
    <div
      ref={scroller}
      class={`virtual ${props.class ?? ''}`}
      onScroll={() => {
        measure();
        props.onScroll?.(scroller.current?.scrollTop ?? 0);
      }}
      onKeyDown={moveFocus}
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      {items.length === 0 ? (
        empty
      ) : (
        <div class="virtual-space" role="list" style={height}>
          {items.slice(first, last).map((item, at) => (
            <div
              class="virtual-row"
              role="listitem"
              key={keyOf(item, first + at)}
              style={{ transform: `translateY(${(first + at) * rowHeight}px)`, height: `${rowHeight}px` }}
              aria-setsize={items.length}
              aria-posinset={first + at + 1}
            >
              {row(item, first + at)}
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

/** Once, so that a person who scrolls on is not pulled back. */
function useShown<Item>(
  scroller: RefObject<HTMLDivElement | null>,
  { items, shown, keyOf, rowHeight }: VirtualListProps<Item>,
): void {
  const done = useRef<string | undefined>(undefined);
  useEffect(() => {
    if (shown === undefined || done.current === shown) return;
    const at = items.findIndex((item, index) => keyOf(item, index) === shown);
    const element = scroller.current;
    if (at === -1 || element === null) return;
    done.current = shown;
    const top = at * rowHeight;
    if (top < element.scrollTop || top + rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = Math.max(0, top - element.clientHeight / 2);
  }, [shown, items]);
}

/** Arrow keys move between rows. */
function moveFocus(event: KeyboardEvent): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
  const list = event.currentTarget;
  if (step === 0 || !(list instanceof HTMLElement)) return;
  const stops = [...list.querySelectorAll<HTMLElement>('[data-row]')];
  const sorted = stops.toSorted((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  const at = sorted.findIndex((stop) => stop === document.activeElement);
  const next = at === -1 ? sorted[0] : sorted[at + step];
  if (next === undefined) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: 'nearest' });
}
