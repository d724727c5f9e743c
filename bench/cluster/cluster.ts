/**
 * One Stoa on PostgreSQL and Redis, with one server and with several, against pg-boss and LangGraph's
 * PostgresStore. All of them use the same PostgreSQL, which syncs every commit; Redis syncs every write.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Bench, Row } from '../frame.js';
import { installPackages } from '../packages.js';
import { startPostgres } from '../postgres-server.js';
import { startRedis } from '../redis.js';
import { commitRows } from './commits.js';
import { documentRows } from './documents.js';
import { lagRows } from './lag.js';
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

const compared = [
  '@langchain/langgraph-checkpoint-postgres@1.0.5',
  '@langchain/core@^1.1.44',
  '@langchain/langgraph-checkpoint@^1.1.4',
  'pg-boss@10.4.2',
];

/** The groups of rows. `npm run bench -- cluster/tasks` measures one of them. */
const parts = {
  trips: tripRows,
  documents: documentRows,
  tasks: taskRows,
  commits: commitRows,
  lag: lagRows,
  'processor-time': processorRows,
} satisfies Record<string, (place: Place) => Promise<Row[]>>;

export type ClusterPart = keyof typeof parts;

/** All parts, or some of them. */
export const clusterBench = (names: readonly ClusterPart[] = Object.keys(parts) as ClusterPart[]): Bench => ({
  name: 'cluster',
  run: async (directory) => {
    const packages = installPackages(join(directory, 'packages'), compared);
    const postgres = await startPostgres();
    const redis = await startRedis(join(directory, 'redis'));
    try {
      const place: Place = {
        postgres: postgres.url,
        redis: redis.url,
        secretKeys: randomBytes(32).toString('hex'),
        packages,
      };
      const rows: Row[] = [];
      for (const name of names) rows.push(...(await parts[name](place)));
      return rows;
    } finally {
      await redis.stop();
      await postgres.stop();
    }
  },
});
