/** The world inside a page: a page is shown only when somebody is signed in. */
import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { useObservable } from '../observable.js';
import type { Records } from './records.js';
import type { World } from './world.js';

export const WorldContext = createContext<World | undefined>(undefined);

export function useWorld(): World {
  const world = useContext(WorldContext);
  if (world === undefined) throw new Error('useWorld was called outside of its provider.');
  return world;
}

/** The records as a list that is replaced with each change. */
export function useRecords<Item>(records: Records<Item>): readonly Item[] {
  const round = useObservable(records.round);
  const [held, setHeld] = useState<{ round: number; items: readonly Item[] }>({ round: -1, items: [] });
  useEffect(() => records.use(), [records]);
  if (held.round === round) return held.items;
  const items = [...records.items.values()];
  setHeld({ round, items });
  return items;
}
