/** Stored changes of one thing, read backwards through the feed in windows. */
import type { Stoa } from '../../../src/client/index.js';
import type { ChangeItem, ChangesFilter } from '../../../src/client/watch/changes.js';

export interface History {
  /** Oldest first. */
  readonly items: readonly ChangeItem[];
  /** False if the reading ended before the oldest stored change. */
  readonly isComplete: boolean;
}

const windowCommits = 2_000;
const pageItems = 1_000;
const pagesMax = 40;

/** Ends at `sinceMs`, at the oldest stored change, or after a number of requests. */
export async function historyOf(
  stoa: Stoa,
  filter: ChangesFilter,
  signal: AbortSignal,
  sinceMs = 0,
): Promise<History> {
  const items: ChangeItem[] = [];
  let until: string | undefined;
  for (let requests = 0; requests < pagesMax;) {
    const found: ChangeItem[] = [];
    let page = await stoa.changes.read({ ...filter, back: windowCommits, until, limit: pageItems, signal });
    const { since } = page;
    requests += 1;
    found.push(...page.items);
    while (page.next_cursor !== null && requests < pagesMax) {
      page = await stoa.changes.read({ ...filter, since: page.next_cursor, until, limit: pageItems, signal });
      requests += 1;
      found.push(...page.items);
    }
    items.unshift(...found);
    const oldest = found[0];
    const isOldest =
      since === null || since === until || (oldest !== undefined && Date.parse(oldest.at) < sinceMs);
    if (isOldest) return { items: items.filter(({ at }) => Date.parse(at) >= sinceMs), isComplete: true };
    until = since;
  }
  return { items, isComplete: false };
}
