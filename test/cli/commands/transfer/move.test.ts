/** `stoa move` as a person runs it: between homes, and for documents between a home and a store. */
import { spawn } from 'node:child_process';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { withoutPassword } from '../../../../src/core/text/printable-url.js';
import { openStoa } from '../../../../src/index.js';
import type { TestServer } from '../../../servers/child.js';
import { withDatabase } from '../../../servers/postgres.js';
import { start as startRedis } from '../../../servers/redis.js';
import {
  builtProgram,
  noteServer,
  sharedKeys,
  emptyPostgres,
  sharedServer,
  uniqueName,
} from '../../../servers/shared.js';
import { contentsOf, fillWhole } from '../../../transfer/move-kit.js';
import { useCommands } from '../../command-host.js';

const { path, stoa, up } = useCommands();
const environment = { STOA_SECRET_KEYS: sharedKeys };
let redis: TestServer;
let contents: string[];
let postgres: string;

interface Line {
  phase?: string;
  type?: string;
  done?: number;
  total?: number | null;
  verified?: boolean;
  records?: number;
  copied?: number;
  types?: Record<string, { records: number }>;
}

function linesOf(stdout: string): Line[] {
  return stdout
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);
}

const toPostgres = (from: string, ...more: string[]) =>
  stoa(['move', '--from', from, '--to', postgres, '--redis', redis.url, ...more], { environment });
const fromPostgres = (to: string, ...more: string[]) =>
  stoa(['move', '--from', postgres, '--from-redis', redis.url, '--to', to, ...more], { environment });

/** Ten pages of a move and more, so that it can be ended in the middle. */
const documents = 2_400;

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
  const source = await openStoa({ data: path('source') });
  await fillWhole(source);
  await source.close();
  const lines = Array.from({ length: documents }, (_, index) =>
    JSON.stringify({
      userId: `user-${index % 3}`,
      namespace: 'n:s',
      key: `k/${index}`,
      value: { index, text: 'x'.repeat(200) },
      metadata: { z: 1, a: 2 },
      accessCount: index,
      createdAt: '2026-02-05T10:00:00',
      updatedAt: '2026-02-05T10:00:00.123456Z',
    }),
  );
  await writeFile(path('documents.ndjson'), lines.join('\n'));
  await stoa(['import', '--documents', path('documents.ndjson'), '--data', path('source')]);
  contents = await contentsIn({ data: path('source') });
});
afterAll(() => redis.stop());
beforeEach(async () => {
  const client = new Redis(redis.url);
  await client.flushall();
  client.disconnect();
  postgres = (await emptyPostgres()).url;
});

/** Time stands still, so that no lease ends between two looks. */
const nowMs = Date.now();

async function contentsIn(place: { data: string } | { postgres: string }): Promise<string[]> {
  const opened = await openStoa({
    ...place,
    ...('postgres' in place && { redis: redis.url, secretKeys: sharedKeys }),
    onError: () => undefined,
    clock: () => nowMs,
  });
  return contentsOf(opened).finally(() => opened.close());
}

