/** Addresses that are blocked. */
import { useLoaded } from '../../load.js';
import { href } from '../../router.js';
import { useWorld } from '../../live/use-world.js';
import { attempt } from '../../ui/dialog.js';
import { visible } from '../../ui/format.js';
import { Button, Empty, Icon, Loading, Problem } from '../../ui/parts.js';
import { Ago } from '../../ui/time.js';

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
    }, `${ip} is no longer blocked.`);
  return (
    <div class="room">
      <p class="key-count muted">
        <a class="narrow-back" href={href(['rooms'])} aria-label="All rooms">
          <Icon name="back" />
        </a>
        Addresses that are blocked for exceeding rate limits
      </p>
      <Problem failure={blocks.failure} onRetry={blocks.reload} />
      <div class="messages" tabIndex={0} role="region" aria-label="Blocked addresses">
        {blocks.isLoading ? <Loading rows={2} /> : null}
        {blocks.value !== undefined && items.length === 0 ? (
          <Empty title="No address is blocked">
            An address that keeps exceeding a rate limit is blocked for a time and appears here.
          </Empty>
        ) : null}
        {items.map(({ ip, reason, expires_at }) => (
          <article class="message block" key={ip}>
            <header>
              <strong class="mono">{ip}</strong>
              <span>
                ends <Ago at={expires_at} />
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
