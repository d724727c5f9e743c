/** The names of rooms by their ids. */
import { useMemo } from 'preact/hooks';
import { useLoaded } from '../load.js';
import { useThrottledRound } from './throttled.js';
import { useWorld } from './use-world.js';

export type RoomNames = ReadonlyMap<string, string>;

const roomsMax = 1_000;

/** If the read fails, ids stand for the names. */
export function useRoomNames(): RoomNames {
  const { view } = useWorld();
  const round = useThrottledRound(({ kind }) => kind === 'room.created' || kind === 'room.updated', 1_000);
  const { value } = useLoaded(
    (signal) => view.stoa.rooms.list({ limit: roomsMax, signal }),
    [view.session.token, view.user],
    round,
  );
  return useMemo(() => new Map((value?.items ?? []).map(({ id, name }) => [id, name])), [value]);
}
