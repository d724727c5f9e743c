/** The feed: every change as it happens. A position is an address. */
import { useEffect, useMemo } from 'preact/hooks';
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import { useObservable } from '../../observable.js';
import { route, setQuery } from '../../router.js';
import { useRoomNames } from '../../live/room-names.js';
import { useWorld } from '../../live/use-world.js';
import { userFlag } from '../../stoa.js';
import { plural } from '../../ui/format.js';
import { Button, Empty, Loading, Problem } from '../../ui/parts.js';
import { VirtualList } from '../../ui/virtual-list.js';
import { useAuthors } from '../rooms/authors.js';
import { ChangeRow } from './change-row.js';
import { useFeed } from './use-feed.js';

const domains = ['data', 'registry', 'workspaces', 'messaging', 'identity', 'locks'] as const;

/** The choice of every change. Without it, new public identities are left out: any agent of any user makes them. */
const everything = 'all';

/** Windows that are read without a person who scrolls. */
const windowsMax = 40;
const screenRows = 40;

export function FeedPage() {
  const { query } = useObservable(route);
  const domain = query.get('domain') ?? '';
  const words = (query.get('filter') ?? '').trim().toLowerCase();
  const position = query.get('position') ?? undefined;
  const at = query.get('at') ?? undefined;
  const feed = useFeed(position);
  const { view, agents, tasks, feed: live } = useWorld();
  const rooms = useRoomNames();
  useObservable(agents.round);
  useObservable(tasks.round);
  useEffect(() => {
    // For the names in the rows.
    agents.use();
    tasks.use();
  }, [agents, tasks]);
  const items = useMemo(
    () =>
      feed.items.filter(
        (change) =>
          String(change.seq) === at ||
          (isChosen(change, domain, words) && (words === '' || textOf(change).includes(words))),
      ),
    [feed.items, domain, words, at],
  );
  const speakers = useAuthors(useMemo(() => identitiesOf(items), [items]));
  const shown = at === undefined ? undefined : items.find(({ seq }) => String(seq) === at);
  const isMissing = at !== undefined && shown === undefined && !feed.isLoading;
  const isAtEnd = feed.windows === null || feed.windows >= windowsMax;
  useEffect(() => {
    // Earlier windows are read until the change of the address is there, and a filter has filled the screen.
    if (!feed.isLoading && !isAtEnd && (isMissing || items.length < screenRows)) feed.readEarlier();
  }, [isMissing, feed.isLoading, feed.windows, items.length]);
  return (
    <section class="main-column" aria-label="Feed">
      <header class="page-head">
        <h1>Feed</h1>
        <p class="muted page-count">{plural(items.length, 'change')}</p>
        <Button kind={feed.isPaused ? 'primary' : 'plain'} onClick={feed.togglePause}>
          {feed.isPaused ? `Go on${feed.heldCount > 0 ? ` (${feed.heldCount} new)` : ''}` : 'Pause'}
        </Button>
        {position === undefined ? null : (
          <Button onClick={() => setQuery({ position: undefined, at: undefined })}>Show the newest</Button>
        )}
        <label class="choice">
          <span class="visually-hidden">Domain</span>
          <select value={domain} onChange={(event) => setQuery({ domain: event.currentTarget.value })}>
            <option value="">No new identities</option>
            <option value={everything}>All domains</option>
            {domains.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <input
          type="search"
          class="filter"
          placeholder="Filter by kind, id, user, agent, key"
          aria-label="Filter changes"
          value={query.get('filter') ?? ''}
          onInput={(event) => setQuery({ filter: event.currentTarget.value })}
        />
      </header>
      <Problem failure={feed.failure} onRetry={() => setQuery({ position: undefined, at: undefined })} />
      {isMissing && isAtEnd ? (
        <p class="hint muted" role="status">
          The change of this link is not among the changes that you can see, or is not stored any more.
        </p>
      ) : null}
      <div class="list-frame">
        <VirtualList<ChangeItem>
          items={items}
          rowHeight={34}
          label="Changes, newest first"
          class="feed"
          keyOf={rowKey}
          shown={shown && rowKey(shown)}
          row={(change) => (
            <ChangeRow
              change={change}
              position={live.positionOf(change.seq) ?? position ?? live.position}
              isShared={String(change.seq) === at}
              rooms={rooms}
              speakers={speakers}
            />
          )}
          onEnd={feed.readEarlier}
          onScroll={feed.onScroll}
          empty={
            feed.isLoading ? (
              <Loading />
            ) : (
              <Empty title="No changes here" command={`stoa data set greeting hello${userFlag(view)}`}>
                Every write of any domain appears here at once.
              </Empty>
            )
          }
        />
      </div>
    </section>
  );
}

/** A filter by words also finds new identities. */
function isChosen({ domain, kind }: ChangeItem, chosen: string, words: string): boolean {
  if (chosen === '') return kind !== 'identity.registered' || words !== '';
  return chosen === everything || domain === chosen;
}

/** Profiles that are read for the names in the newest rows. */
const speakersMax = 24;

function identitiesOf(items: readonly ChangeItem[]): string[] {
  const found = new Set<string>();
  for (const { kind, id, facts } of items) {
    if (found.size >= speakersMax) break;
    if (kind === 'identity.registered') found.add(id);
    else if (kind === 'message.posted' && typeof facts?.['from'] === 'string') found.add(facts['from']);
  }
  return [...found];
}

function rowKey({ seq, kind, id }: ChangeItem): string {
  return `${seq} ${kind} ${id}`;
}

function textOf({ kind, id, user, agent, facts }: ChangeItem): string {
  return `${kind} ${id} ${user ?? ''} ${agent ?? ''} ${Object.values(facts ?? {}).join(' ')}`.toLowerCase();
}
