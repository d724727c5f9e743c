/** The keys of one namespace, read page by page and kept current by the feed. */
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { KeySummary } from '../../../../src/client/index.js';
import { compareCodePoints } from '../../../../src/datastore/documents/code-point-order.js';
import { useWorld } from '../../live/use-world.js';
import { type Failure, failureOf } from '../../stoa.js';

export interface Keys {
  readonly items: readonly KeySummary[];
  readonly isComplete: boolean;
  readonly failure: Failure | undefined;
  readonly isCut: boolean;
  reload(): void;
}

const pageItems = 1_000;
/** Beyond this a prefix narrows the list. */
const keysMax = 50_000;

export function useKeys(namespace: string | undefined, prefix: string): Keys {
  const { view, feed } = useWorld();
  const [byKey, setByKey] = useState<ReadonlyMap<string, KeySummary>>(new Map());
  const [state, setState] = useState<{ isComplete: boolean; failure?: Failure; isCut: boolean }>({
    isComplete: false,
    isCut: false,
  });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (namespace === undefined) return undefined;
    const stop = new AbortController();
    const read = async (): Promise<void> => {
      const found = new Map<string, KeySummary>();
      let cursor: string | undefined;
      do {
        const page = await view.stoa.data(namespace).listKeys({
          prefix: prefix === '' ? undefined : prefix,
          cursor,
          limit: pageItems,
          signal: stop.signal,
        });
        for (const item of page.items) found.set(item.key, item);
        cursor = page.next_cursor ?? undefined;
        if (stop.signal.aborted) return;
        setByKey(new Map(found));
      } while (cursor !== undefined && found.size < keysMax);
      setState({ isComplete: true, isCut: cursor !== undefined });
    };
    setByKey(new Map());
    setState({ isComplete: false, isCut: false });
    read().catch((error: unknown) => {
      if (!stop.signal.aborted) setState({ isComplete: true, isCut: false, failure: failureOf(error) });
    });
    return () => stop.abort();
  }, [view, namespace, prefix, round]);
  useEffect(
    () =>
      feed.listen((changes) => {
        const near = changes.filter(
          ({ domain, user, facts }) =>
            domain === 'data' &&
            facts?.['namespace'] === namespace &&
            (user === null || user === (view.user ?? view.session.user)),
        );
        if (near.length === 0) return;
        if (near.some(({ kind }) => kind === 'namespace.cleared')) return setRound((count) => count + 1);
        setByKey((before) => {
          const after = new Map(before);
          for (const { kind, facts, at, version } of near) {
            const key = facts?.['key'];
            if (typeof key !== 'string' || !key.startsWith(prefix)) continue;
            if (kind === 'document.set')
              after.set(key, {
                key,
                version: version ?? 1,
                sizeBytes: after.get(key)?.sizeBytes ?? 0,
                updatedAt: at,
              });
            else after.delete(key);
          }
          return after;
        });
      }),
    [feed, namespace, prefix, view],
  );
  const items = useMemo(
    () => [...byKey.values()].toSorted((a, b) => compareCodePoints(a.key, b.key)),
    [byKey],
  );
  return {
    items,
    isComplete: state.isComplete,
    failure: state.failure,
    isCut: state.isCut,
    reload: () => setRound((count) => count + 1),
  };
}
