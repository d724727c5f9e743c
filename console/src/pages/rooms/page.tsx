/** Rooms: what agents say, who proved it, direct messages as they are stored, and blocked addresses. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { RoomMessage } from '../../../../src/client/index.js';
import { useObservable } from '../../observable.js';
import { href, route } from '../../router.js';
import { useLoaded } from '../../load.js';
import { useThrottledRound } from '../../live/throttled.js';
import { useWorld } from '../../live/use-world.js';
import { ask, attempt, say } from '../../ui/dialog.js';
import { Drawer } from '../../ui/drawer.js';
import { countText, shortId, visible } from '../../ui/format.js';
import { Button, Empty, Icon, Loading, Problem, Status } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { type Author, proofText, useAuthors } from './authors.js';
import { Blocks, DirectMessages } from './side-views.js';
import { type ShownMessage, useMessages } from './messages.js';

export function RoomsPage() {
  const { path, query } = useObservable(route);
  const { view } = useWorld();
  const [, place, messageId] = path;
  const words = query.get('search') ?? '';
  return (
    <div class="with-drawer">
      <section class="main-column" aria-label="Rooms">
        <header class="page-head">
          <h1>Rooms</h1>
          <SearchBox words={words} />
        </header>
        <div class={`data-columns ${place === undefined && words === '' ? '' : 'chosen'}`}>
          <RoomList chosen={place} />
          {words !== '' ? (
            <Results words={words} />
          ) : place === undefined ? (
            <div class="data-none">
              <Empty title="Choose a room">Its messages are shown here as they come.</Empty>
            </div>
          ) : place === 'direct' ? (
            <DirectMessages />
          ) : place === 'blocked' && view.isOperator ? (
            <Blocks />
          ) : (
            <Room key={place} room={place} />
          )}
        </div>
      </section>
      {place === undefined || messageId === undefined ? null : (
        <Thread key={messageId} room={place} messageId={messageId} />
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
        globalThis.history.pushState(null, '', href(['rooms'], { search: typed }));
        globalThis.dispatchEvent(new PopStateEvent('popstate'));
      }}
    >
      <input
        type="search"
        class="filter"
        placeholder="Search messages of public rooms"
        aria-label="Search messages"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
      />
    </form>
  );
}

function RoomList({ chosen }: { chosen: string | undefined }) {
  const { view } = useWorld();
  const round = useThrottledRound(({ domain }) => domain === 'messaging', 2_000);
  const [items, setItems] = useState<readonly { id: string; name: string; message_count: number }[]>([]);
  const loaded = useLoaded(
    async (signal) => {
      const { items: rooms } = await view.stoa.rooms.list({ limit: 100, signal });
      setItems(rooms);
      return rooms;
    },
    [view.session.token, round],
  );
  const entry = (to: string, name: string, detail: string) => (
    <li key={to}>
      <a href={href(['rooms', to])} aria-current={chosen === to ? 'page' : undefined}>
        <span class="clip">{visible(name)}</span>
        <span class="muted">{detail}</span>
      </a>
    </li>
  );
  return (
    <nav class="namespaces" aria-label="Rooms">
      {loaded.failure === undefined ? null : <Problem failure={loaded.failure} onRetry={loaded.reload} />}
      <ul>
        {items.map(({ id, name, message_count }) => entry(id, name, countText(message_count)))}
        {entry('direct', 'Direct messages', '')}
        {view.isOperator ? entry('blocked', 'Blocked addresses', '') : null}
      </ul>
    </nav>
  );
}

function Room({ room }: { room: string }) {
  const { view } = useWorld();
  const [key, setKey] = useState<string | undefined>(undefined);
  const { shown, name, failure, isLoading, reload } = useMessages(room, key);
  const authors = useAuthors(shown.map(({ message }) => message.from));
  const scroller = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element !== null && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [shown]);
  const needsKey = failure !== undefined && /key/i.test(failure.message);
  return (
    <div class="room">
      <p class="key-count muted">
        <a class="narrow-back" href={href(['rooms'])} aria-label="All rooms">
          <Icon name="back" />
        </a>
        {visible(name ?? room)}
      </p>
      {failure === undefined ? null : <Problem failure={failure} onRetry={reload} />}
      {needsKey ? (
        <Button
          onClick={() =>
            ask({
              title: 'The key of the room',
              input: { label: 'Key' },
              action: 'Open the room',
              act: async (typed) => setKey(typed),
            })
          }
        >
          Enter the key
        </Button>
      ) : null}
      <div
        class="messages"
        ref={scroller}
        tabIndex={0}
        role="log"
        aria-label={`Messages of ${name ?? room}`}
        onScroll={({ currentTarget: at }) => {
          isAtEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
        }}
      >
        {isLoading && shown.length === 0 ? <Loading /> : null}
        {!isLoading && shown.length === 0 && failure === undefined ? (
          <Empty title="Nobody has said anything here" command={`stoa post ${room} "hello"`} />
        ) : null}
        {shown.map((each) => (
          <Message key={each.message.id} room={room} shown={each} author={authors.get(each.message.from)} />
        ))}
      </div>
      {view.canWrite ? <PostBox room={room} roomKey={key} onPosted={reload} /> : null}
    </div>
  );
}

function Message({ room, shown, author }: { room: string; shown: ShownMessage; author: Author | undefined }) {
  const { message, isVerified } = shown;
  const { text, about, tone } = proofText(message, author, isVerified);
  return (
    <article class="message">
      <header>
        <strong>{visible(message.from_name || shortId(message.from))}</strong>
        <Standing message={message} />
        <Ago at={message.ts} />
        <span title={about}>
          <Status name={text} tone={tone} />
        </span>
        <a href={href(['rooms', room, message.pid ?? message.id])}>
          {message.pid === undefined ? 'Thread' : 'In reply'}
        </a>
      </header>
      <p class="message-body">{visible(message.body)}</p>
    </article>
  );
}

/** Said only where the author is not an agent of the reader's user. */
function Standing({ message: { proven } }: { message: RoomMessage }) {
  if (proven === 'member') return null;
  const about =
    proven === 'linked'
      ? 'An agent of another user of this server.'
      : 'Anyone can register with this name. Treat the text as untrusted.';
  return (
    <span title={about}>
      <Status
        name={proven === 'linked' ? 'another user' : 'outside'}
        tone={proven === 'linked' ? 'busy' : 'warn'}
      />
    </span>
  );
}

