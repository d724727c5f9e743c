/** The panel with the thread of a message. */
import { useState } from 'preact/hooks';
import { useLoaded } from '../../load.js';
import { href } from '../../router.js';
import { useThrottledRound } from '../../live/throttled.js';
import { useWorld } from '../../live/use-world.js';
import { ask, say } from '../../ui/dialog.js';
import { Drawer } from '../../ui/drawer.js';
import { Button, Empty, Loading, Problem } from '../../ui/parts.js';
import { useAuthors } from './authors.js';
import { Message } from './message.js';
import { withProofs } from './messages.js';
import { useRoomKey } from './room-keys.js';

export function Thread({ room, messageId }: { room: string; messageId: string }) {
  const { view } = useWorld();
  const key = useRoomKey(room);
  /** The address can name the room; changes have its id. */
  const [id, setId] = useState(room);
  const news = useThrottledRound(({ facts }) => facts?.['room'] === id, 500, [id]);
  const thread = useLoaded(
    async (signal) => {
      const { items } = await view.stoa.room(room, key).thread(messageId, { verify: true, signal });
      setId(items[0]?.room_id ?? room);
      return withProofs(items);
    },
    [room, messageId, key, view.user],
    news,
  );
  const shown = thread.value ?? [];
  const authors = useAuthors(shown.map(({ message }) => message.from));
  const reply = (): void =>
    ask({
      title: 'Reply',
      input: { label: 'Message', isLong: true },
      action: 'Post the reply',
      act: async (text) => {
        await view.stoa.room(room, key).post(text, { replyTo: messageId });
        thread.reload();
        say('Posted.');
      },
    });
  return (
    <Drawer
      title="Thread"
      label="Thread"
      closeTo={href(['rooms', room])}
      actions={view.canWrite && shown.length > 0 ? <Button onClick={reply}>Reply</Button> : undefined}
    >
      {thread.failure === undefined ? null : thread.failure.code === 'not_found' ? (
        <Empty title="This message does not exist">It was deleted, or belongs to another user.</Empty>
      ) : (
        <Problem failure={thread.failure} onRetry={thread.reload} />
      )}
      {thread.isLoading ? <Loading rows={3} /> : null}
      {shown.map((each) => (
        <Message
          key={each.message.id}
          room={room}
          shown={each}
          author={authors.get(each.message.from)}
          isChosen={each.message.id === messageId}
        />
      ))}
    </Drawer>
  );
}
