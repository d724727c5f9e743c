/** Direct messages as the server stores them. Agents encrypt for each other: the console has no key of theirs. */
import { useLoaded } from '../../load.js';
import { href, route, setQuery } from '../../router.js';
import { useThrottledRound } from '../../live/throttled.js';
import { useRecords, useWorld } from '../../live/use-world.js';
import { useObservable } from '../../observable.js';
import { shortId, visible } from '../../ui/format.js';
import { Empty, Icon, Loading, Problem } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';
import { Standing } from './message.js';

const messagesShown = 100;

export function DirectMessages() {
  const { view, agents: records } = useWorld();
  const agents = useRecords(records).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const { query } = useObservable(route);
  const chosen = query.get('inbox') ?? '';
  const owner = records.items.get(chosen);
  const news = useThrottledRound(({ kind }) => kind === 'direct.received', 500);
  const inbox = useLoaded(
    (signal) => {
      const reader = owner === undefined ? view.stoa : view.asAgent(owner.user, owner.name);
      return reader.inbox.list({ limit: messagesShown, signal });
    },
    [view.session.token, view.user, owner?.agent_id],
    news,
  );
  const messages = inbox.value?.items ?? [];
  return (
    <div class="room">
      <p class="key-count muted">
        <a class="narrow-back" href={href(['rooms'])} aria-label="All rooms">
          <Icon name="back" />
        </a>
        <label class="inbox-choice">
          Direct messages to
          <select value={chosen} onChange={(event) => setQuery({ inbox: event.currentTarget.value })}>
            <option value="">you</option>
            {agents.map(({ agent_id, name, user }) => (
              <option key={agent_id} value={agent_id}>
                {visible(view.isOperator && view.user === undefined ? `${name} (${user})` : name)}
              </option>
            ))}
          </select>
        </label>
        <span class="wide-only">as they are stored</span>
      </p>
      <Problem failure={inbox.failure} onRetry={inbox.reload} />
      <div class="messages" tabIndex={0} role="region" aria-label="Direct messages">
        {inbox.isLoading ? <Loading rows={3} /> : null}
        {inbox.value !== undefined && messages.length === 0 ? (
          <Empty title="No direct messages">
            Choose an agent to see its inbox. Agents with keys of their own encrypt for each other, so only
            they can read the text.
          </Empty>
        ) : null}
        {messages.map((message) => (
          <article class="message" key={message.id}>
            <header>
              <strong>{visible(message.from_name || shortId(message.from))}</strong>
              <Standing message={message} />
              <Ago at={message.ts} />
              <span>{message.acknowledged ? 'acknowledged' : 'not acknowledged yet'}</span>
            </header>
            <p class="message-body mono">{visible(message.body)}</p>
          </article>
        ))}
      </div>
    </div>
  );
}
