/** `stoa read`: what was said in a room, and what is being said. */
import { type Action, numberOption, textOption } from '../definition.js';
import type { RoomMessage } from '../../client/index.js';
import type { Output } from '../output.js';
import { printable } from '../printable.js';
import { roomKey } from './rooms.js';
import { untilInterrupted } from './watch.js';

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
  if (options['follow'] !== true) {
    if (output.json) output.value({ items: messages });
    else for (const message of messages) show(output, message);
    if (messages.length === 0) output.say('Nothing was said here lately.');
    return;
  }
  for (const message of messages) show(output, message);
  const live = (await connection.client()).room(room, key);
  await untilInterrupted(async (signal) => {
    // An empty room is followed from its beginning, so that nothing is missed.
    for await (const message of live.stream({ signal, after: messages.at(-1)?.ts ?? 0 }))
      show(output, message);
  });
};

function show(output: Output, message: RoomMessage): void {
  const answered = message.pid === undefined ? '' : ` (to ${message.pid})`;
  output.line(
    message,
    `${new Date(message.ts).toISOString()} ${message.from.slice(0, 8)} ${message.id}${answered}  ${printable(message.body)}`,
  );
}
