/** `stoa inspect`: the families of the store and their raw entries. */
import { type Action, pageQuery, textOption } from '../../definitions/definition.js';
import { sizeText } from '../../output/output.js';

export const inspect: Action = async ({ connect, output }, [family], options) => {
  const connection = await connect();
  if (family === undefined) {
    const page = await connection.call('server.listFamilies', {});
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
  const page = await connection.call('server.listEntries', {
    family,
    prefix: textOption(options, 'prefix'),
    ...pageQuery(options),
  });
  output.list(
    page,
    [
      ['KEY', (entry) => entry.key],
      ['DECODED', (entry) => entry.decoded ?? `0x${entry.value}`],
    ],
    `Nothing in ${family}.`,
  );
};
