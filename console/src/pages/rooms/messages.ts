/** The messages of one room, oldest first, kept current by the feed. */
import { useEffect, useState } from 'preact/hooks';
import type { RoomMessage } from '../../../../src/client/index.js';
import { useThrottledRound } from '../../live/throttled.js';
import { useWorld } from '../../live/use-world.js';
import { type Failure, failureOf } from '../../stoa.js';
import { proofOf } from './authors.js';
import type { RoomRecord } from './room-list.js';

export interface ShownMessage {
  readonly message: RoomMessage;
  readonly isVerified: boolean;
}

const pageItems = 100;
const shownMax = 2_000;

/** Signatures are checked here, in the browser. */
export function withProofs(messages: readonly RoomMessage[]): Promise<ShownMessage[]> {
  return Promise.all(messages.map(async (message) => ({ message, isVerified: await proofOf(message) })));
}

export function useMessages(room: string, key: string | undefined) {
  const { view } = useWorld();
  const [shown, setShown] = useState<readonly ShownMessage[]>([]);
  /** The address can name the room; changes have its id. */
  const [record, setRecord] = useState<RoomRecord | undefined>(undefined);
  const [failure, setFailure] = useState<Failure | undefined>(undefined);
  const [isLoading, setLoading] = useState(true);
  const [hasEarlier, setHasEarlier] = useState(false);
  const [round, setRound] = useState(0);
  const id = record?.id ?? room;
  const news = useThrottledRound(({ facts }) => facts?.['room'] === id, 100, [id]);
  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    const read = async (): Promise<void> => {
      const [page, found] = await Promise.all([
        view.stoa.room(room, key).read({ limit: pageItems, verify: true, signal }),
        view.stoa.rooms.get(room, { signal }),
      ]);
      const newest = await withProofs(page.items.toReversed());
      // Times are written alike, so their texts are in the order of the times.
      const oldest = newest[0]?.message.ts ?? '';
      setRecord(found);
      // Earlier messages that were read before stay.
      setShown((before) => {
        const earlier = before.filter(({ message }) => message.ts < oldest);
        if (earlier.length === 0) setHasEarlier(page.next_cursor !== null);
        return [...earlier, ...newest].slice(-shownMax);
      });
      setFailure(undefined);
    };
    read()
      .catch((error: unknown) => signal.aborted || setFailure(failureOf(error)))
      .finally(() => signal.aborted || setLoading(false));
    return () => stop.abort();
  }, [view, room, key, round, news]);
  const readEarlier = async (): Promise<void> => {
    try {
      const page = await view.stoa
        .room(room, key)
        .read({ limit: pageItems, before: shown[0]?.message.ts, verify: true });
      const found = await withProofs(page.items.toReversed());
      setHasEarlier(page.next_cursor !== null);
      setShown((before) => [...found, ...before]);
    } catch (error) {
      setFailure(failureOf(error));
    }
  };
  return {
    shown,
    record,
    failure,
    isLoading,
    reload: () => setRound((count) => count + 1),
    /** Undefined if there are none. */
    readEarlier: hasEarlier && shown.length < shownMax ? () => void readEarlier() : undefined,
  };
}
