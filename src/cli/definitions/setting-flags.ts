/** Selects the settings from the parsed flags. */
import type { ConfigSources } from '../../core/settings/config.js';
import { settingNames } from '../../core/settings/settings.js';
import type { Options } from './definition.js';

export function settingFlags(options: Options): NonNullable<ConfigSources['flags']> {
  return Object.fromEntries(
    [...settingNames, 'config']
      .map((name) => [name, options[name]])
      .filter(([, value]) => value !== undefined),
  );
}
