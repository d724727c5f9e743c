/** `stoa find`: searches the public rooms. */
import { type Action, numberOption, textOption } from '../../definitions/definition.js';
import { authorNames } from '../../connection/author-names.js';
import type { Column } from '../../output/output.js';

interface Result {
  id: string;
  room_name: string;
  from: string;
  body: string;
  ts: number;
}

const columnsWith = (nameOf: (identity: string) => string): readonly Column<Result>[] => [
  ['AT', (result) => result.ts],
  ['ROOM', (result) => result.room_name],
  ['FROM', (result) => nameOf(result.from)],
  ['ID', (result) => result.id],
  ['BODY', (result) => result.body],
];

export const find: Action = async ({ connect, output }, [q = ''], options) => {
  const input = {
    q,
    room: textOption(options, 'room'),
    limit: numberOption(options, 'limit'),
    after: numberOption(options, 'after'),
  };
  const connection = await connect();
  const { results } = await connection.call('aicqRooms.find', input);
  const items = options['tail'] === true ? results.toReversed() : results;
  const columns = columnsWith(output.json ? String : await authorNames(connection, items));
  output.list({ items }, columns, 'Nothing found.');
};
