/** One Stoa through two servers, as a caller behind a balancer sees it: each request goes to the other server. */
import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Ask, type Reply, Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';
import { eventually } from '../until.js';

let a: Running;
let b: Running;
let project: string;
let session: string;
let postgresUrl: string;

beforeAll(async () => {
  const { options } = await sharedHome();
  postgresUrl = options.postgres;
  const limits = { agentPresenceRenewSeconds: 250 };
  a = await Running.start({ ...options, limits });
  b = await Running.start({ ...options, limits });
  const workspace = await asked(a, 'POST', '/v1/workspaces', { body: { name: 'shared' } });
  ({ id: project } = (
    await asked(b, 'POST', `/v1/workspaces/${workspace.json.id}/projects`, { body: { name: 'web' } })
  ).json as { id: string });
  ({ id: session } = (
    await asked(a, 'POST', `/v1/projects/${project}/sessions`, { body: { status: 'active' } })
  ).json as { id: string });
});
afterAll(async () => {
  await a.stop();
  await b.stop();
});

/** A request of alice. Her token was made through the first server. */
function ask(server: Running, method: string, path: string, request: Ask = {}): Promise<Reply> {
  return server.ask(method, path, { as: a.alice, ...request });
}

async function asked(server: Running, method: string, path: string, request: Ask = {}): Promise<Reply> {
  const reply = await ask(server, method, path, request);
  expect(reply.status, `${method} ${path}: ${reply.text}`).toBeLessThan(300);
  return reply;
}

const by = (agent: string): { headers: Record<string, string> } => ({ headers: { 'stoa-agent': agent } });

/** The same request ten times at once, half of them through each server. */
function tenTimes(method: string, path: string, body: unknown): Promise<Reply[]> {
  const headers = { 'idempotency-key': randomUUID(), 'stoa-agent': 'repeater' };
  return Promise.all(
    Array.from({ length: 10 }, (_, index) => ask(index % 2 === 0 ? a : b, method, path, { body, headers })),
  );
}

it('repeats of one Idempotency-Key through both servers at once are one write with one answer', async () => {
  await asked(a, 'POST', `/v1/sessions/${session}/tasks`, {
    body: { command: 'claimed once', labels: ['once'] },
  });
  await asked(a, 'POST', `/v1/sessions/${session}/tasks`, {
    body: { command: 'not claimed', labels: ['once'] },
  });
  await asked(b, 'POST', '/v1/rooms', { body: { name: 'repeats' } });
  for (const [method, path, body] of [
    ['PATCH', '/v1/data/repeats/count', { increment: 1 }],
    ['POST', `/v1/sessions/${session}/tasks`, { command: 'made once', labels: ['made'] }],
    ['POST', `/v1/projects/${project}/tasks/claim`, { labels: ['once'] }],
    ['POST', '/v1/rooms/repeats/messages', { body: 'said once' }],
    ['POST', '/v1/agents', { name: 'made-once' }],
  ] as const) {
    const replies = await tenTimes(method, path, body);
    const done = replies.filter(({ status }) => status < 300);
    expect(done.length, `${method} ${path}: ${replies[0]?.text}`).toBeGreaterThan(0);
    expect(new Set(done.map(({ text }) => text)).size, `${method} ${path}`).toBe(1);
  }
  expect((await ask(b, 'GET', '/v1/data/repeats/count')).json).toMatchObject({ value: 1, version: 1 });
  expect((await ask(a, 'GET', '/v1/tasks?label=made')).json.items).toHaveLength(1);
  expect((await ask(b, 'GET', '/v1/tasks?label=once&status=running')).json.items).toHaveLength(1);
  expect((await ask(a, 'GET', '/v1/rooms/repeats/messages')).json.items).toHaveLength(1);
});

it('a claim that was taken away through one server is refused through the other', async () => {
  await asked(a, 'POST', `/v1/sessions/${session}/tasks`, {
    body: { command: 'passed on', labels: ['passed'] },
  });
  const claim = (server: Running, agent: string): Promise<Reply> =>
    asked(server, 'POST', `/v1/projects/${project}/tasks/claim`, {
      body: { labels: ['passed'] },
      ...by(agent),
    });
  const first = (await claim(a, 'first')).json as { task: { id: string }; lease: { fence: number } };
  const { id } = first.task;
  const heartbeat = { body: { fence: first.lease.fence }, ...by('first') };
  await asked(b, 'POST', `/v1/tasks/${id}/heartbeat`, heartbeat);
  await asked(a, 'POST', `/v1/tasks/${id}/release`, { body: {} });
  const second = (await claim(b, 'second')).json as typeof first;
  expect(second).toMatchObject({ task: { id } });
  expect(second.lease.fence).toBeGreaterThan(first.lease.fence);
  const late = { body: { fence: first.lease.fence, output: 'late' }, ...by('first') };
  for (const server of [a, b])
    expect((await ask(server, 'POST', `/v1/tasks/${id}/complete`, late)).json).toMatchObject({
      code: 'fenced',
    });
  const done = { body: { fence: second.lease.fence, output: 'done' }, ...by('second') };
  await asked(a, 'POST', `/v1/tasks/${id}/complete`, done);
  expect((await ask(b, 'GET', `/v1/tasks/${id}`)).json).toMatchObject({
    status: 'completed',
    output: 'done',
  });
});

