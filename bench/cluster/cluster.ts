/**
 * One Stoa on PostgreSQL and Redis, with one server and with several, against pg-boss and LangGraph's
 * PostgresStore. All of them use the same PostgreSQL, which syncs every commit; Redis syncs every write.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Bench } from '../frame.js';
import { startPostgres } from '../postgres-server.js';
import { startRedis } from '../redis.js';
import { commitRows } from './commits.js';
import { documentRows } from './documents.js';
import { lagRows } from './lag.js';
import { installPackages } from './packages.js';
import { processorRows } from './processor-time.js';
import { taskRows } from './tasks.js';
import { tripRows } from './trips.js';

export interface Place {
  readonly postgres: string;
  readonly redis: string;
  readonly secretKeys: string;
  /** Where the packages are that Stoa is compared with. */
  readonly packages: string;
}

export const clusterBench: Bench = {
  name: 'cluster',
  run: async (directory) => {
    const packages = installPackages(join(directory, 'packages'));
    const postgres = await startPostgres();
    const redis = await startRedis(join(directory, 'redis'));
    try {
      const place: Place = {
        postgres: postgres.url,
        redis: redis.url,
        secretKeys: randomBytes(32).toString('hex'),
        packages,
      };
      return [
        ...(await tripRows(place)),
        ...(await documentRows(place)),
        ...(await taskRows(place)),
        ...(await commitRows(place)),
        ...(await lagRows(place)),
        ...(await processorRows(place)),
      ];
    } finally {
      await redis.stop();
      await postgres.stop();
    }
  },
};
