/** A list of any length: only the rows near the visible part are in the page. */
import type { ComponentChildren, RefObject } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type RowLayout, rowLayout } from './row-layout.js';

export interface VirtualListProps<Item> {
  readonly items: readonly Item[];
  /** In pixels. A function must stay the same between renders. */
  readonly rowHeight: number | ((item: Item) => number);
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
  const layout = useMemo(() => rowLayout(items, rowHeight), [items, rowHeight]);
  const current = useRef(layout);
  current.current = layout;
  const [range, setRange] = useState({ from: 0, to: 40 });
  const measure = useCallback(() => {
    const element = scroller.current;
    if (element === null) return;
    const from = Math.max(0, current.current.indexAt(element.scrollTop) - spareRows);
    const to = current.current.indexAt(element.scrollTop + element.clientHeight) + 1 + spareRows;
    setRange((before) => (before.from === from && before.to === to ? before : { from, to }));
  }, []);
  useLayoutEffect(measure, [items.length, rowHeight]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return undefined;
    const resizing = new ResizeObserver(measure);
    resizing.observe(element);
    return () => resizing.disconnect();
  }, [measure]);
  useEffect(() => {
    if (range.to >= items.length - spareRows) onEnd?.();
  }, [range.to, items.length]);
  useShown(scroller, layout, props);
  const last = Math.min(items.length, range.to);
  const first = Math.min(range.from, Math.max(0, last - 1));
  const height: Record<string, string> = { height: `${layout.height}px` };
  return (
    <div
      ref={scroller}
      class={`virtual ${props.class ?? ''}`}
      onScroll={() => {
        measure();
        props.onScroll?.(scroller.current?.scrollTop ?? 0);
      }}
      data-list
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
              style={placeOf(layout, first + at)}
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

function placeOf(layout: RowLayout, index: number): Record<string, string> {
  const top = layout.topOf(index);
  return { transform: `translateY(${top}px)`, height: `${layout.topOf(index + 1) - top}px` };
}

/** Once, so that a person who scrolls on is not pulled back. */
function useShown<Item>(
  scroller: RefObject<HTMLDivElement | null>,
  layout: RowLayout,
  { items, shown, keyOf }: VirtualListProps<Item>,
): void {
  const done = useRef<string | undefined>(undefined);
  useEffect(() => {
    if (shown === undefined || done.current === shown) return;
    const at = items.findIndex((item, index) => keyOf(item, index) === shown);
    const element = scroller.current;
    if (at === -1 || element === null) return;
    done.current = shown;
    const top = layout.topOf(at);
    if (top < element.scrollTop || layout.topOf(at + 1) > element.scrollTop + element.clientHeight)
      element.scrollTop = Math.max(0, top - element.clientHeight / 2);
  }, [shown, items]);
}
