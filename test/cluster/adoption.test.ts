/**
 * `stoa up` on the databases of an AICQ server: everything stays, and its agents go on with the keys that
 * they have.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Agent, MessagingServer } from '../../src/messaging/conformance/kit/server.js';
import { newUlid } from '../../src/messaging/messages/ulid.js';
import { useProgram } from '../cli/program.js';
import type { HaltingServer } from '../servers/child.js';
import { start as startRedis } from '../servers/redis.js';
import { noteServer, emptyPostgres } from '../servers/shared.js';
import { eventually } from '../until.js';

/** As the seed draws them, with the index that a unique constraint makes superfluous. */
const tables = `
  CREATE EXTENSION IF NOT EXISTS pgcrypto;
  CREATE TABLE agents (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    public_key TEXT NOT NULL UNIQUE,
    name TEXT,
    email TEXT,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
  );
  CREATE INDEX idx_agents_public_key ON agents (public_key);
  CREATE INDEX idx_agents_created_at ON agents (created_at);
  CREATE TABLE rooms (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    name TEXT NOT NULL,
    is_private BOOLEAN NOT NULL DEFAULT FALSE,
    key_hash TEXT,
    created_by UUID REFERENCES agents(id),
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    last_active_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    message_count BIGINT NOT NULL DEFAULT 0
  );
  CREATE INDEX idx_rooms_name ON rooms (name);
  CREATE INDEX idx_rooms_last_active ON rooms (last_active_at);
  CREATE INDEX idx_rooms_is_private ON rooms (is_private) WHERE is_private = FALSE;
  INSERT INTO rooms (id, name, is_private) VALUES ('00000000-0000-0000-0000-000000000001', 'global', FALSE)`;

/** The server that took the databases over. */
class AdoptedServer extends MessagingServer {
  constructor(readonly url: string) {
    super();
  }

  get stoa(): never {
    throw new Error('It runs in another process.');
  }

  async stop(): Promise<void> {}
}

const program = useProgram();
const environment = { STOA_SECRET_KEYS: randomBytes(32).toString('hex') };
let redis: HaltingServer;
let client: Redis;
let url: string;

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
  client = new Redis(redis.url);
  ({ url } = await emptyPostgres());
});
afterAll(async () => {
  client?.disconnect();
  await redis?.stop();
});

async function run<Row extends object>(statement: string): Promise<Row[]> {
  const { default: postgres } = await import('postgres');
  const sql = postgres(url, { max: 1, onnotice: () => undefined });
  try {
    return await sql.unsafe<Row[]>(statement);
  } finally {
    await sql.end();
  }
}

/** Every table, index, trigger and row of the database, and every key of Redis. */
async function everything(): Promise<unknown> {
  const [database] = await run(`SELECT
    (SELECT json_agg(concat(n.nspname, '.', c.relname) ORDER BY 1) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')) AS tables,
    (SELECT count(*) FROM pg_trigger) AS triggers,
    (SELECT json_agg(a ORDER BY id) FROM agents a) AS agents, (SELECT json_agg(r ORDER BY id) FROM rooms r) AS rooms`);
  return [database, (await client.keys('*')).toSorted()];
}

function start(more: readonly string[]): string[] {
  return ['up', '--postgres', url, '--redis', redis.url, '--json', ...more];
}

it('two servers use the tables of an AICQ server, after a dry run that changes nothing', async () => {
  const unused = new AdoptedServer('');
  const [ann, bob] = [new Agent(unused), new Agent(unused)];
  [ann.id, bob.id] = [randomUUID(), randomUUID()];
  const room = randomUUID();
  await run(tables);
  await run(`INSERT INTO agents (id, public_key, name) VALUES ('${ann.id}', '${ann.publicKey}', 'ann'), ('${bob.id}', '${bob.publicKey}', NULL);
    INSERT INTO rooms (id, name, created_by, message_count) VALUES ('${room}', 'old-room', '${ann.id}', 41)`);
  const ts = Date.now() - 60_000;
  const message = { id: newUlid(ts), room_id: room, from: ann.id, body: 'from before', ts };
  const direct = { id: newUlid(ts), from: bob.id, to: ann.id, body: 'c2VjcmV0', ts };
  await client.zadd(`room:${room}:messages`, ts, JSON.stringify(message));
  await client.expire(`room:${room}:messages`, 86_400);
  await client.zadd(`dm:${ann.id}:inbox`, ts, JSON.stringify(direct));
  await client.expire(`dm:${ann.id}:inbox`, 604_800);

  const before = await everything();
  const dry = await program.stoa(start(['--dry-run']), { environment });
  const { plan } = dry.json<{ plan: string[] }>();
  expect(plan).toEqual(
    expect.arrayContaining([
      'Keep the table agents with its 2 rows.',
      'Keep the table rooms with its 2 rows.',
      'Keep the 2 keys in Redis.',
      'Set the key stoa:store in Redis to the name of this Stoa.',
    ]),
  );
  for (const made of ['messaging', 'registry', 'workspaces', 'feed', 'cluster', 'agent_data_store'])
    expect(plan.join('\n')).toContain(made);
  expect(await everything()).toEqual(before);

  // At the same time: one of them makes the tables, the other waits.
  const servers = [1, 2].map(() => program.follow(start(['--port', '0']), { environment }));
  for (const server of servers)
    await eventually(() => expect(server.lines(), server.stderr()).toHaveLength(1));
  const urls = servers.map((server) => server.lines<{ url: string }>()[0]?.url ?? '');
  for (const url of urls) expect((await fetch(`${url}/readyz`)).status).toBe(200);
  const adopted = new AdoptedServer(urls[0] ?? '');
  const at = (agent: Agent): Agent => Object.assign(new Agent(adopted, agent.seed), { id: agent.id });
  try {
    expect((await adopted.ask('GET', `/who/${ann.id}`)).json).toMatchObject({
      id: ann.id,
      public_key: ann.publicKey,
      name: 'ann',
    });
    expect((await adopted.ask('GET', `/room/${room}`)).json.messages).toMatchObject([
      { id: message.id, body: 'from before', from: ann.id },
    ]);
    expect((await at(ann).ask('GET', '/dm')).json.messages).toMatchObject([{ id: direct.id, from: bob.id }]);
    // The agents sign at once with the keys that they have.
    expect((await at(bob).ask('POST', `/room/${room}`, { body: { body: 'and now' } })).status).toBe(201);
    expect((await at(ann).ask('POST', `/dm/${bob.id}`, { body: { body: 'YQ==' } })).status).toBe(201);
    await eventually(async () =>
      expect((await adopted.ask('GET', '/channels')).json.channels).toEqual(
        expect.arrayContaining([expect.objectContaining({ id: room, message_count: 42 })]),
      ),
    );
    expect(await run('SELECT id, public_key, name FROM agents ORDER BY created_at, id')).toHaveLength(2);
    expect((await adopted.ask('GET', '/stats')).json).toMatchObject({ total_agents: 2, total_messages: 42 });
  } finally {
    for (const server of servers) await server.end();
  }
  const again = await program.stoa(start(['--dry-run']), { environment });
  expect(again.json()).toMatchObject({ plan: [] });
});

it('a dry run needs databases', async () => {
  const refused = await program.stoa(['up', '--dry-run', '--data', './data', '--json'], { environment });
  expect([refused.status, refused.error().code]).toEqual([2, 'invalid_config']);
});
