/** `stoa restore`: a chain of backups into a new data directory. */
import { join, resolve } from 'node:path';
import { loadConfig } from '../../core/settings/config.js';
import { StoaError } from '../../core/errors.js';
import type { RestorePoint } from '../../operations/model.js';
import { keyFileName } from '../../secrets/secrets.js';
import { type Action, type Options, textOption } from '../definitions/definition.js';
import { settingFlags } from '../definitions/setting-flags.js';

export const restore: Action = async ({ output, globals }, [directory = ''], options) => {
  const { config } = loadConfig({
    flags: settingFlags({ ...globals, ...options }),
    environment: process.env,
  });
  const to = pointOf(options);
  const withKey = options['withKey'] === true;
  const { directoryArchive } = await import('../../homes/directory/archive.js');
  const data = resolve(config.data);
  const progress = output.progress('Restoring');
  try {
    const { hasKey, ...report } = await directoryArchive.restore({
      directory: resolve(directory),
      target: data,
      name: textOption(options, 'name'),
      engine: config.engine ?? undefined,
      to,
      withKey,
      onProgress: (step) => progress.update(step),
    });
    progress.end();
    output.value({ data, ...report, with_key: withKey });
    if (withKey)
      output.warn(
        `The key ring was restored to ${join(data, keyFileName)}: everybody who can read it can read every secret.`,
      );
    else if (hasKey)
      output.say('The backups hold the key ring; it was left there. With --with-key it is restored too.');
    else
      output.say(
        `Secrets stay unreadable until ${keyFileName} of the old directory is copied to ${data}, before the first start.`,
      );
    output.say(`Start it with: stoa up --data ${data}`);
  } finally {
    progress.end();
  }
};

/** `--to 4711` is a position of the change feed (`12.7.9` with three shards), everything else a time. */
function pointOf(options: Options): RestorePoint | undefined {
  const to = textOption(options, 'to');
  if (to === undefined) return undefined;
  if (/^\d+(\.\d+)*$/.test(to)) return { position: to };
  const timeMs = /^\d{4}-\d\d-\d\d/.test(to) ? Date.parse(to) : Number.NaN;
  if (Number.isNaN(timeMs))
    throw new StoaError(
      'invalid_request',
      `--to must be a position of the change feed, like 4711, or a time, like 2026-01-31T12:00:00Z, not "${to}".`,
    );
  return { timeMs };
}
