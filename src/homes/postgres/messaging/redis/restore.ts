/**
 * Imports messages into Redis unchanged, with their ids and times. They expire when they would have expired
 * before.
 */
import type { Limits } from '../../../../core/settings/limits.js';
import type { DirectMessage, Message, Room } from '../../../../messaging/model.js';
import { type RoomKeep, retentionOf, searchedSeconds } from '../../../../messaging/rooms/visibility.js';
import { roomWords } from '../../../../messaging/messages/tokenizer.js';
import type { RedisKeys } from './keys.js';
import { type RedisConnection, runScript, withRedis } from './connection.js';
import { keepAtLeast, noteRoomChange } from './room-change.js';
import { directMember, messageMember } from './stored-message.js';

export interface RestoreOptions {
  redis: RedisConnection;
  keys: RedisKeys;
  limits: Limits;
  nowMs: () => number;
}

/** The life of a room's message count in Redis, the same as after a post. */
const countLifeMs = 7 * 24 * 3600 * 1000;

/** Writes a message with its thread and words. It replaces `before`, a message with the same time. */
export async function restoreMessage(
  { redis, keys, limits, nowMs }: RestoreOptions,
  room: Room,
  message: Message,
  before: Message | undefined,
): Promise<void> {
  const { id, roomId, rootId, tsMs, body } = message;
  const member = `${roomId}:${id}`;
  if (before !== undefined) await removeFromIndexes(redis, keys, room, before);
  const retentionMs = retentionOf(room, limits) * 1000;
  const args = [
    keys.messages(roomId),
    keys.roomClock(roomId),
    keys.thread(roomId, rootId ?? 'none'),
    nowMs(),
    retentionMs,
    tsMs,
    messageMember(message),
    rootId === null ? '' : id,
  ];
  const stored = await runScript(redis.commands, 'stoaRestore', args);
  const lifeMs = tsMs + searchedSeconds(room, limits) * 1000 - nowMs();
  if (stored !== 1 || lifeMs <= 0) return;
  await Promise.all(
    roomWords(room, body).map((word) =>
      runScript(redis.commands, 'stoaRestoreWord', [keys.word(word), lifeMs, tsMs, member]),
    ),
  );
}

async function removeFromIndexes(
  redis: RedisConnection,
  keys: RedisKeys,
  room: Room,
  { id, roomId, rootId, body }: Message,
): Promise<void> {
  await withRedis(async () => {
    if (rootId !== null) await redis.commands.zrem(keys.thread(roomId, rootId), id);
    await Promise.all(
      roomWords(room, body).map((word) => redis.commands.zrem(keys.word(word), `${roomId}:${id}`)),
    );
  });
}

export async function restoreDirect(
  { redis, keys, limits, nowMs }: RestoreOptions,
  message: DirectMessage,
): Promise<void> {
  const { id, to, tsMs, acknowledged } = message;
  if (!acknowledged) await withRedis(() => redis.commands.zrem(keys.acknowledged(to), id));
  await runScript(redis.commands, 'stoaRestore', [
    keys.inbox(to),
    keys.inboxClock(to),
    keys.acknowledged(to),
    nowMs(),
    limits.directRetentionSeconds * 1000,
    tsMs,
    directMember(message),
    acknowledged ? id : '',
  ]);
  // The next read builds the list of pending messages again from the inbox.
  await withRedis(() => redis.commands.del(keys.pending(to)));
}

/**
 * Raises the room's clock and message count to the imported values. Called in the transaction that writes the room,
 * whose key can be another one now.
 */
export async function restoreRoomCounters(
  options: RestoreOptions,
  room: RoomKeep,
  lastTsMs: number,
  messageCount: number,
): Promise<void> {
  const { redis, keys, limits, nowMs } = options;
  const roomId = room.id;
  const lifeMs = lastTsMs + retentionOf(room, limits) * 1000 - nowMs();
  if (lifeMs > 0) await runScript(redis.commands, 'stoaRaise', [keys.roomClock(roomId), lastTsMs, lifeMs]);
  await runScript(redis.commands, 'stoaRaise', [keys.roomCount(roomId), messageCount, countLifeMs]);
  await keepAtLeast(options, room, [keys.messages(roomId)]);
  await noteRoomChange(options, roomId, 'changed');
}

/** The newest time of a message in the room, or 0 if Redis no longer has it. */
export async function roomTimeMs({ redis, keys }: RestoreOptions, roomId: string): Promise<number> {
  return Number((await withRedis(() => redis.commands.get(keys.roomClock(roomId)))) ?? 0);
}
