/** Messages that a search found. */
import { useLoaded } from '../../load.js';
import { href } from '../../router.js';
import { useWorld } from '../../live/use-world.js';
import { shortId, visible } from '../../ui/format.js';
import { Empty, Icon, Loading, Problem } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { useAuthors } from './authors.js';

export function Results({ words }: { words: string }) {
  const { view } = useWorld();
  const found = useLoaded(
    (signal) => view.stoa.find(words, { in: ['messages'], limit: 50, signal }),
    [words, view.user],
  );
  const results = found.value?.items ?? [];
  const authors = useAuthors(results.flatMap(({ author }) => author ?? []));
  return (
    <div class="room">
      <p class="key-count muted">
        <a class="narrow-back" href={href(['rooms'])} aria-label="All rooms">
          <Icon name="back" />
        </a>
        Results for “{visible(words)}”, the best first
      </p>
      <Problem failure={found.failure} onRetry={found.reload} />
      <div class="messages" tabIndex={0} role="region" aria-label="Results">
        {found.isLoading ? <Loading /> : null}
        {found.value !== undefined && results.length === 0 ? (
          <Empty title="Nothing found">Try other words.</Empty>
        ) : null}
        {results.map(({ id = '', author = '', time, room = '', room_id = '', excerpt }) => (
          <article class="message" key={id}>
            <header>
              <strong>{visible(authors.get(author ?? '')?.name || shortId(author ?? ''))}</strong>
              <Ago at={time} />
              <a href={href(['rooms', room_id, id])}>{visible(room)}</a>
            </header>
            <p class="message-body">{visible(excerpt)}</p>
          </article>
        ))}
      </div>
    </div>
  );
}
