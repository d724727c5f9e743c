/** `stoa inspect`: the families of the store and their raw entries. */
import { type Action, numberOption, textOption } from '../definition.js';
import { sizeText } from '../output.js';

interface Family {
  family: string;
  entries: number;
  size_bytes: number;
  estimated: boolean;
}

interface Entry {
  key: string;
  value: string;
  decoded: unknown;
}

export const inspect: Action = async ({ connect, output }, [family], options) => {
  const connection = await connect();
  if (family === undefined) {
    const page = await connection.call<{ items: Family[] }>('GET', '/v1/inspect');
    output.list(
      page,
      [
        ['FAMILY', (row) => row.family],
        ['ENTRIES', (row) => `${row.estimated ? '~' : ''}${row.entries}`],
        ['SIZE', (row) => sizeText(row.size_bytes)],
      ],
      'No families.',
    );
    return;
  }
  const query = {
    prefix: textOption(options, 'prefix'),
    limit: numberOption(options, 'limit'),
    cursor: textOption(options, 'cursor'),
  };
  const page = await connection.call<{ items: Entry[]; next_cursor: string | null }>(
    'GET',
    `/v1/inspect/${encodeURIComponent(family)}`,
    { query },
  );
  output.list(
    page,
    [
      ['KEY', (entry) => entry.key],
      ['DECODED', (entry) => entry.decoded ?? `0x${entry.value}`],
    ],
    `Nothing in ${family}.`,
  );
};
