/** `stoa read`: what was said in a room, and what is being said. */
import { type Action, numberOption, textOption } from '../definition.js';
import type { RoomMessage } from '../../client/index.js';
import type { Output } from '../output.js';
import { printable } from '../printable.js';
import { roomHeaders, roomKey, roomPath } from './rooms.js';
import { untilInterrupted } from './watch.js';

export const read: Action = async ({ connect, output }, [room = ''], options) => {
  const connection = await connect();
  const headers = roomHeaders(options);
  const thread = textOption(options, 'thread');
  const query = { limit: numberOption(options, 'limit'), before: numberOption(options, 'before') };
  const page =
    thread === undefined
      ? await connection.call<{ messages: RoomMessage[] }>('GET', roomPath(room), { query, headers })
      : await connection.call<{ messages: RoomMessage[] }>(
          'GET',
          `${roomPath(room)}/${encodeURIComponent(thread)}/thread`,
          { query, headers },
        );
  const messages = thread === undefined ? page.messages.toReversed() : page.messages;
  if (options['follow'] !== true) {
    if (output.json) output.value({ items: messages });
    else for (const message of messages) show(output, message);
    if (messages.length === 0) output.say('Nothing was said here lately.');
    return;
  }
  for (const message of messages) show(output, message);
  const live = (await connection.client()).room(room, roomKey(options));
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
