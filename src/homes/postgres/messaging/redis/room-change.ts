/** Notes in Redis that a room in PostgreSQL has changed, for posts that have read the room before. */
import type { Limits } from '../../../../core/settings/limits.js';
import type { Room } from '../../../../messaging/model.js';
import { type RoomKeep, retentionOf } from '../../../../messaging/rooms/visibility.js';
import { type RedisConnection, runScript, withRedis } from './connection.js';
import type { RedisKeys } from './keys.js';

/**
 * The first word of a note. `deleted` refuses every post. After `changed` (the key, the retention) a post that has read
 * the room ahead reads it again. A changed retention is noted too, with the version of the room: every post uses it.
 */
export type RoomChange = 'deleted' | 'changed';

export interface RoomNotesOptions {
  readonly redis: RedisConnection;
  readonly keys: RedisKeys;
  readonly limits: Limits;
  readonly nowMs: () => number;
}

/** Longer than a post waits for PostgreSQL and Redis after it has read the room. */
function keptMs({ statementSecondsMax }: Limits): number {
  return (60 + 2 * statementSecondsMax) * 1_000;
}

export async function noteRoomChange(
  { redis, keys, limits }: RoomNotesOptions,
  roomId: string,
  change: RoomChange,
): Promise<void> {
  await withRedis(() => redis.commands.set(keys.roomChange(roomId), change, 'PX', keptMs(limits)));
}

/** Before the change of a room is stored: its lists live at least as long as its new retention says. */
export async function keepAtLeast(
  options: RoomNotesOptions,
  room: RoomKeep,
  lists: readonly string[],
): Promise<void> {
  await keep(options, room, lists, ['', '']);
}

/**
 * Notes the retention, and makes the lists of the room live as long as it says. Returns false if a newer version of the
 * room was noted: two servers may have stored their changes in the other order.
 */
export function keepAsLong(
  options: RoomNotesOptions,
  room: RoomKeep & Pick<Room, 'version'>,
  lists: readonly string[],
): Promise<boolean> {
  return keep(options, room, lists, [keptMs(options.limits), room.version]);
}

async function keep(
  { redis, keys, limits, nowMs }: RoomNotesOptions,
  room: RoomKeep,
  lists: readonly string[],
  note: readonly [keptMs: number, version: number] | readonly ['', ''],
): Promise<boolean> {
  const names = [keys.roomChange(room.id), keys.roomClock(room.id), ...lists];
  const retentionMs = retentionOf(room, limits) * 1000;
  const args = [names.length, ...names, nowMs(), retentionMs, ...note];
  return (await runScript(redis.commands, 'stoaKeepRoom', args)) === 1;
}
