/** Joins a snapshot and the change feed without gaps and repeats. No Node built-ins. */
import { StoaError } from '../../core/errors.js';
import type { ChangePage } from '../../feed/schemas.js';
import type { ChangeItem, ChangesClient, ChangesFilter } from './changes.js';
import { pause } from './follow.js';
import { WatchView, type ItemState } from './view.js';

export type WatchEvent<Item, Change> =
  /** The current items, a page at a time; `live` follows the last page. */
  | { kind: 'snapshot'; items: Item[] }
  /** Everything up to the position has been reported. It is repeated while idle, with a newer position. */
  | { kind: 'live'; position: string }
  /** The changes of one or more complete commits. */
  | { kind: 'changes'; items: Change[]; position: string }
  /** Some changes are no longer available: discard all items. A new snapshot follows. */
  | { kind: 'resync'; detail: string };

export interface WatchSettings {
  /** A position from a watch of the same target: the watch continues from there, without a snapshot. */
  since?: string | undefined;
  signal: AbortSignal;
}

/** A kind of records that can be watched. */
export interface WatchSource<Item, Change> {
  readonly filter: ChangesFilter;
  /** Runs before the first page. */
  prepare?(signal: AbortSignal): Promise<void>;
  /** The current items, with the position of the feed before each page was read. */
  pages(signal: AbortSignal): AsyncIterable<SnapshotPage<Item>>;
  /** The pages list items in code-point order of their ids. */
  readonly ordered?: boolean;
  stateOf(item: Item): ItemState;
  /** The item of a change, by the id from `stateOf`; undefined for a change that is always reported. */
  itemOf(change: ChangeItem): string | undefined;
  /** The change in the format of the watch; undefined if it does not belong to the target. */
  changeOf(change: ChangeItem, position: string): Change | undefined;
  /** Whether the target no longer exists after this change. */
  ends?(change: ChangeItem): boolean;
}

export interface SnapshotPage<Item> {
  items: Item[];
  position: string;
}

const windowPageItems = 1_000;
/** Stores that report changes after the write do so within this time; then the snapshot is discarded. */
const lateChangesMs = 30_000;

/** The rest of a snapshot after everything has been reported. */
interface Reported {
  position: string;
  view: WatchView;
}

export async function* watch<Item, Change>(
  changes: ChangesClient,
  source: WatchSource<Item, Change>,
  { since, signal }: WatchSettings,
): AsyncGenerator<WatchEvent<Item, Change>> {
  let at = since;
  await source.prepare?.(signal);
  while (!signal.aborted) {
    try {
      const reported: Reported | undefined =
        at === undefined ? yield* snapshot(changes, source, signal) : undefined;
      yield* live(changes, source, reported ?? { position: at }, signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof StoaError) || error.code !== 'resync') throw error;
      yield { kind: 'resync', detail: error.message };
      at = undefined;
    }
  }
}

async function* snapshot<Item, Change>(
  changes: ChangesClient,
  source: WatchSource<Item, Change>,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<Item, Change>, Reported> {
  const view = new WatchView((change) => source.itemOf(change), source.ordered === true);
  const positions: string[] = [];
  for await (const { items, position } of source.pages(signal)) {
    view.list(items.map((item) => source.stateOf(item)));
    positions.push(position);
    if (items.length > 0) yield { kind: 'snapshot', items };
  }
  const first = positions[0];
  if (first === undefined)
    throw new StoaError('internal', 'The snapshot has no pages, so its position is unknown.');
  let at = first;
  // Changes while the pages were read: each page misses another part of them. The last part, up to now, is
  // new for all.
  for (let segment = 1; segment <= positions.length; segment += 1) {
    const until = positions[segment];
    for (let more = until !== at; more;) {
      const since: string = at;
      const page: ChangePage = await untilAnswered(
        () => changes.read({ ...source.filter, since, until, limit: windowPageItems, signal }),
        signal,
      );
      const { position } = page;
      const items = page.items
        .flatMap((item) => view.news(item, segment))
        .flatMap((item) => source.changeOf(item, position) ?? []);
      if (items.length > 0) yield { kind: 'changes', items, position };
      at = position;
      more = page.next_cursor !== null;
    }
  }
  yield { kind: 'live', position: at };
  return { position: at, view };
}

/** The reader knows the position only if there was a snapshot. */
async function* live<Item, Change>(
  changes: ChangesClient,
  source: WatchSource<Item, Change>,
  reported: Partial<Reported>,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent<Item, Change>> {
  let { view } = reported;
  let at = view === undefined ? undefined : reported.position;
  const forgetAtMs = performance.now() + lateChangesMs;
  for await (const { items, position } of changes.follow({
    ...source.filter,
    since: reported.position,
    positions: true,
    signal,
  })) {
    if (performance.now() > forgetAtMs || items.some(({ kind }) => kind === 'namespace.cleared'))
      view = undefined;
    const news = items
      .filter((item) => view?.isTold(item) !== true)
      .flatMap((item) => source.changeOf(item, position) ?? []);
    if (news.length > 0) yield { kind: 'changes', items: news, position };
    else if (position !== at) yield { kind: 'live', position };
    at = position;
    if (items.some((item) => source.ends?.(item) === true)) return;
  }
}

/** After a watch has begun, it waits for an unreachable server. */
export async function untilAnswered<Answer>(
  ask: () => Promise<Answer>,
  signal: AbortSignal,
): Promise<Answer> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await ask();
    } catch (error) {
      if (signal.aborted || !(error instanceof StoaError) || error.passes !== 'shortly') throw error;
      await pause(failures, signal);
    }
  }
}
