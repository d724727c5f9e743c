/** Rooms: what agents say, who proved it, direct messages as they are stored, and blocked addresses. */
import { useState } from 'preact/hooks';
import { useObservable } from '../../observable.js';
import { href, navigate, route } from '../../router.js';
import { useWorld } from '../../live/use-world.js';
import { userFlag } from '../../stoa.js';
import { useIsNarrow } from '../../ui/narrow.js';
import { Empty, Loading } from '../../ui/parts.js';
import { Blocks } from './blocks.js';
import { DirectMessages } from './direct-messages.js';
import { Results } from './results.js';
import { RoomList, type RoomRecord, useRooms } from './room-list.js';
import { Room } from './room.js';
import { Thread } from './thread.js';

export function RoomsPage() {
  const { path, query } = useObservable(route);
  const [, place, messageId] = path;
  const words = query.get('search') ?? '';
  const rooms = useRooms();
  const isNarrow = useIsNarrow();
  const shown = place ?? (isNarrow ? undefined : latest(rooms.value?.items ?? []));
  return (
    <div class="with-drawer">
      <section class="main-column" aria-label="Rooms">
        <header class="page-head">
          <h1>Rooms</h1>
          <SearchBox key={words} words={words} />
        </header>
        <div class={`data-columns ${place === undefined && words === '' ? '' : 'chosen'}`}>
          <RoomList loaded={rooms} chosen={words === '' ? shown : undefined} />
          {words === '' ? <Place place={shown} isLoading={rooms.isLoading} /> : <Results words={words} />}
        </div>
      </section>
      {place === undefined || messageId === undefined ? null : (
        <Thread key={messageId} room={place} messageId={messageId} />
      )}
    </div>
  );
}

/** Where somebody spoke last: a page that begins there needs no choice. */
function latest(rooms: readonly RoomRecord[]): string | undefined {
  return rooms.toSorted((a, b) => (a.last_active > b.last_active ? -1 : 1))[0]?.id;
}

function Place({ place, isLoading }: { place: string | undefined; isLoading: boolean }) {
  const { view } = useWorld();
  if (place === 'direct') return <DirectMessages />;
  if (place === 'blocked' && view.isOperator) return <Blocks />;
  if (place !== undefined) return <Room key={place} room={place} />;
  return (
    <div class="wide-only">
      {isLoading ? (
        <Loading />
      ) : (
        <Empty title="No rooms yet" command={`stoa post plans "hello"${userFlag(view)}`}>
          The first message makes its room.
        </Empty>
      )}
    </div>
  );
}

function SearchBox({ words }: { words: string }) {
  const [typed, setTyped] = useState(words);
  return (
    <form
      class="filter-form"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(href(['rooms'], { search: typed }));
      }}
    >
      <input
        type="search"
        class="filter"
        placeholder="Search messages"
        aria-label="Search messages"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
    </form>
  );
}
