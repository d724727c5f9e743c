/** `stoa find`: searches documents, tasks and messages. */
import { markedText } from '../../find/excerpt.js';
import type { FindMode } from '../../find/model.js';
import { type Action, jsonOption, numberOption, textOption } from '../definitions/definition.js';
import { type Column, type Output, counted } from '../output/output.js';

interface Hit {
  kind: string;
  namespace?: string | undefined;
  key?: string | undefined;
  room_id?: string | undefined;
  room?: string | undefined;
  id?: string | undefined;
  score: number | null;
  excerpt: string;
  marks: [number, number][];
  time: string;
}

const columnsFor = (output: Output): readonly Column<Hit>[] => [
  ['SCORE', ({ score }) => (score === null ? '' : score.toFixed(2))],
  ['KIND', ({ kind }) => kind],
  ['PLACE', (hit) => placeOf(hit, output)],
  ['UPDATED', ({ time }) => time],
  ['TEXT', ({ excerpt, marks }) => markedText({ text: excerpt, marks })],
];

export const find: Action = async ({ connect, output }, [...given], options) => {
  // Commander passes a variadic argument as one list.
  const words = given.flat().join(' ');
  const kinds = textOption(options, 'in')?.split(',');
  const connection = await connect();
  const page = await connection.call('find.query', {
    q: words === '' ? undefined : words,
    // The server checks the names of the kinds.
    in: kinds as ('data' | 'tasks' | 'messages')[] | undefined,
    // The server checks the mode too.
    mode: textOption(options, 'mode') as FindMode | undefined,
    namespace: textOption(options, 'namespace'),
    prefix: textOption(options, 'prefix'),
    project: textOption(options, 'project'),
    room: textOption(options, 'room'),
    agent: textOption(options, 'by'),
    since: textOption(options, 'since'),
    until: textOption(options, 'until'),
    // The server checks that it is an object.
    filter: jsonOption(options, 'filter', '{"status": "open"}') as Record<string, never> | undefined,
    sort: textOption(options, 'sort'),
    limit: numberOption(options, 'limit'),
    cursor: textOption(options, 'cursor'),
  });
  output.list(page, columnsFor(output), 'Nothing found.');
  if (!page.examined_all) output.say('The search stopped at a limit. --cursor continues it.');
};

export const reindex: Action = async ({ connect, output }, _words, options) => {
  const connection = await connect();
  const report = await output.working('Filing', (progress) =>
    connection.work('find.reindex', { namespace: textOption(options, 'namespace') }, (step) =>
      progress.update(step, 'entries'),
    ),
  );
  if (output.json) output.value(report);
  else output.say(`Filed ${counted(report.filed, 'entry', 'entries')} again, and removed ${report.removed}.`);
};

/** A key is shown whole, and ids are short. The id of a task is enough to find it. */
function placeOf({ namespace, key, room_id: roomId, room, id = '' }: Hit, output: Output): string {
  if (namespace !== undefined) return `${namespace}/${key ?? ''}`;
  const inRoom = room ?? (roomId === undefined ? undefined : output.id(roomId));
  return inRoom === undefined ? output.id(id) : `${inRoom}/${output.id(id)}`;
}
