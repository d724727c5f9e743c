/** `stoa reshard`: copies a closed data directory into a new one with another number of shards. */
import { resolve } from 'node:path';
import { StoaError } from '../../../core/errors.js';
import { type Action, numberOption, textOption } from '../../definitions/definition.js';

export const reshard: Action = async ({ output, settings }, _args, options) => {
  const { config } = settings();
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
  const { limits } = config;
  const report = await output.working('Re-sharding', ({ update }) =>
    reshardDirectory({ from, to: resolve(to), shards, limits, onProgress: update }),
  );
  output.value({ from, to: resolve(to), ...report });
  output.say(`Every entry was counted and compared. Start it with: stoa up --data ${resolve(to)}`);
};
