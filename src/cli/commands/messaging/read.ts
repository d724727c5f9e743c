/** `stoa read`: the messages of a room. `stoa watch room` follows new messages. */
import type { RoomMessage } from '../../../client/index.js';
import { type Action, numberOption, textOption } from '../../definitions/definition.js';
import { printable } from '../../output/printable.js';
import { roomKey } from './rooms.js';

export const read: Action = async ({ connect, output }, [room = ''], options) => {
  const connection = await connect();
  const key = roomKey(options);
  const thread = textOption(options, 'thread');
  const limit = numberOption(options, 'limit');
  const page =
    thread === undefined
      ? await connection.call('rooms.read', { room, key, limit, before: numberOption(options, 'before') })
      : await connection.call('rooms.thread', { room, message: thread, key, limit });
  const messages = thread === undefined ? page.messages.toReversed() : page.messages;
  if (output.json) output.value({ items: messages });
  else for (const message of messages) output.line({}, textOf(message));
  if (messages.length === 0) output.say('The room has no recent messages.');
};

function textOf({ ts, from, id, pid, body }: RoomMessage): string {
  const answered = pid === undefined ? '' : ` (to ${pid})`;
  return `${new Date(ts).toISOString()} ${from.slice(0, 8)} ${id}${answered}  ${printable(body)}`;
}
