/** Whether the screen is narrow, where rows have two lines. */
import { useEffect, useState } from 'preact/hooks';

const query = globalThis.matchMedia('(max-width: 760px)');

export function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const look = (): void => setNarrow(query.matches);
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, []);
  return isNarrow;
}
