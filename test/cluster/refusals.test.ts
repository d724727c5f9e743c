/** `stoa up` on databases that cannot keep its promises: a clear refusal, and nothing half-made. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { useProgram } from '../cli/program.js';
import { type HaltingServer, freePort } from '../servers/child.js';
import { start as startRedis } from '../servers/redis.js';
import { noteServer, sharedPostgres } from '../servers/shared.js';

const program = useProgram();
const key = randomBytes(32).toString('hex');
let redis: HaltingServer;
let dropping: HaltingServer;

beforeAll(async () => {
  redis = await startRedis();
  dropping = await startRedis(['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']);
  await noteServer(redis.describe);
});
afterAll(async () => {
  await redis?.stop();
  await dropping?.stop();
});

async function refusal(
  postgres: string,
  { redisUrl = redis.url, keys = key }: { redisUrl?: string; keys?: string } = {},
): Promise<{ code: string; detail: string; fix?: string }> {
  const ended = await program.stoa(
    ['up', '--postgres', postgres, '--redis', redisUrl, '--port', '0', '--json'],
    { environment: keys === '' ? {} : { STOA_SECRET_KEYS: keys } },
  );
  expect(ended.status, ended.stderr).not.toBe(0);
  return ended.error();
}

async function run<Row extends object>(url: string, statement: string): Promise<Row[]> {
  const { default: postgres } = await import('postgres');
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  try {
    return await sql.unsafe<Row[]>(statement);
  } finally {
    await sql.end();
  }
}

async function tablesIn(url: string): Promise<number> {
  const [row] = await run<{ count: number }>(
    url,
    `SELECT count(*)::integer AS count FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
  );
  return row?.count ?? -1;
}

it('a database that does not exist', async () => {
  const missing = new URL((await sharedPostgres()).url);
  missing.pathname = '/no_such_database';
  const { code, detail, fix } = await refusal(missing.href);
  expect(code).toBe('invalid_config');
  expect(detail).toContain('no_such_database');
  expect(fix).toContain('createdb');
});

it('a user that the database does not know', async () => {
  const stranger = new URL((await sharedPostgres()).url);
  stranger.username = 'stranger';
  const { code, detail, fix } = await refusal(stranger.href);
  expect(code).toBe('invalid_config');
  expect(detail).toContain('stranger');
  expect(fix).toContain('user');
});

it('a key ring without the key that the database uses', async () => {
  const { url } = await sharedPostgres();
  const first = program.follow(['up', '--postgres', url, '--redis', redis.url, '--port', '0', '--json'], {
    environment: { STOA_SECRET_KEYS: key },
  });
  await vi.waitFor(() => expect(first.lines(), first.stderr()).toHaveLength(1), { timeout: 30_000 });
  await first.end();
  const { code, detail } = await refusal(url, { keys: randomBytes(32).toString('hex') });
  expect(code).toBe('invalid_config');
  expect(detail).toContain('STOA_SECRET_KEYS');
});

it('a database that does not answer', async () => {
  const { code, fix } = await refusal(`postgres://stoa@127.0.0.1:${await freePort()}/stoa`);
  expect(code).toBe('backend_unavailable');
  expect(fix).toBeDefined();
});

it('a database that is read-only', async () => {
  const { url } = await sharedPostgres();
  const name = new URL(url).pathname.slice(1);
  await run(url, `ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
  const { code, detail, fix } = await refusal(url);
  expect(code).toBe('unsupported');
  expect(detail).toContain('read-only');
  expect(fix).toContain('primary');
  expect(await tablesIn(url)).toBe(0);
});

it('a Redis that drops messages when it is full', async () => {
  const { url } = await sharedPostgres();
  const { code, detail, fix } = await refusal(url, { redisUrl: dropping.url });
  expect(code).toBe('unsupported');
  expect(detail).toContain('allkeys-lru');
  expect(fix).toContain('noeviction');
  expect(await tablesIn(url)).toBe(0);
});

it('a Redis that does not answer', async () => {
  const { url } = await sharedPostgres();
  const { code } = await refusal(url, { redisUrl: `redis://127.0.0.1:${await freePort()}` });
  expect(code).toBe('backend_unavailable');
  expect(await tablesIn(url)).toBe(0);
});

it('no key ring', async () => {
  const { url } = await sharedPostgres();
  const { code, detail, fix } = await refusal(url, { keys: '' });
  expect(code).toBe('invalid_config');
  expect(detail).toContain('STOA_SECRET_KEYS');
  expect(fix).toContain('openssl rand');
  expect(await tablesIn(url)).toBe(0);
});
