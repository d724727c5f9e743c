/** Redis remembers each delivery of a commit's message, so that a second attempt finds the first message. */
import type { Limits } from '../../../../core/settings/limits.js';
import type { Delivered, Delivery } from '../../../../messaging/port.js';
import type { RedisKeys } from './keys.js';
import { type RedisConnection, withRedis } from './connection.js';

/** Twice the time in which a delivery is tried: the record outlives the last attempt. */
export function deliveryKeptMs(limits: Limits): number {
  return 2 * limits.commitDeliverySecondsMax * 1000;
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
