/**
 * How often the hot operations wait for PostgreSQL: each answer of the server that the next request follows
 * is one trip.
 */
import { documentsOf } from '../../../src/homes/postgres/datastore/counts.js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { DataService } from '../../../src/datastore/service.js';
import { type PostgresSql, query } from '../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../src/homes/postgres/database/pool.js';
import { DatabaseClock } from '../../../src/homes/postgres/database/database-clock.js';
import { PostgresDataStore } from '../../../src/homes/postgres/datastore/datastore.js';
import { dataTables } from '../../../src/homes/postgres/datastore/sql.js';
import { findTables } from '../../../src/homes/postgres/find/schema.js';
import { feedTables } from '../../../src/homes/postgres/feed/schema.js';
import { migrate } from '../../../src/homes/postgres/database/migrate.js';
import { registryTables } from '../../../src/homes/postgres/registry/schema.js';
import { openPostgresWorkspaces } from '../../../src/homes/postgres/workspaces/open.js';
import { PostgresWriter } from '../../../src/homes/postgres/write/writer.js';
import { openSecrets } from '../../../src/secrets/secrets.js';
import { WorkspacesService } from '../../../src/workspaces/service.js';
import { sharedPostgres } from '../../servers/shared.js';
import { type Place, makePlace, makeTasks, userCaller } from '../../../src/workspaces/conformance/bench.js';
import { Trips, countingProxy } from './counting-proxy.js';
import { anyUser } from './open-domains.js';

const limits = limitsWith();
const ada = userCaller('ada');
const trips = new Trips();
let sql: PostgresSql;
let writer: PostgresWriter;
let dataPort: PostgresDataStore;
let data: DataService;
let workspaces: WorkspacesService;
let place: Place;
const tokenId = '0123456789abcdef0123';
let close: () => Promise<void>;

function onError(error: unknown, about: string): void {
  expect.unreachable(`${about}: ${String(error)}`);
}

beforeAll(async () => {
  const proxy = await countingProxy((await sharedPostgres()).url, [trips]);
  // One connection, and nothing beside the requests: the feed is not numbered, and no sweep comes.
  sql = await openPostgres(new URL(proxy.url), { limits, connectionsMax: 1 });
  const clock = new DatabaseClock(sql);
  writer = new PostgresWriter({
    sql,
    limits,
    clock,
    checkFence: async () => undefined,
    checkTables: () => undefined,
    documentsOf,
    onCommitted: () => undefined,
    onError,
  });
  await migrate(sql, feedTables);
  await writer.open();
  await migrate(sql, registryTables);
  await migrate(sql, dataTables);
  await migrate(sql, findTables);
  await query(sql, "INSERT INTO registry.owners (id, user_id) VALUES ($1, 'ada')", [`token:${tokenId}`]);
  await query(
    sql,
    "INSERT INTO registry.tokens (user_id, token_id, user_name, name, hash, purpose, is_operator, can_write, created_at) VALUES ('ada', $1, 'ada', '', '', 'api', FALSE, TRUE, now())",
    [tokenId],
  );
  const [users, { sealer }] = [anyUser(), await openSecrets({ dataDir: null })];
  dataPort = new PostgresDataStore(sql, writer, { limits, nowMs: Date.now, users, onError });
  const port = await openPostgresWorkspaces(sql, writer, {
    limits,
    clock,
    sealer,
    users,
    onError,
    sweepIntervalMs: 3_600_000,
  });
  data = new DataService({ port: dataPort, writer, limits });
  workspaces = new WorkspacesService({ writer, port, limits, sealer });
  place = await makePlace(workspaces, ada);
  close = async () => {
    await data.close();
    await workspaces.close();
    await writer.close();
    await closePostgres(sql, 1);
    proxy.close();
  };
});
afterAll(() => close());

/** The trips of the second call: the first one prepares the statements. */
async function tripsOf(act: () => Promise<unknown>): Promise<number> {
  await act();
  // What follows a commit by itself is over.
  await new Promise((resolve) => setTimeout(resolve, 50));
  trips.count = 0;
  await act();
  return trips.count;
}

it('a set takes two, one without an agent, and a get one', async () => {
  let value = 0;
  expect(await tripsOf(() => data.set(operatorCaller('ada', 'agent'), 'n', 'k', (value += 1)))).toBe(2);
  expect(await tripsOf(() => data.set(ada, 'n', 'k', (value += 1)))).toBe(1);
  expect(await tripsOf(() => data.get(ada, 'n', 'k'))).toBe(1);
});