it('callers that wait at one server are woken by a change through the other', async () => {
  const claimed = ask(b, 'POST', `/v1/projects/${project}/tasks/claim`, {
    body: { labels: ['awaited'], wait: 20 },
    ...by('waiter'),
  });
  await asked(a, 'PUT', '/v1/locks/gate', { body: { ttl: 60 }, ...by('holder') });
  const locked = ask(b, 'PUT', '/v1/locks/gate', { body: { wait: 20 }, ...by('waiter') });
  await asked(a, 'POST', `/v1/sessions/${session}/tasks`, {
    body: { command: 'awaited', labels: ['awaited'] },
  });
  await asked(a, 'DELETE', '/v1/locks/gate', by('holder'));
  expect((await claimed).json).toMatchObject({ task: { command: 'awaited' } });
  expect((await locked).json).toMatchObject({ holder: 'waiter' });
});

it('of many conditional writes through both servers, one wins', async () => {
  await asked(a, 'PUT', '/v1/data/race/key', { body: { value: 0 } });
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      ask(index % 2 === 0 ? a : b, 'PUT', '/v1/data/race/key', {
        body: { value: index + 1 },
        headers: { 'if-match': '"1"' },
      }),
    ),
  );
  expect(replies.map(({ status }) => status).toSorted((x, y) => x - y)).toEqual([
    200,
    ...Array(11).fill(412),
  ]);
});

it('a deleted room and a renamed agent count at once through the other server', async () => {
  const key = 'a room key of many bytes';
  // By its id: a message to an unknown name makes a room.
  const { id } = (await asked(a, 'POST', '/v1/rooms', { body: { name: 'locked', key } })).json as {
    id: string;
  };
  const post = (server: Running): Promise<Reply> =>
    ask(server, 'POST', `/v1/rooms/${id}/messages`, {
      body: { body: 'x' },
      headers: { 'x-aicq-room-key': key },
    });
  expect((await post(b)).status).toBe(201);
  await asked(a, 'DELETE', `/v1/rooms/${id}`);
  expect((await post(b)).status).toBe(404);

  await asked(a, 'PUT', '/v1/data/names/one', { body: { value: 1 }, ...by('old-name') });
  await asked(b, 'PATCH', '/v1/agents/old-name', { body: { name: 'new-name' } });
  expect((await ask(a, 'GET', '/v1/agents/new-name')).status).toBe(200);
  expect((await ask(a, 'GET', '/v1/agents/old-name')).status).toBe(404);
});

it('an agent that was deleted or renamed through one server is made by its next write through the other', async () => {
  const leaving = {
    renamed: () => asked(b, 'PATCH', '/v1/agents/renamed', { body: { name: 'renamed-to' } }),
    deleted: async () => {
      for (const end of ['stop', 'stop']) await asked(b, 'POST', `/v1/agents/deleted/${end}`);
      await asked(b, 'DELETE', '/v1/agents/deleted');
    },
  };
  for (const [name, leave] of Object.entries(leaving)) {
    const write = () => asked(a, 'PUT', '/v1/data/made/again', { body: { value: name }, ...by(name) });
    await write();
    await leave();
    // The news takes up to a second, and the presence would be renewed after minutes.
    await eventually(async () => {
      await write();
      expect((await ask(b, 'GET', `/v1/agents/${name}`)).status).toBe(200);
    });
  }
});

