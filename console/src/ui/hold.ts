/** Whether somebody is moving in a list just now: then its rows stay where they are. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

/** A pointer that only lies there does not stop the list from being live. */
const holdMs = 2_500;

export function useHold(): { isHeld: boolean; hold(): void } {
  const [isHeld, setHeld] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const hold = useCallback(() => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setHeld(false), holdMs);
    setHeld(true);
  }, []);
  useEffect(() => () => clearTimeout(timer.current), []);
  return { isHeld, hold };
}
