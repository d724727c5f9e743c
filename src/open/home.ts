/** Opens the home that the options name. */
import { StoaError } from '../core/errors.js';
import { openDirectoryHome } from '../homes/directory/home.js';
import type { GroupFacts } from '../homes/directory/kernel/store-options.js';
import type { Home, HomeOptions } from '../homes/home.js';
import type { StoaOptions } from './stoa.js';

export async function openHome(
  options: StoaOptions,
  common: HomeOptions & { readonly onGroup: (group: GroupFacts) => void },
): Promise<Home> {
  const { data, postgres, redis, engine, shards, storeConfig, secretKeys, clock, backups } = options;
  if (typeof postgres === 'string') {
    if (typeof redis !== 'string')
      throw new StoaError(
        'invalid_config',
        'The URL of Redis is missing. A Stoa on PostgreSQL needs a Redis beside it.',
        { fix: 'Set --redis to its redis:// URL.' },
      );
    const { openPostgresHome } = await import('../homes/postgres/open.js');
    return openPostgresHome({
      ...common,
      postgres,
      redis,
      secretKeys: secretKeys ?? undefined,
      operatorToken: options.operatorToken ?? undefined,
      clock,
    });
  }
  if (data === undefined)
    throw new StoaError(
      'invalid_config',
      'There is no home: neither a data directory nor PostgreSQL is given.',
      { fix: 'Set `data` to a directory, or `postgres` and `redis` to their URLs.' },
    );
  return openDirectoryHome({
    ...common,
    data,
    engine,
    shards,
    storeConfig,
    secretKeys: secretKeys ?? undefined,
    clock,
    backups,
  });
}
