/** The data store in PostgreSQL against LangGraph's PostgresStore, on the same server. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { messageOf } from '../src/core/errors.js';
import { operatorCaller } from '../src/core/caller.js';
import { openStoa } from '../src/index.js';
import { type Bench, byTurns, rateInFlight } from './frame.js';
import { startPostgres } from './postgres-server.js';

const inFlight = 64;
const keys = 2_000;
const turns = 9;
const milliseconds = 1_000;
const packages = [
  '@langchain/langgraph-checkpoint-postgres@1.0.5',
  '@langchain/core@^1.1.44',
  '@langchain/langgraph-checkpoint@^1.1.4',
];

/** What is used of the other store. */
interface OtherStore {
  setup(): Promise<void>;
  put(namespace: string[], key: string, value: Record<string, unknown>): Promise<void>;
  get(namespace: string[], key: string): Promise<unknown>;
  stop(): Promise<void> | void;
  readonly core: {
    readonly pool: {
      readonly totalCount: number;
      on(event: 'error' | 'remove', listener: (error?: unknown) => void): void;
    };
  };
}

export const datastorePostgresBench: Bench = {
  name: 'datastore-postgres',
  run: async (directory) => {
    const server = await startPostgres();
    try {
      const other = await openOther(join(directory, 'packages'), server.url);
      // As a server opens it: with the feed, whose rows are written by the same statements.
      const stoa = await openStoa({ data: '', engine: 'memory', datastore: server.url });
      const { data } = stoa;
      const caller = operatorCaller('bench');
      const value = { title: 'result', note: 'x'.repeat(900), tags: ['a', 'b'] };
      let number = 0;
      const key = () => `key-${(number += 1) % keys}`;
      const puts = await byTurns(
        turns,
        () => rateInFlight(inFlight, () => data.set(caller, 'bench', key(), value), milliseconds),
        () => rateInFlight(inFlight, () => other.put(['bench'], key(), value), milliseconds),
      );
      const gets = await byTurns(
        turns,
        () => rateInFlight(inFlight, () => data.get(caller, 'bench', key()), milliseconds),
        () => rateInFlight(inFlight, () => other.get(['bench'], key()), milliseconds),
      );
      await stoa.close();
      await stopOther(other);
      return [
        {
          what: `postgres: set of 1 KB, ${inFlight} in flight / PostgresStore put`,
          ...puts,
          unit: 'writes/s',
          target: { atLeast: 2 },
        },
        {
          what: `postgres: get of 1 KB, ${inFlight} in flight / PostgresStore get`,
          ...gets,
          unit: 'reads/s',
          target: { atLeast: 2 },
        },
      ];
    } finally {
      await server.stop();
    }
  },
};

/** Installed beside the data sets, because only this bench needs it. */
async function openOther(directory: string, url: string): Promise<OtherStore> {
  if (!existsSync(join(directory, 'node_modules'))) {
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, 'package.json'), '{"private": true}');
    const { status, stderr } = spawnSync('npm', ['install', '--no-audit', '--no-fund', ...packages], {
      cwd: directory,
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`npm could not install what to compare with:\n${stderr}`);
  }
  const path = createRequire(join(directory, 'package.json')).resolve(
    '@langchain/langgraph-checkpoint-postgres/store',
  );
  // The package is not installed where this is compiled.
  const { PostgresStore } = (await import(pathToFileURL(path).href)) as {
    PostgresStore: { fromConnString(url: string): OtherStore };
  };
  const store = PostgresStore.fromConnString(url);
  // An idle connection that the server ends is an event of its pool, and one that nobody hears would end the process.
  store.core.pool.on('error', (error) =>
    process.emitWarning(`a connection of PostgresStore was lost: ${messageOf(error)}`),
  );
  await store.setup();
  return store;
}

/** Its pool has ended before its connections have: a server that is stopped meanwhile cuts them off. */
async function stopOther(store: OtherStore): Promise<void> {
  const { pool } = store.core;
  let connections = pool.totalCount;
  const ended = new Promise<void>((resolve) => {
    if (connections === 0) resolve();
    pool.on('remove', () => {
      connections -= 1;
      if (connections === 0) resolve();
    });
  });
  await store.stop();
  await ended;
}
