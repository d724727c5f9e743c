/** The same refusal on every door: HTTP, the client, the command line, MCP and a commit. */
import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { useProgram } from '../cli/program.js';
import { TestClient } from '../mcp/client.js';

const program = useProgram();
const roomKey = 'a key of sixteen or more';

/** A user on every door, each time as the agent that it is given. */
class Doors {
  readonly url: string;
  readonly token: string;

  constructor(url: string, token: string) {
    this.url = url;
    this.token = token;
  }

  client(agent: string): Stoa {
    return new Stoa({ url: this.url, token: this.token, agent });
  }

  async http(
    agent: string,
    method: string,
    path: string,
    body?: object,
    headers: object = {},
  ): Promise<Outcome> {
    const answer = await fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        'stoa-agent': agent,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { code: answer.ok ? 'ok' : (JSON.parse(text) as { code: string }).code, text };
  }

  async sdk(agent: string, call: (stoa: Stoa) => Promise<unknown>): Promise<Outcome> {
    try {
      return { code: 'ok', text: JSON.stringify(await call(this.client(agent))) };
    } catch (error) {
      const { code, message, fix = '' } = error as { code: string; message: string; fix?: string };
      return { code, text: `${message} ${fix}` };
    }
  }

  async cli(agent: string, ...args: string[]): Promise<Outcome> {
    const ended = await program.stoa([...args, '--agent', agent, '--json'], {
      environment: { STOA_URL: this.url, STOA_TOKEN: this.token },
    });
    return ended.status === 0
      ? { code: 'ok', text: ended.stdout }
      : { code: ended.error().code, text: ended.stderr };
  }

  async mcp(agent: string, tool: string, input: Record<string, unknown>): Promise<Outcome> {
    const client = await TestClient.connect(this.url, this.token, 'modern', { 'stoa-agent': agent });
    try {
      const { isError, value } = await client.call(tool, input);
      return { code: isError ? value.code : 'ok', text: JSON.stringify(value) };
    } finally {
      await client.close();
    }
  }

  async commit(agent: string, operation: { op: string } & Record<string, unknown>): Promise<Outcome> {
    return this.http(agent, 'POST', '/v1/commit', { operations: [operation] });
  }
}

interface Outcome {
  code: string;
  text: string;
}

let url: string;
let operator: string;
let ada: Doors;
let bob: Doors;

beforeAll(async () => {
  ({ url, token: operator } = await program.up(program.path('data')));
  const admin = new Stoa({ url, token: operator });
  const of = async (user: string) => new Doors(url, (await admin.admin.tokens.create(user, {})).token);
  [ada, bob] = [await of('ada'), await of('bob')];
  // The agents that the tests name.
  for (const agent of ['scout', 'builder']) await ada.client(agent).data('notes').set(agent, 'here');
});

/** Every door says the same code. */
function expectAll(outcomes: Record<string, Outcome>, code: string, text = ''): void {
  for (const [door, outcome] of Object.entries(outcomes)) {
    expect([door, outcome.code, outcome.text]).toEqual([door, code, expect.stringContaining(text)]);
  }
}

test('completing the task of another agent, with its fence', async () => {
  const scout = ada.client('scout');
  const { project } = await projectOf(scout);
  await scout.tasks.add(project, { command: 'mine' });
  const claim = await scout.tasks.claim(project);
  const [id, fence] = [claim?.task.id ?? '', claim?.fence ?? 0];
  claim?.abandon();
  expectAll(
    {
      http: await ada.http('builder', 'POST', `/v1/tasks/${id}/complete`, { fence }),
      sdk: await ada.sdk('builder', (stoa) => stoa.tasks.complete(id, { fence })),
      cli: await ada.cli('builder', 'tasks', 'complete', id, '--fence', String(fence)),
      mcp: await ada.mcp('builder', 'work', { action: 'complete', task: id, fence }),
      mcpCommit: await ada.mcp('builder', 'commit', {
        operations: [{ op: 'task.complete', task: id, fence }],
      }),
      commit: await ada.commit('builder', { op: 'task.complete', task_id: id, fence }),
    },
    'forbidden',
  );
  // Nothing happened: the holder completes it.
  expect((await scout.tasks.complete(id, { fence })).status).toBe('completed');
});