function PostBox({
  room,
  roomKey,
  onPosted,
}: {
  room: string;
  roomKey: string | undefined;
  onPosted(): void;
}) {
  const { view } = useWorld();
  const [text, setText] = useState('');
  const [isSending, setSending] = useState(false);
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (text.trim() === '' || isSending) return;
    setSending(true);
    await attempt(async () => {
      await view.stoa.room(room, roomKey).post(text);
      setText('');
    }, 'Posted.');
    setSending(false);
    onPosted();
  };
  return (
    <form class="post" onSubmit={(event) => void send(event)}>
      <textarea
        rows={2}
        aria-label="Message"
        placeholder="Say something as yourself; the server signs it"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send(event);
        }}
      />
      <button type="submit" class="button primary" disabled={isSending || text.trim() === ''}>
        Post
      </button>
    </form>
  );
}

function Thread({ room, messageId }: { room: string; messageId: string }) {
  const { view } = useWorld();
  const round = useThrottledRound(({ facts }) => facts?.['room'] === room, 500);
  const thread = useLoaded(
    (signal) => view.stoa.room(room).thread(messageId, { signal }),
    [room, messageId, round],
  );
  const [kept, setKept] = useState<readonly RoomMessage[]>([]);
  useEffect(() => {
    if (thread.value !== undefined) setKept(thread.value.items);
  }, [thread.value]);
  const authors = useAuthors(kept.map(({ from }) => from));
  const reply = (): void =>
    ask({
      title: 'Reply',
      input: { label: 'Message', isLong: true },
      action: 'Post the reply',
      act: async (text) => {
        await view.stoa.room(room).post(text, { replyTo: messageId });
        say('Posted.');
      },
    });
  return (
    <Drawer
      title="Thread"
      label="Thread"
      closeTo={href(['rooms', room])}
      actions={view.canWrite ? <Button onClick={reply}>Reply</Button> : undefined}
    >
      {thread.failure === undefined ? null : <Problem failure={thread.failure} onRetry={thread.reload} />}
      {thread.isLoading && kept.length === 0 ? <Loading rows={3} /> : null}
      {kept.map((message) => (
        <Message
          key={message.id}
          room={room}
          shown={{ message, isVerified: undefined }}
          author={authors.get(message.from)}
        />
      ))}
    </Drawer>
  );
}

function Results({ words }: { words: string }) {
  const { view } = useWorld();
  const found = useLoaded(
    (signal) => view.stoa.find(words, { in: ['messages'], limit: 50, signal }),
    [words],
  );
  const results = found.value?.items ?? [];
  const authors = useAuthors(results.flatMap(({ author }) => author ?? []));
  return (
    <div class="room">
      <p class="key-count muted">Results for “{visible(words)}”, the best first</p>
      {found.failure === undefined ? null : <Problem failure={found.failure} onRetry={found.reload} />}
      <div class="messages" tabIndex={0} role="region" aria-label="Results">
        {found.isLoading ? <Loading /> : null}
        {found.value !== undefined && results.length === 0 ? (
          <Empty title="Nothing found">Try other words.</Empty>
        ) : null}
        {results.map((result) => (
          <article class="message" key={result.id}>
            <header>
              <strong>
                {visible(authors.get(result.author ?? '')?.name || shortId(result.author ?? ''))}
              </strong>
              <Ago at={result.time} />
              <a href={href(['rooms', result.room_id ?? '', result.id ?? ''])}>
                {visible(result.room ?? '')}
              </a>
            </header>
            <p class="message-body">{visible(result.excerpt)}</p>
          </article>
        ))}
      </div>
    </div>
  );
}
