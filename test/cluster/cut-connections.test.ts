/** Two servers whose connections are cut one after the other, and whose locks a frozen server holds. */
import postgres from 'postgres';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { operatorCaller } from '../../src/index.js';
import { Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';
import { eventually, until } from '../until.js';

const admin = operatorCaller();
const operator = operatorCaller('alice');
let servers: [Running, Running];
let sql: postgres.Sql;
/** The keys of documents that a follower of each server has seen. */
let seen: string[][];
let over: AbortController;
let following: Promise<unknown>;

beforeAll(async () => {
  // Background work reports the connections that are cut.
  const options = { ...(await sharedHome()).options, onError: () => undefined };
  servers = [await Running.start(options), await Running.start(options)];
  sql = postgres(options.postgres, { max: 2, onnotice: () => undefined });
});
afterAll(async () => {
  await sql.end();
  for (const server of servers) await server.stop();
});
beforeEach(async () => {
  over = new AbortController();
  seen = [[], []];
  following = Promise.all(servers.map(({ stoa }, index) => follow(stoa, seen[index] ?? [])));
});
afterEach(async () => {
  over.abort();
  await following;
});

/** Follows like a client: with the last position again after an error. */
async function follow({ changes }: Running['stoa'], keys: string[]): Promise<void> {
  let since = await changes.newest();
  while (!over.signal.aborted)
    try {
      for await (const page of await changes.follow(operator, { since, topics: ['data'] }, over.signal)) {
        for (const commit of page.commits)
          for (const { facts } of commit.changes) keys.push(String(facts?.['key']));
        since = page.position;
      }
    } catch (error) {
      expect(error).toMatchObject({ code: 'backend_unavailable' });
    }
}

/** Writes the key until the write is accepted. A write with an unknown outcome is made again under another key. */
async function written(server: Running, key: string): Promise<string> {
  for (let attempt = 0; ; attempt += 1) {
    const { status, text } = await server.ask('PUT', `/v1/data/cut/${key}-${attempt}`, {
      as: servers[0].alice,
      body: { value: attempt },
    });
    if (status < 300) return `${key}-${attempt}`;
    expect(status, text).toBe(503);
  }
}

it('an event, a waiting claim and a revoked token cross the servers after a connection is cut, whatever it is for', async () => {
  const [a, b] = servers;
  const asked = async (server: Running, method: string, path: string, body: unknown) => {
    const reply = await server.ask(method, path, { as: a.alice, body });
    expect(reply.status, reply.text).toBeLessThan(300);
    return reply.json;
  };
  const { id: workspace } = await asked(a, 'POST', '/v1/workspaces', { name: 'cut' });
  const { id: project } = await asked(b, 'POST', `/v1/workspaces/${workspace}/projects`, { name: 'p' });
  const { id: session } = await asked(a, 'POST', `/v1/projects/${project}/sessions`, { status: 'active' });
  const connections = await sql<{ pid: number; query: string }[]>`
    SELECT pid, query FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'stoa' ORDER BY backend_start`;
  const listening = connections.filter(({ query }) => /^listen/i.test(query));
  expect(listening.length).toBeGreaterThan(1);
  const keys: string[] = [];
  const others = connections.filter((one) => !listening.includes(one)).slice(0, 6);
  for (const { pid, query } of [...listening, ...others]) {
    const { token, token_id: tokenId } = await a.stoa.identity.createToken(admin, 'alice', {}, null);
    await eventually(async () =>
      expect((await b.ask('GET', '/v1/data/cut', { as: token })).status).toBe(200),
    );
    await sql`SELECT pg_terminate_backend(${pid})`;
    keys.push(await written(a, `a-${pid}`), await written(b, `b-${pid}`));
    for (const at of seen) await eventually(() => expect(at, query).toEqual(expect.arrayContaining(keys)));
    const claimed = eventually(() => asked(b, 'POST', `/v1/projects/${project}/tasks/claim`, { wait: 20 }));
    await eventually(() => asked(a, 'POST', `/v1/sessions/${session}/tasks`, { command: `after ${pid}` }));
    expect((await claimed) as object, query).toMatchObject({ task: { command: `after ${pid}` } });
    await eventually(() => a.stoa.identity.revokeTokens(admin, 'alice', tokenId));
    await eventually(async () =>
      expect((await b.ask('GET', '/v1/data/cut', { as: token })).status, query).toBe(401),
    );
  }
  // Both saw the same, and no event twice.
  await until(() => seen[0]?.length === seen[1]?.length);
  expect(seen[0]).toEqual(seen[1]);
  expect(new Set(seen[0]).size).toBe(seen[0]?.length);
});

it('a token that is revoked while a server does not listen is refused there afterwards', async () => {
  const [a, b] = servers;
  const { token, token_id: tokenId } = await a.stoa.identity.createToken(admin, 'alice', {}, null);
  const status = async (): Promise<number> => (await b.ask('GET', '/v1/data/cut', { as: token })).status;
  await eventually(async () => expect(await status()).toBe(200));
  await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND query ILIKE 'listen%'`;
  await eventually(() => a.stoa.identity.revokeTokens(admin, 'alice', tokenId));
  await eventually(async () => expect(await status()).toBe(401));
});

it('writes are accepted while a frozen server holds the numbering, and their events follow in one order', async () => {
  const frozen = await sql.reserve();
  const keys: string[] = [];
  try {
    await frozen`SELECT pg_advisory_lock(hashtext('stoa_feed'))`;
    for (let round = 0; round < 5; round += 1)
      for (const [index, server] of servers.entries())
        keys.push(await written(server, `held-${round}-${index}`));
    expect(seen).toEqual([[], []]);
  } finally {
    await frozen`SELECT pg_advisory_unlock_all()`;
    frozen.release();
  }
  for (const at of seen) await eventually(() => expect(at).toEqual(keys));
});

it('a frozen server that has locked a claimed task does not keep other claims from ending', async () => {
  const [{ stoa }] = servers;
  const { workspaces } = stoa;
  const { id: workspace } = await workspaces.createWorkspace(operator, { name: 'frozen' });
  const { id: project } = await workspaces.createProject(operator, workspace, { name: 'p' });
  const { id: session } = await workspaces.createSession(operator, project, { status: 'active' });
  for (const command of ['locked', 'free']) await workspaces.createTask(operator, session, { command });
  const claims = [];
  for (let count = 0; count < 2; count += 1)
    claims.push(await workspaces.claimTask(operator, project, { lease_seconds: 1 }));
  const [locked, free] = claims.map((claim) => claim?.task.id ?? '') as [string, string];
  const statusOf = async (id: string) => (await workspaces.getTask(operator, id)).status;
  const frozen = await sql.reserve();
  try {
    await frozen`BEGIN`;
    await frozen`SELECT 1 FROM workspaces.tasks WHERE id = ${locked} FOR UPDATE`;
    await eventually(async () => expect(await statusOf(free)).toBe('pending'));
    expect(await statusOf(locked)).toBe('running');
  } finally {
    await frozen`ROLLBACK`;
    frozen.release();
  }
  await eventually(async () => expect(await statusOf(locked)).toBe('pending'));
});
