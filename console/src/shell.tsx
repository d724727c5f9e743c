/** The frame: navigation, the chosen user, the state of the connection, and the page of the address. */
import { useEffect, useRef } from 'preact/hooks';
import { Help, openHelp } from './help.js';
import { useObservable } from './observable.js';
import { href, navigate, route } from './router.js';
import { useWorld } from './live/use-world.js';
import { Account } from './account.js';
import { DataPage } from './pages/data/page.js';
import { FeedPage } from './pages/feed/page.js';
import { FleetPage } from './pages/fleet/page.js';
import { OperationsPage } from './pages/operations/page.js';
import { RoomsPage } from './pages/rooms/page.js';
import { WorkPage } from './pages/work/page.js';
import { Search, openSearch } from './search.js';
import { Dialogs } from './ui/dialog.js';
import { isTyping } from './ui/focus.js';
import { moveInLists } from './ui/list-keys.js';
import { Icon } from './ui/parts.js';

interface PageDefinition {
  readonly name: string;
  readonly title: string;
  /** After `g`. */
  readonly letter: string;
  readonly show: () => preact.JSX.Element;
}

export const pages: readonly PageDefinition[] = [
  { name: 'fleet', title: 'Fleet', letter: 'f', show: () => <FleetPage /> },
  { name: 'work', title: 'Work', letter: 'w', show: () => <WorkPage /> },
  { name: 'data', title: 'Data', letter: 'd', show: () => <DataPage /> },
  { name: 'rooms', title: 'Rooms', letter: 'r', show: () => <RoomsPage /> },
  { name: 'feed', title: 'Feed', letter: 'e', show: () => <FeedPage /> },
  { name: 'operations', title: 'Operations', letter: 'o', show: () => <OperationsPage /> },
];

export function Shell() {
  const { path } = useObservable(route);
  const page = pages.find(({ name }) => name === path[0]) ?? pages[0];
  useShortcuts();
  useEffect(() => {
    document.title = `${page?.title ?? ''} · Stoa`;
  }, [page]);
  return (
    <div class="shell">
      <a class="skip" href="#page">
        Skip to the page
      </a>
      <nav class="side" aria-label="Pages">
        <a class="brand" href={href(['fleet'])}>
          <img src="/console/assets/icon.svg" alt="" width="20" height="20" />
          <span>Stoa</span>
        </a>
        <ul>
          {pages.map(({ name, title, letter }) => (
            <li key={name}>
              <a
                href={href([name])}
                aria-current={page?.name === name ? 'page' : undefined}
                title={`g ${letter}`}
              >
                <Icon name={name} />
                <span>{title}</span>
              </a>
            </li>
          ))}
        </ul>
        <div class="side-end">
          <button type="button" class="search-open" aria-label="Search /" onClick={openSearch}>
            <Icon name="search" />
            <span>Search</span>
            <kbd>/</kbd>
          </button>
          <button type="button" class="search-open help-open" aria-label="Keys ?" onClick={openHelp}>
            <Icon name="keys" />
            <span>Keys</span>
            <kbd>?</kbd>
          </button>
          <Connection />
          <Account />
        </div>
      </nav>
      <main id="page" class="page" tabIndex={-1}>
        {page?.show()}
      </main>
      <Search />
      <Help pages={pages} />
      <Dialogs />
    </div>
  );
}

function Connection() {
  const { feed } = useWorld();
  const state = useObservable(feed.state);
  const words = { connecting: 'Connecting', live: 'Live', lost: 'No connection, trying again' }[state];
  return (
    <p class={`connection ${state}`} role="status">
      <span>{words}</span>
    </p>
  );
}

const chordMs = 1_200;

/** `/` searches, `?` shows the keys, `g` and a letter goes to a page, the other keys move in lists. */
function useShortcuts(): void {
  const chordAt = useRef(0);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector('dialog[open]') !== null) return;
      if (event.key === '/' || event.key === '?') {
        event.preventDefault();
        (event.key === '/' ? openSearch : openHelp)();
      } else if (event.key === 'g') chordAt.current = Date.now();
      else if (Date.now() - chordAt.current < chordMs) {
        chordAt.current = 0;
        const page = pages.find(({ letter }) => letter === event.key);
        if (page === undefined) return;
        event.preventDefault();
        navigate(href([page.name]));
        document.querySelector<HTMLElement>('#page')?.focus();
      } else if (moveInLists(event)) event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}