test('the name of an agent that signs with its own key', async () => {
  const name = `signer-${randomUUID().slice(0, 8)}`;
  const { agent_id } = await ada.client('scout').agents.create({ name });
  const keys = await AgentKeys.generate();
  const signer = new Stoa({ url }).agent(keys);
  await signer.register({ name });
  await ada.client('scout').agents.link(agent_id, await signer.consent(agent_id));
  expectAll(
    {
      http: await ada.http(name, 'PUT', '/v1/data/notes/forged', { value: 1 }),
      sdk: await ada.sdk(name, (stoa) => stoa.data('notes').set('forged', 1)),
      cli: await ada.cli(name, 'data', 'set', 'forged', '1', '-n', 'notes'),
      mcp: await ada.http(name, 'POST', '/mcp', {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'remember', arguments: { key: 'forged', value: 1, namespace: 'notes' } },
      }),
      commit: await ada.commit(name, { op: 'data.set', namespace: 'notes', key: 'forged', value: 1 }),
    },
    'forbidden',
    'signs with its own key',
  );
  expect(await ada.client('scout').data('notes').get('forged')).toBeUndefined();
});

test('a message to an agent that does not exist names a similar one', async () => {
  expectAll(
    {
      http: await ada.http('scout', 'POST', '/v1/inbox', { to: 'bulider', body: 'hi' }),
      sdk: await ada.sdk('scout', (stoa) => stoa.inbox.send({ to: 'bulider', body: 'hi' })),
      cli: await ada.cli('scout', 'dm', 'send', 'bulider', 'hi'),
      mcp: await ada.mcp('scout', 'post', { to: 'bulider', text: 'hi' }),
      mcpCommit: await ada.mcp('scout', 'commit', {
        operations: [{ op: 'dm.send', to: 'bulider', text: 'hi' }],
      }),
      commit: await ada.commit('scout', { op: 'dm.send', to: 'bulider', body: 'hi' }),
    },
    'not_found',
    'builder',
  );
  // An agent of another user is as unknown as none.
  expectAll(
    {
      http: await bob.http('eve', 'POST', '/v1/inbox', { to: 'builder', body: 'hi' }),
      mcp: await bob.mcp('eve', 'post', { to: 'builder', text: 'hi' }),
      cli: await bob.cli('eve', 'dm', 'send', 'builder', 'hi'),
    },
    'not_found',
  );
});

describe('the room of another user', () => {
  test('does not exist, by its id and by its name', async () => {
    const { room_id: room } = await ada.client('scout').room('plans').post('the harbour at nine');
    for (const name of [room, 'plans'])
      expectAll(
        {
          http: await bob.http('eve', 'GET', `/v1/rooms/${name}/messages`),
          sdk: await bob.sdk('eve', (stoa) => stoa.room(name).read()),
          cli: await bob.cli('eve', 'read', name),
          mcp: await bob.mcp('eve', 'read', { room: name }),
        },
        'not_found',
      );
    expectAll(
      {
        http: await bob.http('eve', 'POST', `/v1/rooms/${room}/messages`, { body: 'x' }),
        sdk: await bob.sdk('eve', (stoa) => stoa.room(room).post('x')),
        cli: await bob.cli('eve', 'post', room, 'x'),
        mcp: await bob.mcp('eve', 'post', { room, text: 'x' }),
        mcpCommit: await bob.mcp('eve', 'commit', { operations: [{ op: 'room.post', room, text: 'x' }] }),
        commit: await bob.commit('eve', { op: 'room.post', room, body: 'x' }),
      },
      'not_found',
    );
    // A search finds nothing of it either.
    for (const { text } of [
      await bob.http('eve', 'GET', '/v1/find?q=harbour'),
      await bob.cli('eve', 'find', 'harbour'),
      await bob.mcp('eve', 'find', { query: 'harbour' }),
    ])
      expect(text).not.toContain('nine');
  });
});

