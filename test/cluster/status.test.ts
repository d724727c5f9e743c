/** What the operator sees of many servers on one home, while servers and databases stop and freeze. */
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { LiveServer } from '../../src/operations/model.js';
import { version } from '../../src/version.js';
import { type Following, useProgram } from '../cli/program.js';
import type { HaltingServer } from '../servers/child.js';
import { start as startPostgres } from '../servers/postgres.js';
import { start as startRedis } from '../servers/redis.js';
import { noteServer } from '../servers/shared.js';
import { eventually } from '../until.js';

const program = useProgram();
const token = randomBytes(32).toString('hex');
let postgres: HaltingServer;
let redis: HaltingServer;
let followed: Following[] = [];
let urls: string[] = [];
let pids: number[] = [];

beforeAll(async () => {
  [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
  await Promise.all([postgres, redis].map(({ describe }) => noteServer(describe)));
  const environment = {
    STOA_SECRET_KEYS: randomBytes(32).toString('hex'),
    STOA_OPERATOR_TOKEN: token,
    STOA_LIMIT_STATEMENT_SECONDS_MAX: '5',
  };
  const args = ['up', '--postgres', postgres.url, '--redis', redis.url, '--port', '0', '--json'];
  followed = [program.follow(args, { environment }), program.follow(args, { environment })];
  for (const server of followed)
    await eventually(() => expect(server.lines(), server.stderr()).toHaveLength(1), 200);
  const lines = followed.map((server) => server.lines<{ url: string; pid: number }>()[0]);
  urls = lines.map((line) => line?.url ?? '');
  pids = lines.map((line) => line?.pid ?? 0);
});
afterAll(async () => {
  await Promise.all(followed.map((server) => server.end()));
  await redis?.stop();
  await postgres?.stop();
});

async function status(): Promise<{
  servers: LiveServer[];
  families: Record<string, { size_bytes: number }>;
  outbox: { waiting: number; oldest_waiting_seconds: number };
}> {
  const answer = await fetch(`${urls[0]}/v1/status`, { headers: { authorization: `Bearer ${token}` } });
  return (await answer.json()) as Awaited<ReturnType<typeof status>>;
}

async function probe(path: string): Promise<[status: number, body: Record<string, unknown>]> {
  const answer = await fetch(`${urls[0]}${path}`);
  return [answer.status, (await answer.json()) as Record<string, unknown>];
}

it('shows every live server, and no longer one that is frozen', async () => {
  // A server that has just started may be a commit behind; it stores its lag every two seconds.
  await eventually(
    async () =>
      expect((await status()).servers.map(({ feed_lag_commits }) => feed_lag_commits)).toEqual([0, 0]),
    200,
  );
  const { servers, outbox, families } = await status();
  for (const table of ['public.agent_data_store', 'registry.agents', 'workspaces.tasks', 'feed.commits'])
    expect(families[table]?.size_bytes, table).toBeGreaterThan(0);
  expect(servers.map(({ url }) => url).toSorted()).toEqual(urls.toSorted());
  for (const server of servers) {
    expect(server).toMatchObject({ version, pool_total: 10, feed_lag_ms: 0 });
    expect(pids).toContain(server.process_id);
    expect(server.seen_ms_ago).toBeLessThan(10_000);
  }
  expect(outbox).toMatchObject({ waiting: 0, oldest_waiting_seconds: 0 });
  const shown = await program.stoa(['status'], {
    environment: { STOA_URL: urls[0] ?? '', STOA_TOKEN: token },
  });
  for (const url of urls) expect(shown.stdout).toMatch(new RegExp(`${url} +${version} .* in .* ms .*/10 `));
  const frozen = pids[1] ?? 0;
  process.kill(frozen, 'SIGSTOP');
  try {
    await eventually(
      async () => expect((await status()).servers.map(({ url }) => url)).toEqual([urls[0]]),
      200,
    );
  } finally {
    process.kill(frozen, 'SIGCONT');
  }
  await eventually(async () => expect((await status()).servers).toHaveLength(2), 200);
});

it('measures servers, connections, the outbox and the lag of the feed', async () => {
  const text = await (await fetch(`${urls[0]}/metrics`)).text();
  for (const line of [
    'stoa_servers 2',
    'stoa_pool_size 10',
    'stoa_pool_waiting 0',
    'stoa_commit_outbox_waiting 0',
    String.raw`stoa_tasks\{status="failed"\} 0`,
    String.raw`stoa_agents\{state="error"\} 0`,
  ])
    expect(text).toMatch(new RegExp(`^${line}$`, 'm'));
  for (const name of [
    'stoa_documents',
    'stoa_pool_busy',
    'stoa_commit_outbox_oldest_seconds',
    'stoa_feed_tail_lag_commits',
    'stoa_leases',
  ])
    expect(text).toMatch(new RegExp(`^${name} \\d`, 'm'));
});

it('shows how far a server is behind the feed', async () => {
  const { default: connect } = await import('postgres');
  const sql = connect(postgres.url, { max: 2, onnotice: () => undefined });
  try {
    // Nobody can number or look, and commits are added meanwhile.
    await sql.begin(async (tx) => {
      await tx.unsafe('LOCK TABLE feed.incoming IN ACCESS EXCLUSIVE MODE');
      await sql.unsafe(`WITH added AS (
          INSERT INTO feed.commits (seq, at_ms, size_bytes, changes)
            SELECT last_seq + n, floor(extract(epoch FROM clock_timestamp()) * 1000) - 700, 2, '[]'
            FROM feed.extent, generate_series(1, 5) AS n RETURNING 1)
        UPDATE feed.extent SET last_seq = last_seq + 5, size_bytes = size_bytes + 10`);
      await eventually(async () => {
        const rows = await sql.unsafe<{ commits: string; ms: string }[]>(
          'SELECT feed_lag_commits AS commits, feed_lag_ms AS ms FROM cluster.servers',
        );
        expect(rows.map(({ commits }) => Number(commits))).toEqual([5, 5]);
        for (const { ms } of rows) expect(Number(ms)).toBeGreaterThanOrEqual(700);
      }, 200);
    });
  } finally {
    await sql.end();
  }
  await eventually(
    async () => expect((await status()).servers.map((server) => server.feed_lag_commits)).toEqual([0, 0]),
    200,
  );
});

it('is ready but degraded without Redis, and alive all the time', async () => {
  await redis.halt();
  try {
    await eventually(
      async () =>
        expect(await probe('/readyz')).toEqual([
          200,
          {
            status: 'ok',
            degraded: ['redis'],
            reasons: { redis: expect.stringMatching(/^Redis is not reachable|did not answer/) as string },
          },
        ]),
      200,
    );
    expect((await probe('/livez'))[0]).toBe(200);
    expect(await probe('/health')).toMatchObject([
      503,
      { checks: { postgres: { status: 'pass' }, redis: { status: 'fail' } } },
    ]);
    // Longer than a lookup of a blocked address is reused.
    const endsAtMs = Date.now() + 2_500;
    while (Date.now() < endsAtMs) {
      const answer = await fetch(`${urls[0]}/v1/agents`, { headers: { authorization: `Bearer ${token}` } });
      expect(answer.status, await answer.text()).toBe(200);
    }
    expect((await status()).servers).toHaveLength(2);
    const answer = await fetch(`${urls[1]}/v1/commit`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ operations: [{ op: 'room.post', room: 'global', body: 'kept' }] }),
    });
    expect(await answer.json()).toMatchObject({ ok: true, results: [{ queued: true }] });
    expect((await status()).outbox.waiting).toBe(1);
  } finally {
    await redis.resume();
  }
  await eventually(async () => expect(await probe('/readyz')).toEqual([200, { status: 'ok' }]), 200);
  await eventually(async () => expect((await status()).outbox.waiting).toBe(0), 200);
  expect(await probe('/room/global')).toMatchObject([200, { messages: [{ body: 'kept' }] }]);
});

