/** `stoa up` on databases that cannot keep its promises: a clear refusal, and nothing half-made. */
import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { useProgram } from '../cli/program.js';
import { openStoa } from '../../src/index.js';
import { type HaltingServer, freePort } from '../servers/child.js';
import { startGate } from '../servers/gate.js';
import { type PostgresServer, start as startPostgres } from '../servers/postgres.js';
import { start as startRedis } from '../servers/redis.js';
import { noteServer, emptyPostgres } from '../servers/shared.js';
import { eventually } from '../until.js';

const program = useProgram();
const key = randomBytes(32).toString('hex');
let redis: HaltingServer;
let postgres: PostgresServer;

beforeAll(async () => {
  redis = await startRedis();
  postgres = await startPostgres({ hba: ['host all locked 127.0.0.1/32 scram-sha-256'] });
  await Promise.all([redis, postgres].map(({ describe }) => noteServer(describe)));
});
afterAll(async () => {
  await redis?.stop();
  await postgres?.stop();
});

interface Given {
  redisUrl?: string;
  keys?: string;
  more?: Record<string, string>;
}

async function refusal(
  postgres: string,
  { redisUrl = redis.url, keys = key, more = {} }: Given = {},
): Promise<{ code: string; detail: string; fix?: string }> {
  const ended = await program.stoa(
    ['up', '--postgres', postgres, '--redis', redisUrl, '--port', '0', '--json'],
    { environment: { ...(keys !== '' && { STOA_SECRET_KEYS: keys }), ...more } },
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

async function redisKeys(url = redis.url): Promise<string[]> {
  const client = new Redis(url);
  try {
    return await client.keys('*');
  } finally {
    client.disconnect();
  }
}

/** Neither database has anything that was not there before. */
async function expectNothingMade(url: string): Promise<void> {
  expect(await tablesIn(url)).toBe(0);
  expect(await redisKeys()).toEqual([]);
}

/** A database of a Stoa that was started once, and a Redis of its own. */
async function startedOnce(redisUrl: string): Promise<string> {
  const { url } = await emptyPostgres();
  const first = program.follow(['up', '--postgres', url, '--redis', redisUrl, '--port', '0', '--json'], {
    environment: { STOA_SECRET_KEYS: key },
  });
  await eventually(() => expect(first.lines(), first.stderr()).toHaveLength(1));
  await first.end();
  return url;
}

async function tablesIn(url: string): Promise<number> {
  const [row] = await run<{ count: number }>(
    url,
    `SELECT count(*)::integer AS count FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
  );
  return row?.count ?? -1;
}

it('a database that does not exist', async () => {
  const missing = new URL((await emptyPostgres()).url);
  missing.pathname = '/no_such_database';
  const { code, detail, fix } = await refusal(missing.href);
  expect(code).toBe('invalid_config');
  expect(detail).toContain('no_such_database');
  expect(fix).toContain('createdb');
  expect(await redisKeys()).toEqual([]);
});

it('a user that the database does not know', async () => {
  const stranger = new URL((await emptyPostgres()).url);
  stranger.username = 'stranger';
  const { code, detail, fix } = await refusal(stranger.href);
  expect(code).toBe('invalid_config');
  expect(detail).toContain('stranger');
  expect(fix).toContain('user');
});

it('a wrong password', async () => {
  await run(postgres.url, "CREATE ROLE locked LOGIN PASSWORD 'right'");
  const locked = new URL(postgres.url);
  [locked.username, locked.password] = ['locked', 'wrong-and-secret'];
  const { code, detail, fix } = await refusal(locked.href);
  expect(code).toBe('invalid_config');
  expect(detail).toContain('locked');
  expect(JSON.stringify([detail, fix])).not.toContain('wrong-and-secret');
  expect(fix).toContain('password');
  await expectNothingMade(postgres.url);
});

it('PostgreSQL 15', async () => {
  const { url } = await emptyPostgres();
  // A real server whose answer to the question for its version is changed on the way: 16.x becomes 15.x.
  const gate = await startGate(url, { rewrite: replacing(/16(?=00\d\d)/g, '15') });
  try {
    const { code, detail, fix } = await refusal(gate.url);
    expect(code).toBe('unsupported');
    expect(detail).toBe('The database is PostgreSQL 15. Stoa needs 16 or newer.');
    expect(fix).toContain('Upgrade');
    await expectNothingMade(url);
  } finally {
    await gate.close();
  }
});

it('a database that is read-only', async () => {
  const { url } = await emptyPostgres();
  const name = new URL(url).pathname.slice(1);
  await run(url, `ALTER DATABASE "${name}" SET default_transaction_read_only = on`);
  const { code, detail, fix } = await refusal(url);
  expect(code).toBe('unsupported');
  expect(detail).toContain('read-only');
  expect(fix).toContain('primary');
  await expectNothingMade(url);
});

it('a standby', async () => {
  const standby = await startPostgres();
  try {
    await standby.halt();
    await standby.resumeAsStandby();
    const { code, detail, fix } = await refusal(standby.url);
    expect(code).toBe('unsupported');
    expect(detail).toContain('standby');
    expect(fix).toContain('primary');
    await expectNothingMade(standby.url);
  } finally {
    await standby.stop();
  }
});

it('Redis 6', async () => {
  const { url } = await emptyPostgres();
  const gate = await startGate(redis.url, { rewrite: replacing(/redis_version:\d/g, 'redis_version:6') });
  try {
    const { code, detail, fix } = await refusal(url, { redisUrl: gate.url });
    expect(code).toBe('unsupported');
    expect(detail).toMatch(/^The Redis server is 6\..* Stoa needs 7 or newer\.$/);
    expect(fix).toContain('Upgrade');
    await expectNothingMade(url);
  } finally {
    await gate.close();
  }
});

it.each(['allkeys-lru', 'volatile-ttl'])(
  'a Redis that drops messages when it is full: %s',
  async (policy) => {
    const { url } = await emptyPostgres();
    const dropping = await startRedis(['--maxmemory', '100mb', '--maxmemory-policy', policy]);
    try {
      const { code, detail, fix } = await refusal(url, { redisUrl: dropping.url });
      expect(code).toBe('unsupported');
      expect(detail).toContain(policy);
      expect(fix).toContain('noeviction');
      await expectNothingMade(url);
      expect(await redisKeys(dropping.url)).toEqual([]);
    } finally {
      await dropping.stop();
    }
  },
);

it('a Redis that wants a password', async () => {
  const { url } = await emptyPostgres();
  const locked = await startRedis(['--requirepass', 'right']);
  try {
    const { code, fix } = await refusal(url, { redisUrl: locked.url });
    expect(code).toBe('invalid_config');
    expect(fix).toContain('password');
    await expectNothingMade(url);
  } finally {
    await locked.stop();
  }
});

it('no key ring', async () => {
  const { url } = await emptyPostgres();
  const { code, detail, fix } = await refusal(url, { keys: '' });
  expect(code).toBe('invalid_config');
  expect(detail).toContain('STOA_SECRET_KEYS');
  expect(fix).toMatch(/ STOA_SECRET_KEYS=[0-9a-f]{64}$/);
  await expectNothingMade(url);
});

it('a short token of the operator', async () => {
  const { url } = await emptyPostgres();
  const { code, detail } = await refusal(url, { more: { STOA_OPERATOR_TOKEN: 'short' } });
  expect(code).toBe('invalid_config');
  expect(detail).not.toContain('short');
  await expectNothingMade(url);
});

it.each([
  ['ahead', 90_000],
  ['behind', -90_000],
])('a clock that is a minute and a half %s', async (where, byMs) => {
  const { url } = await emptyPostgres();
  const turned = `const now=Date.now;Date.now=()=>now()+(${byMs})`;
  const { code, detail, fix } = await refusal(url, {
    more: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(turned)}` },
  });
  expect(code).toBe('invalid_config');
  expect(detail).toMatch(new RegExp(`clock of this server is (89|90|91) s ${where}`));
  expect(fix).toContain('NTP');
  await expectNothingMade(url);
});