describe('a private room', () => {
  test('is made with a key on every door, and opens with it alone', async () => {
    const made = {
      http: await ada.http('scout', 'POST', '/v1/rooms', { name: 'den-http', key: roomKey }),
      sdk: await ada.sdk('scout', (stoa) => stoa.rooms.create({ name: 'den-sdk', key: roomKey })),
      cli: await ada.cli('scout', 'rooms', 'create', 'den-cli', '--key', roomKey),
      mcp: await ada.mcp('scout', 'post', { room: 'den-mcp', text: 'first', key: roomKey }),
    };
    expectAll(made, 'ok');
    for (const door of Object.keys(made)) {
      const room = `den-${door}`;
      expect(await ada.client('scout').rooms.get(room)).toMatchObject({ is_private: true, owner: 'ada' });
      expect((await ada.sdk('scout', (stoa) => stoa.room(room, roomKey).post('inside'))).code).toBe('ok');
    }
    const wrong = `${roomKey}x`;
    for (const key of [undefined, wrong])
      expectAll(
        {
          http: await ada.http('scout', 'GET', '/v1/rooms/den-http/messages', undefined, {
            ...(key !== undefined && { 'x-aicq-room-key': key }),
          }),
          sdk: await ada.sdk('scout', (stoa) => stoa.room('den-http', key).read()),
          cli: await ada.cli('scout', 'read', 'den-http', ...(key === undefined ? [] : ['--key', key])),
          mcp: await ada.mcp('scout', 'read', { room: 'den-http', key }),
          commit: await ada.commit('scout', { op: 'room.post', room: 'den-http', body: 'x', key }),
        },
        'forbidden',
      );
    expectAll(
      {
        http: await ada.http('scout', 'GET', '/v1/rooms/den-http/messages', undefined, {
          'x-aicq-room-key': roomKey,
        }),
        cli: await ada.cli('scout', 'read', 'den-http', '--key', roomKey),
        mcp: await ada.mcp('scout', 'read', { room: 'den-http', key: roomKey }),
      },
      'ok',
      'inside',
    );
  });
});

/** An agent of its own for each door: an agent may make ten rooms an hour. */
const posterOf = (door: string): string => `poster-${door}`;

test('a post to the name of a deleted room makes another room with the key, and says so on every door', async () => {
  const deleted = async (door: string): Promise<string> => {
    const [poster, name] = [ada.client(posterOf(door)), `gone-${door}`];
    const { id } = await poster.rooms.create({ name, key: roomKey });
    await poster.room(name, roomKey).post('before');
    await poster.rooms.delete(name);
    return id;
  };
  const former = Object.fromEntries(
    await Promise.all(
      ['http', 'sdk', 'cli', 'mcp', 'commit', 'mcpCommit'].map(
        async (door) => [door, await deleted(door)] as const,
      ),
    ),
  );
  const key = roomKey;
  const posted = {
    http: await ada.http(
      posterOf('http'),
      'POST',
      '/v1/rooms/gone-http/messages',
      { body: 'x' },
      { 'x-aicq-room-key': key },
    ),
    sdk: await ada.sdk(posterOf('sdk'), (stoa) => stoa.room('gone-sdk', key).post('x')),
    cli: await ada.cli(posterOf('cli'), 'post', 'gone-cli', 'x', '--key', key),
    mcp: await ada.mcp(posterOf('mcp'), 'post', { room: 'gone-mcp', text: 'x', key }),
    commit: await ada.commit(posterOf('commit'), { op: 'room.post', room: 'gone-commit', body: 'x', key }),
    mcpCommit: await ada.mcp(posterOf('mcpCommit'), 'commit', {
      operations: [{ op: 'room.post', room: 'gone-mcpCommit', text: 'x', key }],
    }),
  };
  expectAll(posted, 'ok', '"room_created"');
  for (const [door, { text }] of Object.entries(posted)) {
    const room = await ada.client('scout').rooms.get(`gone-${door}`);
    expect(room).toMatchObject({ is_private: true, message_count: 1 });
    expect(room.id).not.toBe(former[door]);
    expect(text).toContain(room.id);
    // The deleted room stays deleted under its id.
    expect((await ada.sdk('scout', (stoa) => stoa.room(former[door] ?? '', key).post('x'))).code).toBe(
      'not_found',
    );
  }
});

test('somebody from outside under the name of a member is marked on every door', async () => {
  const outsider = new Stoa({ url }).agent(await AgentKeys.generate());
  await outsider.register({ name: 'scout' });
  const room = await outsider.rooms.create({ name: 'square', public: true });
  await outsider.room(room.id).post('I am scout');
  expectAll(
    {
      http: await ada.http('builder', 'GET', `/v1/rooms/${room.id}/messages`),
      sdk: await ada.sdk('builder', (stoa) => stoa.room(room.id).read()),
      cli: await ada.cli('builder', 'read', room.id),
      mcp: await ada.mcp('builder', 'read', { room: room.id }),
    },
    'ok',
    'outside',
  );
  const shown = await program.stoa(['read', room.id], {
    environment: { STOA_URL: url, STOA_TOKEN: ada.token },
  });
  expect(shown.stdout).toContain('scout (outside)');
});

async function projectOf(stoa: Stoa): Promise<{ project: string }> {
  const workspace = await stoa.workspaces.create({ name: 'doors', project_path: '/doors' });
  return { project: (await stoa.projects.create(workspace.id, { name: 'doors' })).id };
}