it('is ready but degraded while Redis is full', async () => {
  const client = new Redis(redis.url);
  try {
    await client.config('SET', 'maxmemory', '1mb');
    const reason = 'Redis is full: its maxmemory is used up. Nothing was stored.';
    await eventually(
      async () =>
        expect(await probe('/readyz')).toEqual([
          200,
          { status: 'ok', degraded: ['redis'], reasons: { redis: reason } },
        ]),
      200,
    );
    expect(await probe('/health')).toMatchObject([
      503,
      { checks: { redis: { status: 'fail', message: reason } } },
    ]);
  } finally {
    await client.config('SET', 'maxmemory', '0');
    client.disconnect();
  }
  await eventually(async () => expect(await probe('/readyz')).toEqual([200, { status: 'ok' }]), 200);
});

it('is not ready without PostgreSQL, and alive all the time', async () => {
  await postgres.halt();
  try {
    await eventually(
      async () => expect(await probe('/readyz')).toEqual([503, { status: 'unavailable' }]),
      200,
    );
    expect((await probe('/livez'))[0]).toBe(200);
    expect(await probe('/health')).toMatchObject([
      503,
      { checks: { postgres: { status: 'fail' }, redis: { status: 'pass' } } },
    ]);
    expect((await fetch(`${urls[0]}/metrics`)).status).toBe(200);
  } finally {
    await postgres.resume();
  }
  await eventually(async () => expect(await probe('/readyz')).toEqual([200, { status: 'ok' }]), 200);
  await eventually(async () => expect((await status()).servers).toHaveLength(2), 200);
});