it('a write of three documents takes three, and one that names a document twice reads it again', async () => {
  const scope = { user: 'ada', namespace: 'n' };
  const add = (key: string) =>
    dataPort.modify(scope, key, (current) => ({
      key,
      valueJson: String(Number(current?.valueJson ?? 0) + 1),
      metadata: null,
      agent: null,
      ifVersion: null,
      expiresAt: null,
    }));
  const write = (...keys: string[]) => writer.write({ caller: ada }, keys.map(add));
  expect(await tripsOf(() => write('a', 'b', 'c'))).toBe(3);
  await write('d', 'e', 'd');
  expect([await data.get(ada, 'n', 'c'), await data.get(ada, 'n', 'd')]).toEqual([2, 2]);
});

it('a write of three sets takes one, and one that sets a document twice keeps the order', async () => {
  const write = (...keys: string[]) =>
    writer.write(
      { caller: ada },
      keys.map((key, index) => data.steps.set(ada, 'joined', key, index)),
    );
  expect(await tripsOf(() => write('a', 'b', 'c'))).toBe(1);
  expect(await write('d', 'e', 'd')).toMatchObject([{ version: 1 }, { version: 1 }, { version: 2 }]);
  expect(await data.get(ada, 'joined', 'd')).toBe(2);
});

it('sets of one write that share a statement with others are refused together, without the others', async () => {
  const gone = { ...ada, tokenId: 'f'.repeat(20) };
  const set = (caller: typeof ada, key: string) => data.steps.set(caller, 'together', key, 1);
  const [refused, ...written] = await Promise.allSettled([
    writer.write({ caller: gone }, [set(gone, 'a'), set(gone, 'b')]),
    writer.write({ caller: ada }, [set(ada, 'c'), set(ada, 'd')]),
    writer.write({ caller: ada }, [set(ada, 'e')]),
  ]);
  expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'unauthenticated' } });
  expect(written).toMatchObject([
    { status: 'fulfilled', value: [{ key: 'c' }, { key: 'd' }] },
    { status: 'fulfilled', value: [{ key: 'e' }] },
  ]);
  const keys = (await data.listKeys(ada, 'together')).items.map(({ key }) => key);
  expect(keys).toEqual(['c', 'd', 'e']);
});

it('the check of a token takes no additional round trip', async () => {
  const bearer = { ...ada, tokenId };
  let value = 0;
  expect(await tripsOf(() => data.set(bearer, 'n', 'k', (value += 1)))).toBe(1);
  await makeTasks(workspaces, ada, place.sessionId, 2);
  expect(await tripsOf(() => workspaces.claimTask(bearer, place.projectId))).toBeLessThanOrEqual(3);
});

it('a claim, a heartbeat and a completion take three', async () => {
  await makeTasks(workspaces, ada, place.sessionId, 6);
  const claims: { id: string; fence: number }[] = [];
  const claim = async (): Promise<void> => {
    const claimed = await workspaces.claimTask(ada, place.projectId);
    claims.push({ id: claimed!.task.id, fence: claimed!.lease.fence });
  };
  expect(await tripsOf(claim)).toBeLessThanOrEqual(3);
  const [first] = claims;
  expect(
    await tripsOf(() => workspaces.heartbeatTask(ada, first!.id, { fence: first!.fence })),
  ).toBeLessThanOrEqual(3);
  const complete = (): Promise<unknown> => {
    const { id, fence } = claims.pop()!;
    return workspaces.completeTask(ada, id, { fence, output: 'done' });
  };
  expect(await tripsOf(complete)).toBeLessThanOrEqual(3);
});

it('a new task takes three, and the notice to other servers one', async () => {
  expect(
    await tripsOf(() => workspaces.createTask(ada, place.sessionId, { command: 'x' })),
  ).toBeLessThanOrEqual(4);
});

/** Rows of workspaces that were read so far. */
async function rowsRead(): Promise<number> {
  await query(sql, 'SELECT pg_stat_force_next_flush()');
  const [sum] = await query<{ read: string }>(
    sql,
    "SELECT sum(seq_tup_read + idx_tup_fetch) AS read FROM pg_stat_user_tables WHERE schemaname = 'workspaces'",
  );
  return Number(sum?.read);
}

it('a claim and a completion read a few rows, also of tables that PostgreSQL has no statistics of', async () => {
  await makeTasks(workspaces, ada, place.sessionId, 300);
  const before = await rowsRead();
  const claimed = await workspaces.claimTask(ada, place.projectId);
  const { id, fence } = { id: claimed!.task.id, fence: claimed!.lease.fence };
  await workspaces.completeTask(ada, id, { fence, output: 'done' });
  expect((await rowsRead()) - before).toBeLessThan(100);
});
