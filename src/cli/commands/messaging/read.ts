/** `stoa read`: the messages of a room. `stoa watch room` follows new messages. */
import type { RoomMessage } from '../../../client/index.js';
import { type Action, type Options, numberOption, textOption } from '../../definitions/definition.js';
import type { Column } from '../../output/output.js';
import { printable } from '../../output/printable.js';
import { shortId } from '../../output/short-ids.js';

export const read: Action = async ({ connect, output }, [room = ''], options) => {
  const connection = await connect();
  const thread = textOption(options, 'thread');
  const { items } = await connection.call('messages.list', {
    room,
    key: roomKey(options),
    limit: numberOption(options, 'limit'),
    before: textOption(options, 'before'),
    thread,
  });
  // The page of a thread begins with its first message.
  const newestFirst = thread === undefined ? items : items.toReversed();
  const messages = options['tail'] === true ? newestFirst.toReversed() : newestFirst;
  const hasReplies = messages.some(({ pid }) => pid !== undefined);
  output.list(
    { items: messages },
    hasReplies ? columns : columns.filter(([heading]) => heading !== 'REPLY_TO'),
    'The room has no recent messages.',
    'BODY',
  );
};

const columns: readonly Column<RoomMessage>[] = [
  ['AT', ({ ts }) => ts],
  ['FROM', authorText],
  ['ID', ({ id }) => id],
  ['REPLY_TO', ({ pid }) => pid],
  ['BODY', ({ body }) => body],
];

/** The name of the author, marked unless it is an agent of the same user. */
export function authorText({
  from,
  from_name,
  proven,
}: Pick<RoomMessage, 'from' | 'from_name' | 'proven'>): string {
  const name = from_name === null || from_name === '' ? shortId(from) : printable(from_name);
  return proven === 'member' ? name : `${name} (${proven})`;
}

/** A variable does not show the key in the list of processes. */
export function roomKey(options: Options): string | undefined {
  return textOption(options, 'key') ?? process.env['STOA_ROOM_KEY'];
}
