/** `stoa config`: every setting, its value and where the value came from. */
import type { Action } from '../../definitions/definition.js';

export const config: Action = async ({ output, settings }, _args, options) => {
  const { rows, warnings } = settings(options);
  if (output.json) {
    output.value(Object.fromEntries(rows.map(({ name, value, origin }) => [name, { value, origin }])));
  } else {
    output.list(
      { items: rows },
      [
        ['SETTING', (row) => row.name],
        ['VALUE', (row) => row.value],
        ['FROM', (row) => row.origin],
      ],
      '',
    );
  }
  for (const warning of warnings) output.warn(warning);
};
