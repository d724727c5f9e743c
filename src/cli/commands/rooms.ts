/** `stoa rooms …`: what rooms there are, making them, deleting messages in them. */
import { type Action, type Options, numberOption, textOption } from '../definition.js';
import type { Column } from '../output.js';

interface Channel {
  id: string;
  name: string;
  message_count: number;
  last_active: string;
}

const columns: readonly Column<Channel>[] = [
  ['NAME', (room) => room.name],
  ['MESSAGES', (room) => room.message_count],
  ['LAST_ACTIVE', (room) => room.last_active],
  ['ID', (room) => room.id],
];

export const ls: Action = async ({ connect, output }, _args, options) => {
  const { channels, total } = await (
    await connect()
  ).call('rooms.list', { limit: numberOption(options, 'limit'), offset: numberOption(options, 'offset') });
  output.list({ items: channels }, columns, 'No public rooms.');
  if (!output.json && channels.length < total) output.say(`${channels.length} of ${total} rooms.`);
};

export const create: Action = async ({ connect, output }, [name = ''], options) => {
  const key = roomKey(options);
  output.value(
    await (
      await connect('created')
    ).call('rooms.create', { name, ...(key !== undefined && { is_private: true, key }) }),
  );
};

export const deleteMessage: Action = async ({ connect, output }, [room = '', message = ''], options) => {
  await (await connect()).call('rooms.deleteMessage', { room, message, key: roomKey(options) });
  output.done({ deleted: message }, `Deleted ${message}.`);
};

/** A variable keeps the key out of the list of processes. */
export function roomKey(options: Options): string | undefined {
  return textOption(options, 'key') ?? process.env['STOA_ROOM_KEY'];
}
