/** `stoa reshard`: copies a closed data directory into a new one with another number of shards. */
import { resolve } from 'node:path';
import { loadConfig } from '../../../core/settings/config.js';
import { StoaError } from '../../../core/errors.js';
import { type Action, numberOption, textOption } from '../../definitions/definition.js';
import { settingFlags } from '../../definitions/setting-flags.js';

export const reshard: Action = async ({ output, globals }, _args, options) => {
  const { config } = loadConfig({ flags: settingFlags(globals), environment: process.env });
  const shards = numberOption(options, 'shards');
  const to = textOption(options, 'to');
  if (shards === undefined || to === undefined)
    throw new StoaError('invalid_request', '--to or --shards is missing.', {
      fix: 'Run: stoa reshard --from ./data --to ./data-8 --shards 8',
    });
  if (shards < 1 || shards > config.limits.shardsMax)
    throw new StoaError(
      'invalid_request',
      `Invalid --shards ${shards}. Expected 1 to ${config.limits.shardsMax} (shardsMax).`,
    );
  const from = resolve(textOption(options, 'from') ?? config.data);
  const { reshardDirectory } = await import('../../../homes/directory/reshard.js');
  const progress = output.progress('Re-sharding');
  try {
    const report = await reshardDirectory({
      from,
      to: resolve(to),
      shards,
      limits: config.limits,
      onProgress: (step) => progress.update(step),
    });
    progress.end();
    output.value({ from, to: resolve(to), ...report });
    output.say(`Every entry was counted and compared. Start it with: stoa up --data ${resolve(to)}`);
  } finally {
    progress.end();
  }
};
