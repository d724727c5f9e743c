/** Direct messages in Redis: a sorted set for each inbox, ordered by time. */
import type { Limits } from '../../../../core/settings/limits.js';
import type { DirectMessage } from '../../../../messaging/model.js';
import type { NewDirectMessage, Page, Span } from '../../../../messaging/port.js';
import { ulidRandomPart } from '../../../../messaging/messages/ulid.js';
import { deliveryKeptMs } from './deliveries.js';
import { feedOutboxFull, feedOutboxMax } from '../feed-outbox.js';
import type { MessageScores } from './message-scores.js';
import { noticeChannel } from './notices.js';
import { pageOf, readPage } from './pages.js';
import type { RedisKeys } from './keys.js';
import { type RedisConnection, runScript, withRedis } from './connection.js';
import { directOf, directParts } from './stored-message.js';

export interface RedisInboxesOptions {
  readonly redis: RedisConnection;
  readonly keys: RedisKeys;
  readonly limits: Limits;
  readonly nowMs: () => number;
  readonly scores: MessageScores;
  /** The id of this server in its notices. */
  readonly origin: string;
}

export class RedisInboxes {
  readonly #options: RedisInboxesOptions;

  constructor(options: RedisInboxesOptions) {
    this.#options = options;
  }

  async send(input: NewDirectMessage, delivery: string | null = null): Promise<DirectMessage> {
    const { redis, keys, limits, nowMs, origin } = this.#options;
    const [before, after] = directParts(input);
    const answer = await runScript(redis.commands, 'stoaSend', [
      keys.inbox(input.to),
      keys.inboxClock(input.to),
      delivery === null ? keys.inbox(input.to) : keys.inboxDelivery(input.to, delivery),
      keys.pending(input.to),
      keys.inboxFeedOutbox(input.to),
      nowMs(),
      limits.directRetentionSeconds * 1000,
      ulidRandomPart(),
      before,
      after,
      noticeChannel,
      `${origin} inbox ${input.to}`,
      delivery === null ? '' : deliveryKeptMs(limits),
      feedOutboxMax,
    ]);
    const [outcome, id, ts] = answer as [string, string, string];
    if (outcome === 'full') throw feedOutboxFull();
    return { ...input, id, tsMs: Number(ts), acknowledged: false };
  }

  async read(agentId: string, span: Span): Promise<Page<DirectMessage>> {
    const { keys, limits } = this.#options;
    const key = keys.inbox(agentId);
    const page = await readPage(this.#options, key, span, limits.directRetentionSeconds, directOf);
    return { ...page, items: await this.#withAcknowledged(agentId, page.items) };
  }

  /** The message with this time. An inbox has at most one. */
  async at(agentId: string, tsMs: number): Promise<DirectMessage | undefined> {
    const { redis, keys } = this.#options;
    const [member] = await withRedis(() => redis.commands.zrangebyscore(keys.inbox(agentId), tsMs, tsMs));
    return member === undefined ? undefined : (await this.#withAcknowledged(agentId, [directOf(member)]))[0];
  }

  async pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>> {
    const { redis, keys, limits, nowMs } = this.#options;
    const fromMs = Math.max(afterMs, nowMs() - limits.directRetentionSeconds * 1000);
    const members = await runScript(redis.commands, 'stoaPending', [
      keys.inbox(agentId),
      keys.acknowledged(agentId),
      keys.pending(agentId),
      fromMs,
      limit + 1,
    ]);
    // The script returns members of the inbox.
    return pageOf((members as string[]).map(directOf), limit);
  }

  async acknowledge(agentId: string, ids: readonly string[]): Promise<number> {
    const { redis, keys, limits, scores } = this.#options;
    const inbox = keys.inbox(agentId);
    const members = await Promise.all([...new Set(ids)].map((id) => scores.find(inbox, id)));
    const found = members
      .flatMap((member) => (member === undefined ? [] : [directOf(member)]))
      .flatMap(({ id, tsMs }) => [tsMs, id]);
    if (found.length === 0) return 0;
    const args = [
      inbox,
      keys.acknowledged(agentId),
      keys.pending(agentId),
      limits.directRetentionSeconds * 1000,
      ...found,
    ];
    return Number(await runScript(redis.commands, 'stoaAcknowledge', args));
  }

  async #withAcknowledged(agentId: string, messages: readonly DirectMessage[]): Promise<DirectMessage[]> {
    const { redis, keys } = this.#options;
    if (messages.length === 0) return [];
    const scores = await withRedis(() =>
      redis.commands.zmscore(keys.acknowledged(agentId), ...messages.map(({ id }) => id)),
    );
    return messages.map((message, index) => ({ ...message, acknowledged: (scores[index] ?? null) !== null }));
  }
}
