/** `stoa restore`: a chain of backups into a new data directory. */
import { resolve } from 'node:path';
import { loadConfig } from '../../config.js';
import { StoaError } from '../../errors.js';
import type { RestorePoint } from '../../kernel/restore.js';
import { type Action, type Options, textOption } from '../definition.js';
import { Progress } from '../progress.js';
import { settingFlags } from '../setting-flags.js';

export const restore: Action = async ({ output, globals }, [directory = ''], options) => {
  const { config } = loadConfig({ flags: settingFlags({ ...globals, ...options }), environment: process.env });
  const to = pointOf(options);
  const [{ restore: restoreBackup }, { embeddedFamilies }] = await Promise.all([import('../../kernel/restore.js'), import('../../backends/embedded/families.js')]);
  const progress = new Progress('Restoring');
  try {
    const report = await restoreBackup({
      directory: resolve(directory),
      target: resolve(config.data),
      families: embeddedFamilies,
      name: textOption(options, 'name'),
      engine: config.engine ?? undefined,
      to,
      onProgress: (step) => progress.update(step),
    });
    progress.end();
    output.value({ data: resolve(config.data), ...report });
    output.say('Start it with: stoa up --data ' + resolve(config.data));
  } finally {
    progress.end();
  }
};

function pointOf(options: Options): RestorePoint | undefined {
  const [position, time] = [textOption(options, 'toPosition'), textOption(options, 'toTime')];
  if (position !== undefined && time !== undefined) throw new StoaError('invalid_request', '--to-position and --to-time exclude each other.');
  if (position !== undefined) return { position };
  if (time === undefined) return undefined;
  const timeMs = Date.parse(time);
  if (Number.isNaN(timeMs)) throw new StoaError('invalid_request', `--to-time must be like 2026-01-31T12:00:00Z, not "${time}".`);
  return { timeMs };
}