it("a table that is not AICQ's under its name", async () => {
  const { url } = await emptyPostgres();
  await run(url, 'CREATE TABLE rooms (number integer)');
  const { code, detail, fix } = await refusal(url);
  expect(code).toBe('invalid_data');
  expect(detail).toContain('"rooms"');
  expect(fix).toContain('another database');
  expect(await tablesIn(url)).toBe(1);
});

it('another key ring, tables of a newer program, and a Redis that belongs to another Stoa', async () => {
  const own = await startRedis();
  try {
    const url = await startedOnce(own.url);
    const before = await tablesIn(url);
    const other = await refusal(url, { redisUrl: own.url, keys: randomBytes(32).toString('hex') });
    expect(other.code).toBe('invalid_config');
    expect(other.detail).toContain('STOA_SECRET_KEYS');
    expect(await run(url, 'SELECT 1 FROM cluster.secret_keys')).toHaveLength(1);

    await run(url, "INSERT INTO stoa_migrations (domain, step) VALUES ('commits', 99)");
    const newer = await refusal(url, { redisUrl: own.url });
    expect(newer.code).toBe('newer_data');
    expect(newer.detail).toContain('commits');
    await run(url, 'DELETE FROM stoa_migrations WHERE step = 99');

    const { url: fresh } = await emptyPostgres();
    const taken = await refusal(fresh, { redisUrl: own.url });
    expect(taken.code).toBe('conflict');
    expect(taken.fix).toContain('another Redis');
    await expectNothingMade(fresh);
    expect(await tablesIn(url)).toBe(before);
  } finally {
    await own.stop();
  }
});

