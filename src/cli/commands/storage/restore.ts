/** `stoa restore`: makes a new data directory from a chain of backups. */
import { join, resolve } from 'node:path';
import { StoaError } from '../../../core/errors.js';
import { type RestorePoint, restorePosition } from '../../../operations/model.js';
import { keyFileName } from '../../../secrets/secrets.js';
import { type Action, type Options, textOption } from '../../definitions/definition.js';

export const restore: Action = async ({ output, settings }, [directory = ''], options) => {
  const { config } = settings(options);
  const to = pointOf(options);
  const withKey = options['withKey'] === true;
  const { directoryArchive } = await import('../../../homes/directory/archive.js');
  const data = resolve(config.data);
  const { hasKey, ...report } = await output.working('Restoring', ({ update }) =>
    directoryArchive.restore({
      directory: resolve(directory),
      target: data,
      name: textOption(options, 'name'),
      engine: config.engine ?? undefined,
      to,
      withKey,
      onProgress: update,
    }),
  );
  output.value({ data, ...report, with_key: withKey });
  if (withKey)
    output.warn(
      `The key ring was restored to ${join(data, keyFileName)}: a reader of this file can decrypt every secret.`,
    );
  else if (hasKey)
    output.say('The backups contain the key ring, which was not restored. --with-key restores it too.');
  else
    output.say(
      `Secrets cannot be decrypted until ${keyFileName} of the old directory is copied to ${data}. Copy it before the first start.`,
    );
  output.say(`Start it with: stoa up --data ${data}`);
};

/** A position of the change feed, or its numbers alone (`12.7.9` with three shards); anything else is a time. */
function pointOf(options: Options): RestorePoint | undefined {
  const to = textOption(options, 'to');
  if (to === undefined) return undefined;
  if (restorePosition.test(to)) return { position: to };
  const timeMs = /^\d{4}-\d\d-\d\d/.test(to) ? Date.parse(to) : Number.NaN;
  if (Number.isNaN(timeMs))
    throw new StoaError(
      'invalid_request',
      `--to must be a position of the change feed, like 4711, or a time, like 2026-01-31T12:00:00Z, got "${to}".`,
    );
  return { timeMs };
}
