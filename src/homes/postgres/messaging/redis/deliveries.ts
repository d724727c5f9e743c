/**
 * Redis remembers each delivery of a commit's message, and each message under an Idempotency-Key, so that a
 * second attempt finds the first message.
 */
import type { Limits } from '../../../../core/settings/limits.js';
import type { Delivered, NewDirectMessage, NewMessage } from '../../../../messaging/port.js';
import type { RedisKeys } from './keys.js';
import { type RedisConnection, withRedis } from './connection.js';

/** Twice the time in which a delivery is tried, or as long as a key counts: the record outlives the last attempt. */
export function deliveryKeptMs({ commitDeliverySecondsMax, idempotencySeconds }: Limits): number {
  return Math.max(2 * commitDeliverySecondsMax, idempotencySeconds) * 1000;
}

/** A message that a commit has promised. */
export interface Delivery {
  id: string;
  message: NewMessage | NewDirectMessage;
}

/** How a message is written. */
export interface MessageDelivery {
  /** The name under which Redis remembers the message; null if no repeat is expected. */
  readonly delivery: string | null;
  /**
   * How the bytes count against the author's limit for a minute. `limited`: more than the limit is refused.
   * `promised`: they count, but are never refused, because the commit is done. `counted`: the commit counted
   * them.
   */
  readonly bytes: 'limited' | 'promised' | 'counted';
  /** The room was read ahead: if it has changed since, the message is prepared again. */
  readonly isReadAhead?: boolean;
}

/**
 * The id and time of a message that was delivered before. Check this before anything else: the room or the
 * parent may have been deleted since then.
 */
export async function deliveredBefore(
  { redis, keys }: { readonly redis: RedisConnection; readonly keys: RedisKeys },
  { id, message }: Delivery,
): Promise<Delivered | undefined> {
  const key =
    'roomId' in message ? keys.roomDelivery(message.roomId, id) : keys.inboxDelivery(message.to, id);
  const [messageId, ts] = (await withRedis(() => redis.commands.get(key)))?.split(' ') ?? [];
  return messageId === undefined ? undefined : { id: messageId, tsMs: Number(ts) };
}