it('a database that does not answer is waited for, and then refused', async () => {
  const port = await freePort();
  const waits: string[] = [];
  await expect(
    openStoa({
      postgres: `postgres://stoa@127.0.0.1:${port}/stoa`,
      redis: redis.url,
      secretKeys: key,
      limits: { backendStartSecondsMax: 1.5 },
      onError: (_error, about) => waits.push(about),
    }),
  ).rejects.toMatchObject({ code: 'backend_unavailable', fix: expect.any(String) });
  expect(waits).toEqual(['waiting up to 1.5 s for PostgreSQL (backendStartSecondsMax)']);
  const { url } = await emptyPostgres();
  await expect(
    openStoa({
      postgres: url,
      redis: `redis://127.0.0.1:${port}`,
      secretKeys: key,
      limits: { backendStartSecondsMax: 1.5 },
      onError: () => undefined,
    }),
  ).rejects.toMatchObject({ code: 'backend_unavailable' });
  await expectNothingMade(url);
});

it('a server that starts before its databases reports that it waits, and starts when they are up', async () => {
  const [late, later] = [await startPostgres(), await startRedis()];
  await Promise.all([late.halt(), later.halt()]);
  try {
    const server = program.follow(
      ['up', '--postgres', late.url, '--redis', later.url, '--port', '0', '--json'],
      { environment: { STOA_SECRET_KEYS: key } },
    );
    await eventually(() => expect(server.stderr()).toContain('waiting up to 60 s for PostgreSQL'));
    await late.resume();
    await eventually(() => expect(server.stderr()).toContain('waiting up to 60 s for Redis'));
    await later.resume();
    await eventually(() => expect(server.lines(), server.stderr()).toHaveLength(1));
    await server.end();
  } finally {
    await late.stop();
    await later.stop();
  }
});

/** The same number of bytes with another text in them. */
function replacing(pattern: RegExp, text: string): (answer: Buffer) => Buffer {
  return (answer) => Buffer.from(answer.toString('latin1').replaceAll(pattern, text), 'latin1');
}
