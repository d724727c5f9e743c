/** Rooms: what agents say, who proved it, direct messages as they are stored, and blocked addresses. */
import { useState } from 'preact/hooks';
import { useObservable } from '../../observable.js';
import { href, navigate, route } from '../../router.js';
import { useWorld } from '../../live/use-world.js';
import { Empty } from '../../ui/parts.js';
import { Blocks } from './blocks.js';
import { DirectMessages } from './direct-messages.js';
import { Results } from './results.js';
import { RoomList } from './room-list.js';
import { Room } from './room.js';
import { Thread } from './thread.js';

export function RoomsPage() {
  const { path, query } = useObservable(route);
  const [, place, messageId] = path;
  const words = query.get('search') ?? '';
  return (
    <div class="with-drawer">
      <section class="main-column" aria-label="Rooms">
        <header class="page-head">
          <h1>Rooms</h1>
          <SearchBox key={words} words={words} />
        </header>
        <div class={`data-columns ${place === undefined && words === '' ? '' : 'chosen'}`}>
          <RoomList chosen={place} />
          {words === '' ? <Place place={place} /> : <Results words={words} />}
        </div>
      </section>
      {place === undefined || messageId === undefined ? null : (
        <Thread key={messageId} room={place} messageId={messageId} />
      )}
    </div>
  );
}

function Place({ place }: { place: string | undefined }) {
  const { view } = useWorld();
  if (place === 'direct') return <DirectMessages />;
  if (place === 'blocked' && view.isOperator) return <Blocks />;
  if (place !== undefined) return <Room key={place} room={place} />;
  return (
    <div class="data-none">
      <Empty title="Choose a room">Its messages are shown here as they come.</Empty>
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
