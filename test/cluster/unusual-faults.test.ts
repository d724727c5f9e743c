/** Faults beside those of the cluster test: frozen servers, an emptied Redis, no free connection, two adopters. */
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { type RunningServer, useProgram } from '../cli/program.js';
import type { HaltingServer } from '../servers/child.js';
import { startGate } from '../servers/gate.js';
import { start as startPostgres } from '../servers/postgres.js';
import { start as startRedis } from '../servers/redis.js';
import { noteServer } from '../servers/shared.js';

const program = useProgram();
const patience = { timeout: 30_000, interval: 50 };
const connectionsMax = 40;
const frozenMs = Number(process.env['FROZEN_SECONDS'] ?? 3) * 1_000;
const token = randomBytes(32).toString('hex');
const environment = {
  STOA_SECRET_KEYS: randomBytes(32).toString('hex'),
  STOA_OPERATOR_TOKEN: token,
  STOA_RATE_LIMIT_ALLOW: '127.0.0.0/8',
};
let database: HaltingServer;
let redis: HaltingServer;
let servers: [RunningServer, RunningServer];

beforeAll(async () => {
  [database, redis] = await Promise.all([
    startPostgres({ settings: { max_connections: String(connectionsMax) } }),
    startRedis(),
  ]);
  for (const { describe } of [database, redis]) await noteServer(describe);
  servers = await Promise.all([up(), up()]);
});
afterAll(async () => {
  await redis?.stop();
  await database?.stop();
});

function up(url = database.url): Promise<RunningServer> {
  return program.up(program.path('none'), ['--postgres', url, '--redis', redis.url], environment);
}

function clientOf({ url }: RunningServer, itsToken = token): Stoa {
  return new Stoa({ url, token: itsToken, ...(itsToken === token && { user: 'ada' }), attemptsMax: 1 });
}

it('while a server is frozen the others number the feed, and afterwards it accepts no token that was revoked', async () => {
  const [frozen, other] = servers;
  const operator = clientOf(other);
  const created = await operator.admin.tokens.create('ada', {});
  const reader = clientOf(frozen, created.token);
  await reader.data('n').set('before', 1);
  await reader.data('n').get('before');
  const { position } = await operator.changes.read({ back: 1 });
  process.kill(frozen.pid, 'SIGSTOP');
  try {
    const from = performance.now();
    while (performance.now() - from < frozenMs) {
      const key = `during ${Math.round(performance.now())}`;
      await operator.data('n').set(key, 1);
      await vi.waitFor(async () => {
        const { items } = await operator.changes.read({ since: position, limit: 1_000 });
        expect(items.map(({ facts }) => facts?.['key'])).toContain(key);
      }, patience);
    }
    await operator.admin.tokens.revoke('ada', { token: 'all' });
  } finally {
    process.kill(frozen.pid, 'SIGCONT');
  }
  await expect(reader.data('n').get('before')).rejects.toMatchObject({ status: 401 });
  await expect(reader.data('n').set('after', 1)).rejects.toMatchObject({ status: 401 });
});

it('while a server is frozen inside a write the others go on, and their writes of its rows are accepted later', async () => {
  const other = clientOf(servers[1]).data('frozen');
  for (let round = 0; round < 2; round += 1) await other.set('locked', 'before');
  const ended = new AbortController();
  const isEnded = new Promise<void>((resolve) => ended.signal.addEventListener('abort', () => resolve()));
  let holds = false;
  const gate = await startGate(database.url, {
    hold: (sent) => (holds && sent.includes('commit\0') ? isEnded : undefined),
  });
  const sql = postgres(database.url, { max: 1 });
  const frozen = await up(gate.url);
  try {
    holds = true;
    const unknown = clientOf(frozen)
      .data('frozen')
      .update('locked', () => 'unknown');
    const outcome = Promise.allSettled([unknown]);
    // Its statements are done, and its commit is not.
    await vi.waitFor(
      async () =>
        expect(
          await sql`SELECT FROM pg_stat_activity WHERE state = 'idle in transaction' AND query ~ 'INTO feed.incoming'`,
        ).not.toHaveLength(0),
      patience,
    );
    process.kill(frozen.pid, 'SIGSTOP');
    const written: string[] = [];
    const set = (key: string): Promise<unknown> => other.set(key, 'after').then(() => written.push(key));
    const all = Array.from({ length: 20 }, (_, at) => [set('locked'), set(`free ${at}`)]).flat();
    await Promise.all(all);
    // None of the others waited for the row that is locked.
    expect(written.indexOf('locked')).toBe(20);
    process.kill(frozen.pid, 'SIGCONT');
    expect(await outcome).toMatchObject([{ status: 'rejected' }]);
    expect(await other.get('locked')).toBe('after');
  } finally {
    process.kill(frozen.pid, 'SIGCONT');
    ended.abort();
    await frozen.end('SIGKILL');
    await sql.end();
    await gate.close();
  }
});

it('an emptied Redis loses messages and nothing else', async () => {
  const [stoa, other] = servers.map((server) => clientOf(server)) as [Stoa, Stoa];
  await stoa.room('hall').post('gone');
  const client = new Redis(redis.url);
  await client.flushall();
  client.disconnect();
  await stoa.room('hall').post('first');
  await other.room('hall').post('second');
  const bodies = async (): Promise<string[]> =>
    (await other.room('hall').read()).items.map(({ body }) => body);
  await vi.waitFor(async () => expect((await bodies()).toSorted()).toEqual(['first', 'second']), patience);
  // A server that starts now finds no name of a Stoa in Redis.
  const third = await up();
  await clientOf(third).room('hall').post('third');
  expect((await bodies()).toSorted()).toEqual(['first', 'second', 'third']);
  await third.end('SIGTERM');
});

it('without a free connection requests are answered, and everything works again afterwards', async () => {
  const stoa = clientOf(servers[0]);
  const hogs = Array.from({ length: connectionsMax }, () =>
    postgres(database.url, { max: 1, onnotice: () => undefined, idle_timeout: 0 }),
  );
  try {
    await Promise.allSettled(hogs.map((hog) => hog`SELECT 1`));
    const asked = Array.from({ length: 60 }, (_, index) =>
      stoa
        .data('full')
        .set(`k${index}`, index)
        .then(
          () => 'accepted',
          (error: { code?: string }) => error.code ?? String(error),
        ),
    );
    const outcomes = new Set(await Promise.all(asked));
    for (const outcome of outcomes)
      expect(['accepted', 'backend_unavailable', 'overloaded']).toContain(outcome);
    expect((await fetch(`${servers[0].url}/livez`)).status).toBe(200);
  } finally {
    await Promise.allSettled(hogs.map((hog) => hog.end({ timeout: 1 })));
  }
  await vi.waitFor(async () => void (await stoa.data('full').set('after', 1)), patience);
});
