/**
 * Readers of the change feed: one at each server, which comes back after kill -9, and two that the balancer
 * sends on.
 */
import { Stoa } from '../../src/client/index.js';
import type { SeenChange } from './checker/history.js';
import type { Fleet } from './fleet.js';

export interface Watchers {
  readonly seen: ReadonlyMap<string, readonly SeenChange[]>;
  /** How often a reader lost its connection. */
  lost(): number;
  /** Why a reader gave up; none should. */
  readonly ended: string[];
  stop(): Promise<void>;
}

export function startWatchers(fleet: Fleet, since: string): Watchers {
  const places = [
    ...fleet.serverUrls.map((url, index) => [`server ${index + 1}`, url] as const),
    ['balancer 1', fleet.balancerUrl] as const,
    ['balancer 2', fleet.balancerUrl] as const,
  ];
  const seen = new Map<string, SeenChange[]>(places.map(([name]) => [name, []]));
  const ended: string[] = [];
  const over = new AbortController();
  let lost = 0;
  const onLost = (): void => {
    lost += 1;
  };
  const follow = async (name: string, url: string): Promise<void> => {
    const { changes } = new Stoa({ url, token: fleet.token });
    for await (const { items } of changes.follow({ since, onLost, signal: over.signal }))
      seen.get(name)?.push(...items.map(({ seq, kind, id, version }) => ({ seq, kind, id, version })));
  };
  const running = places.map(([name, url]) =>
    follow(name, url).catch((error: unknown) => {
      if (!over.signal.aborted) ended.push(`Watcher ${name} gave up: ${String(error)}`);
    }),
  );
  return {
    seen,
    lost: () => lost,
    ended,
    stop: async () => {
      over.abort();
      await Promise.all(running);
    },
  };
}
