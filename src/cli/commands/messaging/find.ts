/** `stoa find`: searches the public rooms. */
import { type Action, numberOption, textOption } from '../../definitions/definition.js';
import type { Column } from '../../output/output.js';

interface Result {
  id: string;
  room_name: string;
  from: string;
  body: string;
  ts: number;
}

const columns: readonly Column<Result>[] = [
  ['AT', (result) => result.ts],
  ['ROOM', (result) => result.room_name],
  ['FROM', (result) => result.from.slice(0, 8)],
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
  const { results } = await (await connect()).call('rooms.find', input);
  output.list({ items: results }, columns, 'Nothing found.');
};
