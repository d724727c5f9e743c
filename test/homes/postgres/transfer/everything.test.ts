/**
 * Everything that a Stoa can hold, filled over HTTP, moved from a directory to PostgreSQL and back, and compared
 * through every route that reads.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openStoa } from '../../../../src/index.js';
import { createApp, stopApp } from '../../../../src/server/app.js';
import { dimensions, vectorOf } from '../../../servers/embedder.js';
import { sharedHome } from '../../../servers/shared.js';
import { type Opening, move } from '../../../transfer/move-kit.js';
import { eventually } from '../../../until.js';

interface Answer {
  status: number;
  body: unknown;
}

type Ask = (
  method: string,
  path: string,
  request?: { body?: unknown; headers?: Record<string, string> },
) => Promise<Answer>;

/** Time stands still, so that no lease ends between two looks. */
const nowMs = Date.now();
const inAnHour = new Date(nowMs + 3_600_000).toISOString();
const roomKey = 'a key of more than sixteen bytes';
const alice: Record<string, string> = { 'stoa-user': 'alice' };
const asScout = { ...alice, 'stoa-agent': 'scout' };
const asWorker = { ...alice, 'stoa-agent': 'worker' };

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-everything-'));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

/** Runs a server on the home for as long as `use` takes. */
async function withServer<Result>(place: Opening, use: (ask: Ask) => Promise<Result>): Promise<Result> {
  const stoa = await openStoa({
    ...place,
    clock: () => nowMs,
    sweepIntervalMs: 200,
    embedder: { model: 'test', dimensions, embed: async (texts) => texts.map(vectorOf) },
  });
  const app = createApp(stoa, {});
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  try {
    return await use(async (method, path, { body, headers = {} } = {}) => {
      const response = await fetch(url + path, {
        method,
        headers: {
          authorization: `Bearer ${stoa.operatorToken}`,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '');
      return { status: response.status, body: isJson ? JSON.parse(text) : text };
    });
  } finally {
    await stopApp(app, 5);
    await stoa.close();
  }
}

interface Made {
  id: string;
  agent_id: string;
  session_id: string;
  token: string;
  from: string;
  task: { id: string };
  lease: { fence: number };
}

/** The values that the parameters of paths take when everything is read. */
type Values = Record<string, string[]>;

interface Filled {
  values: Values;
  /** A token of alice that can only read the namespace "notes". */
  token: string;
  /** The task that the worker holds, with its fence. */
  held: { id: string; fence: number };
}

async function fill(ask: Ask): Promise<Filled> {
  const make = async (method: string, path: string, body?: unknown, headers = alice): Promise<Made> => {
    const answer = await ask(method, path, { body, headers });
    expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
    return answer.body as Made;
  };

  await make('PUT', '/v1/users/alice', { email: 'alice@example.org', agents_max: 7 });
  await make('PUT', '/v1/users/quiet', {});
  const { token } = await make('POST', '/v1/users/alice/tokens', {
    name: 'laptop',
    expires_at: inAnHour,
    scopes: { write: false, namespaces: ['notes'] },
  });
  await make('POST', '/v1/users/bob/tokens', {});

  const spec = { cpu_millicores: 250, memory_mb: 64, runtime_version: 'v7' };
  const scout = await make('POST', '/v1/agents', { name: 'scout', spec, labels: { team: 'blue' } });
  const worker = await make('POST', '/v1/agents', { name: 'worker' });
  const broken = await make('POST', '/v1/agents', { name: 'broken' });
  const bobs = await make('POST', '/v1/agents', { name: 'scout' }, { 'stoa-user': 'bob' });
  await make('PATCH', '/v1/agents/scout', { status: 'running' });
  await make('POST', '/v1/agents/scout/heartbeat', { holder: 'host' });
  await make('PATCH', '/v1/agents/broken', { status: 'error', error_message: 'no disk' });
  const open = await make('POST', '/v1/agents/scout/sessions', {});
  const closed = await make('POST', '/v1/agents/scout/sessions', {});
  await make('DELETE', `/v1/agents/scout/sessions/${closed.session_id}`);

  await make('PATCH', '/v1/namespaces/vectors', { embed: true, embed_fields: ['text'] });
  await make('PATCH', '/v1/namespaces/silent', { index: false });
  await make(
    'PUT',
    '/v1/data/notes/ключ%2Fé',
    { value: { text: 'harbour lights' }, metadata: { a: [1] } },
    asScout,
  );
  await make('PUT', '/v1/data/notes/ключ%2Fé', { value: { text: 'harbour lamps' } }, asWorker);
  await make('PUT', '/v1/data/notes/null', { value: null, ttl: 3_600 });
  await make('PUT', '/v1/data/notes/hidden', { value: 'harbour master', index: false });
  await make('PUT', '/v1/data/silent/one', { value: 'harbour wall' });
  await make('PUT', '/v1/data/vectors/near', { value: { text: 'a boat in the harbour', other: 'x' } });
  await make('PUT', '/v1/data/vectors/far', { value: { text: 'a mountain road' } });
  await make('PUT', '/v1/data/notes/one', { value: 1 }, { 'stoa-user': 'bob' });
  // Each read is counted, with the name of the last reader. The namespace has the names of all readers.
  await make('GET', '/v1/data/notes/null', undefined, { ...alice, 'stoa-agent': 'visitor' });
  await make('GET', '/v1/data/notes/null', undefined, asScout);
  await make('GET', '/v1/data/notes/null', undefined, asWorker);

  await make('PUT', '/v1/locks/src%2Fmain.ts', { ttl: 600, note: 'rewriting' }, asWorker);
  await make('PUT', '/v1/locks/given-back', {}, asScout);
  await make('DELETE', '/v1/locks/given-back', undefined, asScout);

  const workspace = await make('POST', '/v1/workspaces', {
    name: 'site',
    project_path: '/srv/site',
    status: 'inactive',
    claude_key: 'sk-ant-secret',
  });
  const gone = await make('POST', '/v1/workspaces', { name: 'gone' });
  await make('DELETE', `/v1/workspaces/${gone.id}`);
  const project = await make('POST', `/v1/workspaces/${workspace.id}/projects`, {
    name: 'web',
    path: 'web',
    description: 'the pages',
    git_url: 'https://example.org/web.git',
    git_branch: 'main',
    language: 'ts',
    config: { model: 'm', api_key: 'config-secret' },
    git_info: { head: 'abc' },
  });
  const deleted = await make('POST', `/v1/workspaces/${workspace.id}/projects`, { name: 'old' });
  await make('DELETE', `/v1/projects/${deleted.id}`);
  const session = await make('POST', `/v1/projects/${project.id}/sessions`, {
    agent_id: 'scout',
    process_id: 42,
    status: 'active',
    metadata: { shell: 'sh' },
    max_idle_time: 900,
    max_lifetime: 9_000,
  });
  await make('PATCH', `/v1/sessions/${session.id}`, {
    command_count: 3,
    bytes_in: 4,
    bytes_out: 5,
    error_count: 6,
  });
  const task = (body: object): Promise<Made> => make('POST', `/v1/sessions/${session.id}/tasks`, body);
  const claim = (labels: string[]): Promise<Made> =>
    make('POST', `/v1/projects/${project.id}/tasks/claim`, { labels }, asWorker);
  const report = (verb: string, { task: { id }, lease: { fence } }: Made, body: object): Promise<Made> =>
    make('POST', `/v1/tasks/${id}/${verb}`, { fence, ...body }, asWorker);
  const retry = { base_seconds: 5, max_seconds: 50 };
  const tasks = [
    await task({ command: 'finish the harbour', labels: ['done'] }),
    await task({ command: 'fail', labels: ['failed'], max_attempts: 1 }),
    await task({ command: 'try again', labels: ['again'], max_attempts: 4, retry }),
    await task({ command: 'ask', labels: ['asked'] }),
    await task({ command: 'ask and wait', labels: ['waiting'] }),
    await task({ command: 'hold', labels: ['held'] }),
    await task({ command: 'cancel' }),
    await task({ command: 'later', priority: -3, run_at: inAnHour, labels: ['gpu', 'ml'] }),
  ];
  tasks.push(await task({ command: 'after', depends_on: [tasks[0]?.id, tasks[7]?.id], priority: 9 }));
  await report('complete', await claim(['done']), { output: 'built', bytes_in: 1, bytes_out: 2 });
  await report('fail', await claim(['failed']), { error: 'broke' });
  await report('fail', await claim(['again']), { error: 'broke once' });
  const asked = await claim(['asked']);
  await report('ask', asked, { question: 'Which?' });
  await make('POST', `/v1/tasks/${asked.task.id}/answer`, { answer: 'This' });
  await report('ask', await claim(['waiting']), { question: 'May I?', expires_seconds: 600, release: true });
  const held = await claim(['held']);
  await make('POST', `/v1/tasks/${tasks[6]?.id}/cancel`, { reason: 'not needed' });

  const own = await make('POST', '/v1/rooms', { name: 'plans', retention_seconds: 7_200 });
  const locked = await make('POST', '/v1/rooms', { name: 'closed', key: roomKey });
  const open_ = await make('POST', '/v1/rooms', { name: 'open-house', public: true });
  const first = await make('POST', `/v1/rooms/${own.id}/messages`, { body: 'harbour plan' }, asScout);
  const reply = await make(
    'POST',
    `/v1/rooms/${own.id}/messages`,
    { body: 'agreed', pid: first.id },
    asWorker,
  );
  const inLocked = await make('POST', `/v1/rooms/${locked.id}/messages`, { body: 'behind the key' }, {
    ...asScout,
    'x-aicq-room-key': roomKey,
  } as typeof asScout);
  const said = await make('POST', '/v1/rooms/open-house/messages', { body: 'for everybody' }, asScout);
  await make('POST', '/v1/inbox', { to: 'worker', body: 'for you' }, asScout);
  const seen = await make('POST', '/v1/inbox', { to: 'worker', body: 'for you, read' }, asScout);
  await make('POST', '/v1/inbox/ack', { ids: [seen.id] }, asWorker);

  return {
    token,
    held: { id: held.task.id, fence: held.lease.fence },
    values: {
      user: ['alice', 'bob', 'quiet'],
      agent_id: [scout.agent_id, worker.agent_id, broken.agent_id, bobs.agent_id],
      // Of agents and of projects.
      session_id: [open.session_id, closed.session_id, session.id],
      namespace: ['notes', 'silent', 'vectors'],
      key: ['ключ%2Fé', 'null', 'hidden', 'one', 'near'],
      workspace_id: [workspace.id, gone.id],
      project_id: [project.id, deleted.id],
      task_id: tasks.map(({ id }) => id),
      room: [own.id, locked.id, open_.id, 'global'],
      message: [first.id, reply.id, inLocked.id, said.id],
      identity: [first.from, reply.from].filter((id) => id !== undefined),
    },
  };
}

/** What a home says about itself, and streams. */
const notCompared =
  /^\/(v1\/(status|config|inspect|export|backups|changes|console)|livez|readyz|health|metrics|openapi|stream|.*\/stream$)/;
const queries: Readonly<Record<string, readonly string[]>> = {
  '/v1/workspaces': ['', '?deleted=true'],
  '/v1/workspaces/{workspace_id}': ['?deleted=true'],
  '/v1/workspaces/{workspace_id}/projects': ['', '?deleted=true'],
  '/v1/projects/{project_id}': ['?deleted=true'],
  '/v1/rooms/{room}/messages': ['?verify=true'],
  '/v1/rooms/{room}/messages/{message}': ['?verify=true'],
  '/v1/inbox': ['?verify=true', '?pending=true'],
  '/v1/find': ['?q=harbour', '?q=boat%20harbour&in=data&namespace=vectors&mode=vector'],
  '/find': ['?q=everybody'],
};

/** The answer of every route that reads, for each combination of the values in its path. */
async function readAll(ask: Ask, values: Values): Promise<Record<string, Answer>> {
  const { body } = await ask('GET', '/openapi.json');
  const { paths } = body as { paths: Record<string, Record<string, unknown>> };
  const seen: Record<string, Answer> = {};
  for (const path of Object.keys(paths).filter((name) => paths[name]?.['get'] !== undefined)) {
    if (notCompared.test(path)) continue;
    for (const filled of filledPaths(path, values))
      for (const search of queries[path] ?? [''])
        for (const user of path.startsWith('/v1/users') ? ['alice'] : ['alice', 'bob']) {
          // Only an inbox belongs to an agent. Elsewhere its name would count as a read.
          const isInbox = path === '/v1/inbox' && user === 'alice';
          const headers = {
            'stoa-user': user,
            'x-aicq-room-key': roomKey,
            ...(isInbox && { 'stoa-agent': 'worker' }),
          };
          const { status, body: read } = await ask('GET', filled + search, { headers });
          // A refusal also names its request.
          const shown = status < 400 ? read : (read as { code?: string }).code;
          seen[`${user}: ${filled}${search}`] = { status, body: shown };
        }
  }
  return seen;
}

function filledPaths(path: string, values: Values): string[] {
  const parameter = /\{(\w+)\}/.exec(path);
  if (parameter === null) return [path];
  const [whole, name = ''] = parameter;
  return (values[name] ?? []).flatMap((value) => filledPaths(path.replace(whole, value), values));
}

function differing(before: Record<string, Answer>, after: Record<string, Answer>): unknown[] {
  return Object.keys({ ...before, ...after })
    .filter((path) => !isDeepStrictEqual(before[path], after[path]))
    .map((path) => ({ path, before: before[path], after: after[path] }));
}

/** Words and vectors of a home are made in the background. */
async function untilFound(ask: Ask): Promise<void> {
  await eventually(async () => {
    const found = await Promise.all(
      queries['/v1/find']?.map((query) => ask('GET', `/v1/find${query}`, { headers: alice })) ?? [],
    );
    const [words, near] = found.map(({ body }) => (body as { items: { kind: string }[] }).items);
    // Two documents, a task and a message; both documents that have vectors.
    expect(words?.map(({ kind }) => kind).toSorted()).toEqual(['data', 'data', 'messages', 'tasks']);
    expect(near).toHaveLength(2);
  });
}

it('a move to PostgreSQL and back changes no answer of any route', async () => {
  const source: Opening = { data: join(directory, 'source') };
  const { postgres, redis, secretKeys } = (await sharedHome()).options;
  const target: Opening = { postgres, redis, secretKeys };
  const back: Opening = { data: join(directory, 'back') };
  const look = (place: Opening, values: Values): Promise<Record<string, Answer>> =>
    withServer(place, async (ask) => {
      await untilFound(ask);
      return readAll(ask, values);
    });

  const filled = await withServer(source, fill);
  const before = await look(source, filled.values);
  expect(Object.values(before).filter(({ status }) => status === 200).length).toBeGreaterThan(60);
  await move({ from: source, to: target });
  expect(differing(before, await look(target, filled.values))).toEqual([]);
  await move({ from: target, to: back });
  expect(differing(before, await look(back, filled.values))).toEqual([]);

  // What no route shows: the token, the fence of a claim, and the fences that were given out.
  await withServer(back, async (ask) => {
    const headers = { authorization: `Bearer ${filled.token}` };
    expect(await ask('GET', '/v1/data/notes/null', { headers })).toMatchObject({ status: 200 });
    expect(await ask('GET', '/v1/data/silent/one', { headers })).toMatchObject({ status: 403 });
    const { id, fence } = filled.held;
    const done = await ask('POST', `/v1/tasks/${id}/complete`, { body: { fence }, headers: asWorker });
    expect(done).toMatchObject({ status: 200, body: { status: 'completed' } });
    const lock = await ask('PUT', '/v1/locks/new', { body: {}, headers: asScout });
    expect((lock.body as { fence: number }).fence).toBe(3);
  });
}, 120_000);
