/** The changes of the feed page: the live tail, or the changes up to a position of the address. */
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import { readWindow } from '../../live/history.js';
import { useWorld } from '../../live/use-world.js';
import { useObservable } from '../../observable.js';
import { type Failure, failureOf } from '../../stoa.js';

const shownMax = 20_000;
const windowCommits = 1_000;

export interface Feed {
  /** Newest first. */
  readonly items: readonly ChangeItem[];
  readonly isPaused: boolean;
  readonly heldCount: number;
  readonly isLoading: boolean;
  /** How many windows before the first one were read; null if there is nothing before them. */
  readonly windows: number | null;
  readonly failure: Failure | undefined;
  togglePause(): void;
  readEarlier(): void;
  onScroll(top: number): void;
}

const nothingRead = { earliest: null, windows: 0 };

/** New changes wait while the person has scrolled down or has paused, so that nothing moves. */
export function useFeed(position: string | undefined): Feed {
  const { view, feed } = useWorld();
  const round = useObservable(feed.round);
  const [items, setItems] = useState<readonly ChangeItem[]>([]);
  const [held, setHeld] = useState<readonly ChangeItem[]>([]);
  const [isPaused, setPaused] = useState(false);
  const [failure, setFailure] = useState<Failure | undefined>(undefined);
  const [isLoading, setLoading] = useState(true);
  /** The position before the oldest item; null if there is nothing before it. */
  const [past, setPast] = useState<{ earliest: string | null; windows: number }>(nothingRead);
  const isDown = useRef(false);
  const isReading = useRef(false);

  useEffect(() => {
    setFailure(undefined);
    setHeld([]);
    setItems([]);
    setPast(nothingRead);
    setLoading(true);
    if (position === undefined) return undefined;
    const stop = new AbortController();
    readBack(position, stop.signal)
      .then(({ found, since }) => {
        setPast({ earliest: since, windows: 0 });
        setItems(found.toReversed());
      })
      .catch((error: unknown) => stop.signal.aborted || setFailure(failureOf(error)))
      .finally(() => stop.signal.aborted || setLoading(false));
    return () => stop.abort();
  }, [feed, position]);

  useEffect(() => {
    // The live tail begins with what the feed has already read.
    if (position !== undefined || !isLoading || feed.position === undefined) return;
    setItems(feed.recent.toReversed());
    setPast({ earliest: feed.earliest, windows: 0 });
    setLoading(false);
  }, [feed, position, isLoading, round]);

  useEffect(
    () =>
      feed.listen((changes) => {
        if (position === undefined && isLoading) return;
        const fresh = changes.toReversed();
        const isStill = isPaused || isDown.current || position !== undefined;
        const add = isStill ? setHeld : setItems;
        add((before) => [...fresh, ...before].slice(0, shownMax));
      }),
    [feed, isPaused, isLoading, position],
  );

  const readBack = async (until: string, signal?: AbortSignal) => {
    const { items: found, since } = await readWindow(view.stoa, { back: windowCommits, until, signal });
    return { found, since: since === until ? null : since };
  };

  const showHeld = (): void => {
    if (position !== undefined || held.length === 0) return;
    setItems((before) => [...held, ...before].slice(0, shownMax));
    setHeld([]);
  };

  const readEarlier = async (): Promise<void> => {
    if (isReading.current || past.earliest === null || items.length >= shownMax) return;
    isReading.current = true;
    try {
      const { found, since } = await readBack(past.earliest);
      setPast(({ windows }) => ({ earliest: since, windows: windows + 1 }));
      setItems((before) => [...before, ...found.toReversed()]);
    } catch (error) {
      setFailure(failureOf(error));
    }
    isReading.current = false;
  };

  return {
    items,
    isPaused,
    heldCount: held.length,
    isLoading,
    windows: past.earliest === null || items.length >= shownMax ? null : past.windows,
    failure,
    togglePause: () => {
      if (isPaused) showHeld();
      setPaused(!isPaused);
    },
    readEarlier: () => void readEarlier(),
    onScroll: (top) => {
      isDown.current = top > 4;
      if (!isDown.current && !isPaused) showHeld();
    },
  };
}
