/** Endless pages of a feed, the same on every home. */
import { nextTurn } from '../core/waiting/yielding.js';
import type { FeedPage, FollowOptions } from './port.js';

export interface Followed {
  read(options: FollowOptions & { since: string }): FeedPage | Promise<FeedPage>;
  /** Waits for an accepted commit or the end of the time. Returns the position up to which none was accepted. */
  wait(since: string, timeMs: number, options: FollowOptions): Promise<string>;
  isClosing(): boolean;
}

/**
 * First the stored changes, then new ones. The feed is read when its reader asks, so a slow reader costs no
 * memory. After `idleMs` without a page an empty one follows, so that the position does not become too old.
 */
export async function* pagesAfter(
  start: string | Promise<string>,
  options: FollowOptions,
  feed: Followed,
): AsyncGenerator<FeedPage> {
  let since = await start;
  let quietSinceMs = performance.now();
  const isOver = (): boolean => options.signal.aborted || feed.isClosing();
  while (!isOver()) {
    const reading = feed.read({ ...options, since });
    // A page that is there is used at once: `wait` must begin before the next commit.
    const page = reading instanceof Promise ? await reading : reading;
    since = page.position;
    const idleLeftMs = quietSinceMs + options.idleMs - performance.now();
    if (page.commits.length > 0 || idleLeftMs <= 0) {
      yield page;
      quietSinceMs = performance.now();
    } else if (page.more) {
      await nextTurn();
    } else if (!isOver()) {
      // Nothing would wake a reader that begins to wait after its end, and it may have ended during the read.
      since = await feed.wait(since, idleLeftMs, options);
    }
  }
}
