/** Documents: `set` and `get` of 1 KB against LangGraph's PostgresStore. */
import { messageOf } from '../../src/core/errors.js';
import { operatorCaller } from '../../src/core/caller.js';
import { openStoa } from '../../src/index.js';
import { type Row, byTurns, rateInFlight } from '../frame.js';
import type { Place } from './cluster.js';
import { importFrom } from '../packages.js';

const inFlight = 64;
const keys = 10_000;
const turns = 9;
const milliseconds = 1_000;

interface PostgresStore {
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

export async function documentRows(place: Place): Promise<Row[]> {
  const other = await openOther(place);
  const stoa = await openStoa(place);
  const { data } = stoa;
  const caller = operatorCaller('bench');
  const value = { title: 'result', note: 'x'.repeat(900), tags: ['a', 'b'] };
  const key = (): string => `key-${Math.floor(Math.random() * keys)}`;
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
  const about = `of 1 KB among ${keys} keys, ${inFlight} in flight`;
  return [
    { what: `set ${about} / PostgresStore put`, ...puts, unit: 'writes/s', target: { atLeast: 2 } },
    { what: `get ${about} / PostgresStore get`, ...gets, unit: 'reads/s', target: { atLeast: 2 } },
  ];
}

async function openOther({ packages, postgres }: Place): Promise<PostgresStore> {
  const name = '@langchain/langgraph-checkpoint-postgres/store';
  const module = await importFrom<{ PostgresStore: { fromConnString(url: string): PostgresStore } }>(
    packages,
    name,
  );
  const store = module.PostgresStore.fromConnString(postgres);
  // An idle connection that the server closes is an event of the pool. Without a listener it would end the
  // process.
  store.core.pool.on('error', (error) =>
    process.emitWarning(`a connection of PostgresStore was lost: ${messageOf(error)}`),
  );
  await store.setup();
  return store;
}

/** `stop` resolves before the connections are closed; the server must not stop before that. */
async function stopOther(store: PostgresStore): Promise<void> {
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