describe('between a data directory and PostgreSQL', () => {
  test('everything moves there and back, with lines of JSON that end with the verified result', async () => {
    const there = await toPostgres(path('source'), '--json');
    expect([there.status, there.stderr]).toEqual([0, expect.not.stringContaining('postgres://stoa:')]);
    const lines = linesOf(there.stdout);
    expect(lines.at(-1)).toMatchObject({
      verified: true,
      from: path('source'),
      to: withoutPassword(postgres),
    });
    expect(lines.at(-1)?.types?.['data.document']?.records).toBe(documents + 4);
    expect(lines[0]).toMatchObject({ phase: 'counting', total: null });
    expect(lines.find(({ phase }) => phase === 'copying')).toMatchObject({ total: lines.at(-1)?.records });

    const back = await fromPostgres(path('back'));
    expect([back.status, back.stderr]).toEqual([0, expect.stringMatching(/Moved \d+ records .* Verified: /)]);
    expect(back.stdout).toMatch(/^workspaces\.task +3 {2}[0-9a-f]{16}$/m);
    expect(await contentsIn({ data: path('back') })).toEqual(contents);
    expect(await contentsIn({ data: path('source') })).toEqual(contents);
    // The directory has a key file of its own, and needs no keys of PostgreSQL.
    expect((await stoa(['doctor', '--data', path('back')])).stderr).toContain('Nothing is wrong.');
  }, 180_000);

  test('a move that was ended by kill -9 continues and ends with the same contents', async () => {
    const program = await builtProgram();
    const args = ['move', '--from', path('source'), '--to', postgres, '--redis', redis.url, '--json'];
    const killAfter = async (copied: number): Promise<void> => {
      const child = spawn(process.execPath, [program, ...args], {
        env: { ...process.env, ...environment },
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      let stderr = '';
      child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
      const ended = new Promise<NodeJS.Signals | null>((resolve) =>
        child.once('exit', (_status, signal) => resolve(signal)),
      );
      await withDatabase(postgres, async (sql) => {
        while (child.exitCode === null && (await documentsOf(sql)) < copied) await sleep(5);
      });
      child.kill('SIGKILL');
      expect([await ended, stderr]).toEqual(['SIGKILL', '']);
    };
    // While the tables are made; then with slow inserts, so that there is time to kill it in the middle.
    await killAfter(0);
    await inDatabase(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END $$;
      CREATE TRIGGER slow AFTER INSERT ON agent_data_store FOR EACH STATEMENT EXECUTE FUNCTION slow()`);
    for (const copied of [100, 1_000]) {
      await killAfter(copied);
      const refused = await stoa(['status', '--json'], {
        environment: { ...environment, STOA_POSTGRES: postgres, STOA_REDIS: redis.url },
      });
      expect(refused.stderr).toContain('holds a part of a move');
    }
    await inDatabase('DROP FUNCTION slow CASCADE');
    const last = await toPostgres(path('source'), '--json');
    expect(last.status).toBe(0);
    const result = linesOf(last.stdout).at(-1);
    expect(result).toMatchObject({ verified: true });
    expect(result?.copied).toBeLessThan(result?.records ?? 0);
    expect(await contentsIn({ postgres })).toEqual(contents);
  }, 180_000);

  test('a dry run counts, reports obstacles, and creates nothing', async () => {
    const dry = await toPostgres(path('source'), '--dry-run', '--json');
    expect(dry.status).toBe(0);
    expect(linesOf(dry.stdout).at(-1)).toMatchObject({
      dry_run: true,
      types: { 'data.document': documents + 4, 'identity.token': 2 },
      obstacles: [],
    });
    expect(await documentsIn(postgres)).toBe(-1);
    const client = new Redis(redis.url);
    expect(await client.keys('*')).toEqual([]);
    client.disconnect();

    await stoa(['data', 'set', 'k', '1'], {
      environment: { ...environment, STOA_POSTGRES: postgres, STOA_REDIS: redis.url },
    });
    const refused = await toPostgres(path('source'), '--dry-run', '--json');
    expect(refused.status).toBe(5);
    expect(linesOf(refused.stdout).at(-1)).toMatchObject({
      obstacles: [expect.stringContaining('is not empty: it has a record of registry.user.')],
    });
    const absent = path('dry-absent');
    expect((await fromPostgres(absent, '--dry-run')).stderr).toContain('There are no obstacles.');
    await expect(stat(absent)).rejects.toMatchObject({ code: 'ENOENT' });
  }, 60_000);

  test('refusals say what is wrong and change nothing', async () => {
    const server = await up(path('served'));
    try {
      const running = await toPostgres(path('served'));
      expect([running.status, running.stderr]).toEqual([
        expect.any(Number),
        expect.stringMatching(/is in use by process \d+ .* which serves it at http/),
      ]);
    } finally {
      await server.end('SIGTERM');
    }
    expect(await documentsIn(postgres)).toBe(-1);
    const empty = path('nothing-here');
    await mkdir(empty);
    expect((await toPostgres(empty)).stderr).toContain('There is no Stoa at');
    expect(await readdir(empty)).toEqual([]);
    expect((await fromPostgres(path('never'))).stderr).toContain('There is no Stoa at');
    expect(await documentsIn(postgres)).toBe(-1);
    const noRedis = await stoa(['move', '--from', path('source'), '--to', postgres]);
    expect(noRedis.stderr).toContain('--redis is missing');
    const same = await stoa(['move', '--from', path('source'), '--to', path('source')]);
    expect(same.stderr).toContain('are the same place');
    const noKeys = await stoa(['move', '--from', path('source'), '--to', postgres, '--redis', redis.url]);
    expect(noKeys.stderr).toContain('STOA_SECRET_KEYS is not set');
    // As an AICQ server makes it.
    await inDatabase(
      'CREATE TABLE agents (id uuid, public_key text, name text, email text, created_at timestamptz, updated_at timestamptz)',
    );
    expect((await toPostgres(path('source'))).stderr).toContain('has tables of another program');
    expect(await documentsIn(postgres)).toBe(-1);
  }, 60_000);
});

async function inDatabase(statements: string): Promise<void> {
  await withDatabase(postgres, (sql) => sql.unsafe(statements));
}

function documentsIn(url: string): Promise<number> {
  return withDatabase(url, documentsOf);
}

/** The number of documents in a database, or -1 where it has no table of them. */
async function documentsOf(sql: Sql): Promise<number> {
  const [table] = await sql`SELECT to_regclass('agent_data_store') IS NOT NULL AS made`;
  if (table?.['made'] !== true) return -1;
  const [count] = await sql`SELECT count(*)::int AS documents FROM agent_data_store`;
  return Number(count?.['documents']);
}

const newStore = async (): Promise<string> => {
  const { url } = await sharedServer('couchdb');
  const place = new URL(url.replace(/^http/, 'couchdb'));
  place.pathname = `/${uniqueName('move')}`;
  return place.href;
};

describe('documents between a home and a store', () => {
  test('move to a store and back, and continue after an interruption', async () => {
    const [from, to] = [path('documents'), await newStore()];
    const lines = Array.from({ length: 230 }, (_, index) =>
      JSON.stringify({
        userId: 'u',
        namespace: 'n',
        key: `k${String(index).padStart(3, '0')}`,
        value: index,
        createdAt: '2026-02-05T10:00:00Z',
      }),
    );
    await writeFile(path('few.ndjson'), lines.join('\n'));
    await stoa(['import', '--documents', path('few.ndjson'), '--data', from]);
    const dry = await stoa(['move', '--from', from, '--to', to, '--dry-run', '--json']);
    expect(dry.json()).toMatchObject({ dry_run: true, documents: 230, oversized: [], refused: [] });
    const moved = await stoa(['move', '--from', from, '--to', to, '--json']);
    expect(moved.json()).toMatchObject({ documents: 230, copied: 230, verified: true, others: 0 });
    // The position of a source that is a directory is its shard and the last key that is over; here, the hundredth.
    const inspected = (
      await stoa(['inspect', 'data/agent_data_store', '--data', from, '--limit', '100', '--json'])
    ).json<{ items: { key: string }[] }>();
    await writeFile(
      path('state.json'),
      JSON.stringify({ from, to: withoutPassword(to), after: `0.${inspected.items[99]?.key}` }),
    );
    const resumed = await stoa(['move', '--from', from, '--to', to, '--state', path('state.json'), '--json']);
    expect(resumed.json()).toMatchObject({ documents: 230, copied: 130, verified: true });
    const returned = await stoa(['move', '--from', to, '--to', path('documents-back')]);
    expect(returned.stderr).toMatch(/both have 230 documents/);
    const there = await stoa(['move', '--from', to, '--to', postgres, '--redis', redis.url, '--json'], {
      environment,
    });
    expect(there.json()).toMatchObject({ documents: 230, copied: 230, verified: true });
    await writeFile(path('broken.json'), '{');
    expect(
      (await stoa(['move', '--from', from, '--to', to, '--state', path('broken.json')])).stderr,
    ).toContain('is not the state of a move');
  }, 60_000);

  test('a missing source and an unknown backend are refused', async () => {
    const to = await newStore();
    expect((await stoa(['move', '--from', path('nowhere'), '--to', to])).status).toBe(4);
    expect(
      (await stoa(['move', '--from', path('source'), '--to', 'mongodb://localhost/x'])).stderr,
    ).toContain('Unknown backend of the data store');
    const stray = ['move', '--from', path('source'), '--to', 'couchdb://me:12/hush@db:5984', '--dry-run'];
    expect((await stoa(stray)).stderr).toMatch(/"couchdb:\/\/…@db:5984" has an "@" after/);
  });
});
