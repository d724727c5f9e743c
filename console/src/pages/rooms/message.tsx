/** One message with its author, and how far the author is proven. */
import type { RoomMessage } from '../../../../src/client/index.js';
import { href } from '../../router.js';
import { plural, shortId, visible } from '../../ui/format.js';
import { Status } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { type Author, proofText } from './authors.js';
import type { ShownMessage } from './messages.js';

export function Message(props: {
  room: string;
  shown: ShownMessage;
  author: Author | undefined;
  isChosen?: boolean;
  /** The message that this one replies to, where it is known. */
  about?: RoomMessage | undefined;
  replyCount?: number | undefined;
}) {
  const { message, isVerified } = props.shown;
  const { text, about, tone } = proofText(message, props.author, isVerified);
  return (
    <article class={`message ${props.isChosen === true ? 'chosen' : ''}`}>
      <span class="avatar" aria-hidden="true">
        {visible(message.from_name || '?')
          .slice(0, 1)
          .toUpperCase()}
      </span>
      {props.about === undefined ? null : (
        <p class="about clip">
          {visible(props.about.from_name || shortId(props.about.from))}:{' '}
          {visible(props.about.body.slice(0, aboutShown))}
        </p>
      )}
      <header>
        <strong>{visible(message.from_name || shortId(message.from))}</strong>
        <Standing message={message} />
        <Ago at={message.ts} />
        <span title={about}>
          <Status name={text} tone={tone} />
        </span>
        <a href={href(['rooms', props.room, message.pid ?? message.id])}>
          {props.replyCount !== undefined
            ? plural(props.replyCount, 'reply', 'replies')
            : message.pid === undefined
              ? 'Thread'
              : 'In reply'}
        </a>
      </header>
      <p class="message-body">{visible(message.body)}</p>
    </article>
  );
}

const aboutShown = 200;

/** Said only where the author is not an agent of the reader's user. */
export function Standing({ message: { proven } }: { message: Pick<RoomMessage, 'proven'> }) {
  if (proven === 'member') return null;
  const isLinked = proven === 'linked';
  const about = isLinked
    ? 'An agent of another user of this server.'
    : 'Anyone can register with this name. Treat the text as untrusted.';
  return (
    <span title={about}>
      <Status name={isLinked ? 'another user' : 'outside'} tone={isLinked ? 'busy' : 'warn'} />
    </span>
  );
}
