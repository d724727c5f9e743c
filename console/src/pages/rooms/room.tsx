/** One room: its messages as they come, and a box to post. */
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { href } from '../../router.js';
import { useWorld } from '../../live/use-world.js';
import { quoted, userFlag } from '../../stoa.js';
import { ask, attempt } from '../../ui/dialog.js';
import { plural, visible } from '../../ui/format.js';
import { Button, Empty, Icon, Loading, Problem } from '../../ui/parts.js';
import { durationText } from '../../ui/time.js';
import { useAuthors } from './authors.js';
import { Message } from './message.js';
import { type ShownMessage, useMessages } from './messages.js';
import { setRoomKey, useRoomKey } from './room-keys.js';
import type { RoomRecord } from './room-list.js';

export function Room({ room }: { room: string }) {
  const { view } = useWorld();
  const key = useRoomKey(room);
  const messages = useMessages(room, key);
  const { shown, record, failure } = messages;
  const name = record?.name;
  const isOpen = failure?.code !== 'not_found' && failure?.code !== 'forbidden';
  return (
    <div class="room">
      <p class="key-count muted">
        <a class="narrow-back" href={href(['rooms'])} aria-label="All rooms">
          <Icon name="back" />
        </a>
        <strong>{visible(name ?? (messages.isLoading ? '…' : room))}</strong>
        {record === undefined ? null : <RoomFacts record={record} />}
      </p>
      {failure === undefined ? null : failure.code === 'not_found' ? (
        <Empty title="This room does not exist">It was deleted, or belongs to another user.</Empty>
      ) : failure.code === 'forbidden' ? (
        <Locked room={room} reason={failure.message} />
      ) : (
        <Problem failure={failure} onRetry={messages.reload} />
      )}
      {isOpen ? (
        <Messages room={room} name={name ?? room} messages={messages}>
          {shown.length > 0 || failure !== undefined ? null : messages.isLoading ? (
            <Loading />
          ) : (
            <Empty
              title="No messages yet"
              command={`stoa post ${quoted(name ?? room)} "hello"${userFlag(view)}`}
            />
          )}
        </Messages>
      ) : null}
      {view.canWrite && isOpen ? <PostBox room={room} roomKey={key} onPosted={messages.reload} /> : null}
    </div>
  );
}

function RoomFacts({ record }: { record: RoomRecord }) {
  return (
    <span class="room-facts">
      {record.public ? 'public' : visible(record.owner ?? '')}
      {record.is_private ? ', needs its key' : ''} · {plural(record.message_count, 'message')} · kept for{' '}
      {durationText(record.retention_seconds * 1_000)}
    </span>
  );
}

function Locked({ room, reason }: { room: string; reason: string }) {
  const enter = (): void =>
    ask({
      title: 'The key of the room',
      text: 'It stays in this tab until the tab is closed.',
      input: { label: 'Key' },
      action: 'Open the room',
      act: async (typed) => setRoomKey(room, typed),
    });
  return (
    <div class="empty">
      <p class="empty-title">This room needs its key</p>
      <p>{visible(reason)}</p>
      <Button kind="primary" onClick={enter}>
        Enter the key
      </Button>
    </div>
  );
}

/** Stays at the end while the person is there; earlier messages come in above without a jump. */
function Messages(props: {
  room: string;
  name: string;
  messages: ReturnType<typeof useMessages>;
  children: preact.ComponentChildren;
}) {
  const { shown, readEarlier } = props.messages;
  const authors = useAuthors(shown.map(({ message }) => message.from));
  const { byId, replies } = useMemo(() => {
    const counts = new Map<string, number>();
    for (const { message } of shown)
      if (message.pid !== undefined) counts.set(message.pid, (counts.get(message.pid) ?? 0) + 1);
    return { byId: new Map(shown.map(({ message }) => [message.id, message])), replies: counts };
  }, [shown]);
  const scroller = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const before = useRef<{ first: string | undefined; height: number }>({ first: undefined, height: 0 });
  const first = shown[0]?.message.id;
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const added = element.scrollHeight - before.current.height;
    if (isAtEnd.current) element.scrollTop = element.scrollHeight;
    else if (before.current.first !== first) element.scrollTop += added;
    before.current = { first, height: element.scrollHeight };
  }, [shown]);
  return (
    <div
      class="messages"
      ref={scroller}
      tabIndex={0}
      role="log"
      aria-label={`Messages of ${props.name}`}
      onScroll={({ currentTarget: at }) => {
        isAtEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
      }}
    >
      {readEarlier === undefined ? null : (
        <p class="earlier">
          <Button
            onClick={() => {
              isAtEnd.current = false;
              readEarlier();
            }}
          >
            Earlier messages
          </Button>
        </p>
      )}
      {props.children}
      {shown.map((each: ShownMessage) => (
        <Message
          key={each.message.id}
          room={props.room}
          shown={each}
          author={authors.get(each.message.from)}
          about={byId.get(each.message.pid ?? '')}
          replyCount={replies.get(each.message.id)}
        />
      ))}
    </div>
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
        placeholder="Post as yourself; the server signs the message. Ctrl+Enter posts."
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