it('a room that is deleted through one server while the other posts keeps no message', async () => {
  // By its id: a message to an unknown name makes a room.
  const { id } = (await asked(a, 'POST', '/v1/rooms', { body: { name: 'ending' } })).json as { id: string };
  const posting = Array.from({ length: 20 }, (_, index) =>
    ask(b, 'POST', `/v1/rooms/${id}/messages`, { body: { body: `farewell ${index}` } }),
  );
  const deleted = ask(a, 'DELETE', `/v1/rooms/${id}`);
  const statuses = new Set((await Promise.all(posting)).map(({ status }) => status));
  expect((await deleted).status).toBe(204);
  for (const status of statuses) expect([201, 404]).toContain(status);
  for (const server of [a, b]) {
    expect((await ask(server, 'GET', `/v1/rooms/${id}/messages`)).status).toBe(404);
    expect((await ask(server, 'GET', '/v1/find?q=farewell&in=messages')).json.items).toEqual([]);
  }
  // A new room of the name starts empty.
  await asked(b, 'POST', '/v1/rooms', { body: { name: 'ending' } });
  expect((await ask(a, 'GET', '/v1/rooms/ending/messages')).json.items).toEqual([]);
});

it('first writes and locks of one user do not wait for each other in a circle', async () => {
  const as = a.operator;
  const request = (agent: string, body: unknown): Ask => ({
    as,
    body,
    headers: { 'stoa-user': 'crowd', 'stoa-agent': agent },
  });
  expect((await a.ask('PUT', '/v1/data/n/first', request('first', { value: 1 }))).status).toBe(201);
  const before = await deadlocks();
  const replies = await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      [a, b].flatMap((server, at) => [
        server.ask('PUT', `/v1/locks/lock-${at}-${index}`, request(`holder-${at}-${index}`, {})),
        server.ask('PUT', `/v1/data/n/${at}-${index}`, request(`writer-${at}-${index}`, { value: 1 })),
      ]),
    ).flat(),
  );
  expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([201]));
  expect(await deadlocks()).toBe(before);
});

async function deadlocks(): Promise<number> {
  const sql = postgres(postgresUrl, { max: 1 });
  try {
    const [row] = await sql`SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()`;
    return Number(row?.['deadlocks']);
  } finally {
    await sql.end();
  }
}

/** As a user who is new to both servers. */
const writeAsCarol = (): Promise<Reply> =>
  asked(a, 'PUT', '/v1/data/n/k', { as: a.operator, headers: { 'stoa-user': 'carol' }, body: { value: 1 } });

it('a user whose first write was lost by a failover is made again', async () => {
  const sql = postgres(postgresUrl, { max: 1, onnotice: () => undefined });
  const users = async (): Promise<string[]> =>
    (await sql<{ id: string }[]>`SELECT user_id AS id FROM registry.users`).map(({ id }) => id);
  try {
    const before = await users();
    await writeAsCarol();
    const [carol = ''] = (await users()).filter((id) => !before.includes(id));
    await sql`DELETE FROM registry.users WHERE user_id = ${carol}`;
    await sql`UPDATE feed.extent SET database = 'before the failover'`;
    await eventually(async () => {
      await writeAsCarol();
      expect(await users()).toContain(carol);
    });
  } finally {
    await sql.end();
  }
});

const forUser = (user: string): Ask => ({ as: a.operator, headers: { 'stoa-user': user } });

function writeFor(user: string, key: string, value: string): Promise<Reply> {
  return asked(a, 'PUT', `/v1/data/n/${key}`, { ...forUser(user), body: { value } });
}

async function keysWith(user: string, word: string): Promise<unknown[]> {
  const { json } = await asked(a, 'GET', `/v1/find?q=${word}`, forUser(user));
  return (json['items'] as { key: string }[]).map(({ key }) => key);
}

it('a search finds what is stored after a failover, and nothing of what was lost under the same number', async () => {
  const sql = postgres(postgresUrl, { max: 1, onnotice: () => undefined });
  const markOf = async (key: string): Promise<string | undefined> =>
    (await sql<{ mark: string }[]>`SELECT mark FROM find.marks WHERE id = ${key}`)[0]?.mark;
  try {
    await writeFor('dave', 'lost', 'walrus');
    expect(await keysWith('dave', 'walrus')).toEqual(['lost']);
    const mark = (await markOf('lost')) ?? '';
    await sql.begin(async (tx) => {
      await tx`DELETE FROM agent_data_store WHERE key = 'lost'`;
      await tx`DELETE FROM find.marks WHERE id = 'lost'`;
      await tx.unsafe(`ALTER TABLE find.marks ALTER mark RESTART WITH ${mark}`);
      await tx`UPDATE feed.extent SET database = 'before another failover'`;
    });
    await writeFor('erin', 'stored', 'narwhal');
    expect(await markOf('stored')).toBe(mark);
    await eventually(async () => expect(await keysWith('erin', 'narwhal')).toEqual(['stored']));
    expect(await keysWith('erin', 'walrus')).toEqual([]);
  } finally {
    await sql.end();
  }
});
