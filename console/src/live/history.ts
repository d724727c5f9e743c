/** Stored changes, read backwards through the feed in windows. */
import type { Stoa } from '../../../src/client/index.js';
import type { ChangeItem, ChangesFilter } from '../../../src/client/watch/changes.js';

export interface History {
  /** Oldest first. */
  readonly items: readonly ChangeItem[];
  /** False if the reading ended before the oldest stored change. */
  readonly isComplete: boolean;
}

const firstWindowCommits = 2_000;
/** The server reads every commit of a window for one answer. */
const windowCommitsMax = 16_000;
const pageItems = 1_000;
const requestsMax = 40;
/** A person does not wait longer for what happened long ago. */
const historyMsMax = 12_000;

/**
 * The newest window first, each twice as long as the one before. The one with the oldest stored change is complete.
 * `until` is the position where they begin.
 */
export async function* windowsBack(
  stoa: Stoa,
  filter: ChangesFilter,
  signal: AbortSignal,
  until?: string,
): AsyncGenerator<History> {
  let end = until;
  let commits = firstWindowCommits;
  for (let requests = 0; requests < requestsMax;) {
    let page = await stoa.changes.read({ ...filter, back: commits, until: end, limit: pageItems, signal });
    const { since } = page;
    requests += 1;
    const items = [...page.items];
    while (page.next_cursor !== null && requests < requestsMax) {
      page = await stoa.changes.read({
        ...filter,
        since: page.next_cursor,
        until: end,
        limit: pageItems,
        signal,
      });
      requests += 1;
      items.push(...page.items);
    }
    const isComplete = since === null || since === end;
    yield { items, isComplete };
    if (isComplete) return;
    end = since;
    commits = Math.min(windowCommitsMax, commits * 2);
  }
}

/** Ends at `sinceMs`, at the oldest stored change, or after a number of requests or seconds. */
export async function historyOf(
  stoa: Stoa,
  filter: ChangesFilter,
  signal: AbortSignal,
  sinceMs = 0,
): Promise<History> {
  const endMs = Date.now() + historyMsMax;
  let found: ChangeItem[] = [];
  for await (const { items, isComplete } of windowsBack(stoa, filter, signal)) {
    found = [...items, ...found];
    const oldest = items[0];
    if (isComplete || (oldest !== undefined && Date.parse(oldest.at) < sinceMs))
      return { items: found.filter(({ at }) => Date.parse(at) >= sinceMs), isComplete: true };
    if (Date.now() > endMs) break;
  }
  return { items: found, isComplete: false };
}
