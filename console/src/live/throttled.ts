/** A number that grows when changes of a kind arrive, at most once in a time. */
import { useEffect, useState } from 'preact/hooks';
import type { ChangeItem } from '../../../src/client/watch/changes.js';
import { useWorld } from './use-world.js';

/** `inputs` are the values that `concerns` depends on. */
export function useThrottledRound(
  concerns: (change: ChangeItem) => boolean,
  everyMs: number,
  inputs: readonly unknown[] = [],
): number {
  const { feed } = useWorld();
  const [round, setRound] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = feed.listen((changes) => {
      if (timer !== undefined || !changes.some(concerns)) return;
      timer = setTimeout(() => {
        timer = undefined;
        setRound((count) => count + 1);
      }, everyMs);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [feed, everyMs, ...inputs]);
  return round;
}
