/** Notes in Redis that a room in PostgreSQL has changed, for posts that have read the room before. */
import type { Limits } from '../../../../core/settings/limits.js';
import { type RedisConnection, withRedis } from './connection.js';
import type { RedisKeys } from './keys.js';

/**
 * `deleted` refuses every post. `changed` (its key, its retention) makes a post that has read the room ahead read it
 * again.
 */
export type RoomChange = 'deleted' | 'changed';

/** Longer than a post waits for PostgreSQL and Redis after it has read the room. */
function keptMs({ statementSecondsMax }: Limits): number {
  return (60 + 2 * statementSecondsMax) * 1_000;
}

export async function noteRoomChange(
  { redis, keys, limits }: { redis: RedisConnection; keys: RedisKeys; limits: Limits },
  roomId: string,
  change: RoomChange,
): Promise<void> {
  await withRedis(() => redis.commands.set(keys.roomChange(roomId), change, 'PX', keptMs(limits)));
}
