/** The feed: every change as it happens. A position is an address. */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ChangeItem } from '../../../../src/client/watch/changes.js';
import { useObservable } from '../../observable.js';
import { href, route, setQuery } from '../../router.js';
import { useWorld } from '../../live/use-world.js';
import { type Failure, failureOf } from '../../stoa.js';
import { plural, shortId, visible } from '../../ui/format.js';
import { Button, CopyButton, Empty, Loading, Problem } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { VirtualList } from '../../ui/virtual-list.js';
import { keyText } from '../fleet/model.js';
import { placeOf } from '../places.js';

const domains = ['data', 'registry', 'workspaces', 'messaging', 'identity', 'locks'] as const;
const shownMax = 20_000;
const windowCommits = 1_000;
const pageItems = 1_000;

export function FeedPage() {
  const { query } = useObservable(route);
  const domain = query.get('domain') ?? '';
  const words = (query.get('filter') ?? '').trim().toLowerCase();
  const position = query.get('position') ?? undefined;
  const at = query.get('at') ?? undefined;
  const feed = useFeed(position);
  const { agents, tasks, feed: live } = useWorld();
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
          (domain === '' || change.domain === domain) && (words === '' || textOf(change).includes(words)),
      ),
    [feed.items, domain, words],
  );
  const shown = at === undefined ? undefined : items.find(({ seq }) => String(seq) === at);
  useEffect(() => {
    // The address names a change: the window that has it is read.
    if (at !== undefined && shown === undefined && !feed.isLoading) feed.readEarlier();
  }, [at, shown, feed.isLoading, items.length]);
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
            <option value="">All domains</option>
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
      {feed.failure === undefined ? null : (
        <Problem failure={feed.failure} onRetry={() => setQuery({ position: undefined, at: undefined })} />
      )}
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
              position={feed.positionOf(change.seq) ?? position ?? live.position}
              isShared={String(change.seq) === at}
            />
          )}
          onEnd={feed.readEarlier}
          onScroll={feed.onScroll}
          empty={
            feed.isLoading ? (
              <Loading />
            ) : (
              <Empty title="No changes here" command="stoa data set greeting '&quot;hello&quot;'">
                Every write of any domain appears here at once.
              </Empty>
            )
          }
        />
      </div>
    </section>
  );
}

function rowKey({ seq, kind, id }: ChangeItem): string {
  return `${seq} ${kind} ${id}`;
}

function textOf({ kind, id, user, agent, facts }: ChangeItem): string {
  return `${kind} ${id} ${user ?? ''} ${agent ?? ''} ${Object.values(facts ?? {}).join(' ')}`.toLowerCase();
}

interface Feed {
  readonly items: readonly ChangeItem[];
  readonly isPaused: boolean;
  readonly heldCount: number;
  readonly isLoading: boolean;
  readonly failure: Failure | undefined;
  togglePause(): void;
  readEarlier(): void;
  onScroll(top: number): void;
  positionOf(seq: number): string | undefined;
}

