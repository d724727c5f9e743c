/** The messages of one room, oldest first, kept current by the feed. */
import { useEffect, useState } from 'preact/hooks';
import type { RoomMessage } from '../../../../src/client/index.js';
import { useWorld } from '../../live/use-world.js';
import { type Failure, failureOf } from '../../stoa.js';
import { proofOf } from './authors.js';

export interface ShownMessage {
  readonly message: RoomMessage;
  readonly isVerified: boolean | undefined;
}

const pageItems = 100;
const shownMax = 400;

export function useMessages(room: string, key: string | undefined) {
  const { view, feed } = useWorld();
  const [shown, setShown] = useState<readonly ShownMessage[]>([]);
  const [name, setName] = useState<string | undefined>(undefined);
  const [failure, setFailure] = useState<Failure | undefined>(undefined);
  const [isLoading, setLoading] = useState(true);
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const read = async (): Promise<void> => {
      const { signal } = stop;
      const [page, record] = await Promise.all([
        view.stoa.room(room, key).read({ limit: pageItems, verify: true, signal }),
        view.stoa.rooms.get(room, { signal }),
      ]);
      const found = await Promise.all(
        page.items.toReversed().map(async (message) => ({ message, isVerified: await proofOf(message) })),
      );
      // Times are written alike, so their texts are in the order of the times.
      const oldest = found[0]?.message.ts ?? '';
      setName(record.name);
      // Older messages that were read before stay.
      setShown((before) =>
        [...before.filter(({ message }) => message.ts < oldest), ...found].slice(-shownMax),
      );
      setFailure(undefined);
    };
    read()
      .catch((error: unknown) => stop.signal.aborted || setFailure(failureOf(error)))
      .finally(() => setLoading(false));
    return () => stop.abort();
  }, [view, room, key, round]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stopListening = feed.listen((changes) => {
      const isHere = changes.some(({ domain, facts }) => domain === 'messaging' && facts?.['room'] === room);
      if (isHere)
        timer ??= setTimeout(() => {
          timer = undefined;
          setRound((count) => count + 1);
        }, 100);
    });
    return () => {
      clearTimeout(timer);
      stopListening();
    };
  }, [feed, room]);
  return { shown, name, failure, isLoading, reload: () => setRound((count) => count + 1) };
}
