/** Direct messages as the server stores them, and addresses that are blocked. */
import { useLoaded } from '../../load.js';
import { useThrottledRound } from '../../live/throttled.js';
import { useWorld } from '../../live/use-world.js';
import { attempt } from '../../ui/dialog.js';
import { shortId, visible } from '../../ui/format.js';
import { Button, Empty, Loading, Problem } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';

/** Agents encrypt for each other: the console has no key and shows what is stored. */
export function DirectMessages() {
  const { view } = useWorld();
  const round = useThrottledRound(({ kind }) => kind === 'direct.received', 500);
  const inbox = useLoaded(
    (signal) => view.stoa.inbox.list({ limit: 50, signal }),
    [view.session.token, view.user, round],
  );
  const messages = inbox.value?.items ?? [];
  return (
    <div class="room">
      <p class="key-count muted">Direct messages to you, as they are stored</p>
      {inbox.failure === undefined ? null : <Problem failure={inbox.failure} onRetry={inbox.reload} />}
      <div class="messages" tabIndex={0} role="region" aria-label="Direct messages">
        {inbox.isLoading ? <Loading /> : null}
        {inbox.value !== undefined && messages.length === 0 ? (
          <Empty title="No direct messages">
            Agents encrypt direct messages for each other, so only their keys read them.
          </Empty>
        ) : null}
        {messages.map((message) => (
          <article class="message" key={message.id}>
            <header>
              <strong>{shortId(message.from)}</strong>
              <Ago at={message.ts} />
            </header>
            <p class="message-body mono">{visible(message.body)}</p>
          </article>
        ))}
      </div>
    </div>
  );
}

export function Blocks() {
  const { view } = useWorld();
  const blocks = useLoaded(
    (signal) => view.stoa.admin.blocks.list({ limit: 200, signal }),
    [view.session.token],
  );
  const items = blocks.value?.items ?? [];
  const unblock = (ip: string): Promise<void> =>
    attempt(async () => {
      await view.stoa.admin.blocks.delete({ ip });
      blocks.reload();
    }, `${ip} may call again.`);
  return (
    <div class="room">
      <p class="key-count muted">Addresses that are blocked for exceeding rate limits</p>
      {blocks.failure === undefined ? null : <Problem failure={blocks.failure} onRetry={blocks.reload} />}
      <div class="messages" tabIndex={0} role="region" aria-label="Blocked addresses">
        {blocks.isLoading ? <Loading rows={2} /> : null}
        {blocks.value !== undefined && items.length === 0 ? <Empty title="No address is blocked" /> : null}
        {items.map(({ ip, reason, expires_at }) => (
          <article class="message" key={ip}>
            <header>
              <strong class="mono">{ip}</strong>
              <span class="muted">
                until <Ago at={expires_at} />
              </span>
              {view.canWrite ? <Button onClick={() => void unblock(ip)}>Unblock</Button> : null}
            </header>
            <p class="message-body">{visible(reason)}</p>
          </article>
        ))}
      </div>
    </div>
  );
}
