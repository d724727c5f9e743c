/** `stoa config`: every setting, its value and where the value came from. */
import { loadConfig } from '../../../core/settings/config.js';
import type { Action } from '../../definitions/definition.js';
import { settingFlags } from '../../definitions/setting-flags.js';

export const config: Action = async ({ output, globals }, _args, options) => {
  const { rows, warnings } = loadConfig({
    flags: settingFlags({ ...globals, ...options }),
    environment: process.env,
  });
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
