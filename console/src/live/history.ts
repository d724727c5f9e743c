/** Stored changes, read backwards through the feed in windows. */
import type { Stoa } from '../../../src/client/index.js';
import type { ChangeItem, ChangesFilter, ReadChangesSettings } from '../../../src/client/watch/changes.js';

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

interface Window {
  /** Oldest first. */
  readonly items: ChangeItem[];
  /** The position where the window begins; null if nothing is stored before it. */
  readonly since: string | null;
  /** The position where it ends. */
  readonly position: string;
  readonly requests: number;
}

/** Every change of a window, page after page, up to a number of changes or requests. */
export async function readWindow(
  stoa: Stoa,
  { back, ...query }: Omit<ReadChangesSettings, 'since' | 'limit'>,
  { itemsMax = Infinity, requestsMax: requestsLeft = Infinity } = {},
): Promise<Window> {
  let page = await stoa.changes.read({ ...query, back, limit: pageItems });
  const { since } = page;
  const items = [...page.items];
  let requests = 1;
  while (page.next_cursor !== null && items.length < itemsMax && requests < requestsLeft) {
    page = await stoa.changes.read({ ...query, since: page.next_cursor, limit: pageItems });
    requests += 1;
    items.push(...page.items);
  }
  return { items, since, position: page.position, requests };
}

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
    const query = { ...filter, back: commits, until: end, signal };
    const window = await readWindow(stoa, query, { requestsMax: requestsMax - requests });
    const { items, since } = window;
    requests += window.requests;
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