/** Newest first. New changes wait while the person has scrolled down or has paused, so that nothing moves. */
function useFeed(position: string | undefined): Feed {
  const { view, feed } = useWorld();
  const round = useObservable(feed.round);
  const [items, setItems] = useState<readonly ChangeItem[]>([]);
  const [held, setHeld] = useState<readonly ChangeItem[]>([]);
  const [isPaused, setPaused] = useState(false);
  const [failure, setFailure] = useState<Failure | undefined>(undefined);
  const [isLoading, setLoading] = useState(true);
  const earliest = useRef<string | null | undefined>(undefined);
  const isDown = useRef(false);
  const isReading = useRef(false);
  const isStill = (): boolean => isPaused || isDown.current || position !== undefined;
  useEffect(() => {
    if (position !== undefined) {
      // The address names a position: the changes up to it, as they were.
      const stop = new AbortController();
      setItems([]);
      setLoading(true);
      readBack(position, stop.signal)
        .then(({ found, since }) => {
          earliest.current = since;
          setItems(found.toReversed());
        })
        .catch((error: unknown) => stop.signal.aborted || setFailure(failureOf(error)))
        .finally(() => setLoading(false));
      return () => stop.abort();
    }
    setFailure(undefined);
    earliest.current = undefined;
    setItems(feed.recent.toReversed());
    setLoading(feed.position === undefined);
    return undefined;
  }, [feed, position]);
  useEffect(() => {
    if (position === undefined && items.length === 0 && feed.recent.length > 0)
      setItems(feed.recent.toReversed());
    if (feed.position !== undefined && position === undefined) setLoading(false);
  }, [round]);
  useEffect(
    () =>
      feed.listen((changes) => {
        const fresh = changes.toReversed();
        if (isStill()) setHeld((before) => [...fresh, ...before].slice(0, shownMax));
        else setItems((before) => [...fresh, ...before].slice(0, shownMax));
      }),
    [feed, isPaused, position],
  );
  const readBack = async (until: string, signal: AbortSignal) => {
    const found: ChangeItem[] = [];
    let page = await view.stoa.changes.read({ back: windowCommits, until, limit: pageItems, signal });
    const { since } = page;
    found.push(...page.items);
    while (page.next_cursor !== null) {
      page = await view.stoa.changes.read({ since: page.next_cursor, until, limit: pageItems, signal });
      found.push(...page.items);
    }
    return { found, since: since === until ? null : since };
  };
  const showHeld = (): void => {
    if (position !== undefined || held.length === 0) return;
    setItems((before) => [...held, ...before].slice(0, shownMax));
    setHeld([]);
  };
  return {
    items,
    isPaused,
    heldCount: held.length,
    isLoading,
    failure,
    togglePause: () => {
      if (isPaused) showHeld();
      setPaused(!isPaused);
    },
    readEarlier: () => {
      const until = earliest.current;
      if (isReading.current || typeof until !== 'string' || items.length >= shownMax) return;
      isReading.current = true;
      const stop = new AbortController();
      void readBack(until, stop.signal)
        .then(({ found, since }) => {
          earliest.current = since;
          setItems((before) => [...before, ...found.toReversed()]);
        })
        .catch((error: unknown) => setFailure(failureOf(error)))
        .finally(() => {
          isReading.current = false;
        });
    },
    onScroll: (top) => {
      isDown.current = top > 4;
      if (!isDown.current && !isPaused) showHeld();
    },
    positionOf: (seq) => feed.positionOf(seq),
  };
}

function ChangeRow({
  change,
  position,
  isShared,
}: {
  change: ChangeItem;
  position: string | undefined;
  isShared: boolean;
}) {
  const to = placeOf(change);
  const name = useName(change);
  const detail = factsText(change);
  const content = (
    <>
      <span class="change-at">
        <Ago at={change.at} />
      </span>
      <span class={`change-kind ${change.domain}`}>{change.kind}</span>
      <span class={`clip ${change.domain === 'data' ? 'mono' : ''}`}>{visible(name)}</span>
      <span class="clip muted">{visible(detail)}</span>
      <span class="clip change-by">{visible(change.agent ?? change.user ?? '')}</span>
    </>
  );
  return (
    <div class={`change-row ${isShared ? 'shared' : ''}`}>
      {to === undefined ? (
        <span class="change-line">{content}</span>
      ) : (
        <a class="change-line" data-row href={to}>
          {content}
        </a>
      )}
      {position === undefined ? null : (
        <CopyButton
          label="Copy a link to this position"
          text={globalThis.location.origin + href(['feed'], { position, at: String(change.seq) })}
        />
      )}
    </div>
  );
}

/** What people call the thing: the key of a document, the name of an agent, the command of a task. */
function useName(change: ChangeItem): string {
  const { agents, tasks } = useWorld();
  if (change.domain === 'data') return keyText(change);
  return agents.items.get(change.id)?.name ?? tasks.items.get(change.id)?.command ?? shortId(change.id);
}

function factsText({ facts, domain, version }: ChangeItem): string {
  const { from, to, holder, room, reason } = facts ?? {};
  if (typeof to === 'string') return `${String(from)} → ${to}`;
  if (typeof holder === 'string') return holder;
  if (typeof reason === 'string') return reason;
  if (typeof room === 'string') return room;
  return domain === 'data' && version !== null ? `version ${version}` : '';
}
