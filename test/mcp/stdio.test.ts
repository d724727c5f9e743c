import { randomUUID } from 'node:crypto';
import { existsSync, rmdirSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ProtocolError } from '@modelcontextprotocol/client';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { type TestClient, generations } from './client.js';
import { useStdio } from './stdio.js';
import { eventually } from '../until.js';

function youIn(answer: object): unknown {
  return 'you' in answer ? answer.you : undefined;
}

const stdio = useStdio();

/** The error of a call: a result of the tool, or an error of the protocol. */
async function outcomeOf(client: TestClient, name: string, input: Record<string, unknown>): Promise<string> {
  try {
    return JSON.stringify((await client.call(name, input)).value).replaceAll('\\"', '"');
  } catch (error) {
    return error instanceof ProtocolError ? `${error.message} ${JSON.stringify(error.data)}` : String(error);
  }
}

/** An agent of the default user gets a key of its own. */
async function giveKey(data: string, name: string): Promise<void> {
  const lock = JSON.parse(await readFile(join(data, 'stoa.lock'), 'utf8')) as { url: string };
  const token = (await readFile(join(data, 'operator.token'), 'utf8')).trim();
  const signer = new Stoa({ url: lock.url }).agent(await AgentKeys.generate());
  await signer.register({ name });
  const { agents } = new Stoa({ url: lock.url, token });
  const { agent_id } = await agents.get(name);
  await agents.link(agent_id, await signer.consent(agent_id));
}

function call(id: number, name: string, input: object): string {
  return `${JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: input } })}\n`;
}

test(
  'several clients that start at once share one server and lose nothing',
  { timeout: 120_000 },
  async () => {
    const data = await stdio.data();
    rmdirSync(data);
    const names = ['ada', 'bea', 'cyd'];
    const clients = await Promise.all(
      names.map((name, index) => stdio.connect(data, ['--agent', name], generations[index % 2])),
    );
    expect(statSync(data).mode & 0o777).toBe(0o700);
    const owner = await stdio.ownerOf(data);
    const each = 40;
    await Promise.all(
      clients.flatMap((client, index) =>
        Array.from({ length: each }, async (_, step) => {
          await client.ok('remember', { key: 'count', value: 1, how: 'add' });
          await client.ok('remember', { key: `${names[index]}/${step}`, value: step });
        }),
      ),
    );
    const first = clients[0] as (typeof clients)[number];
    expect((await first.ok('recall', { key: 'count' })).items[0].value).toBe(each * clients.length);
    for (const name of names)
      expect((await first.ok('list', { namespace: 'default', prefix: `${name}/` })).items.length).toBe(each);
    expect((await first.ok('recall', { key: 'bea/7' })).items[0].createdByAgent).toBe('bea');
    expect(await stdio.ownerOf(data)).toBe(owner);
    await Promise.all(clients.map((client) => client.close()));
  },
);

describe.each(generations)('sessions of the %s protocol', (generation) => {
  test('are agents of their own, and keep their names over a restart', { timeout: 120_000 }, async () => {
    const data = await stdio.data();
    const [one, two] = await Promise.all([
      stdio.connect(data, ['--scope', 'acme/shop'], generation),
      stdio.connect(data, ['--scope', 'acme/shop'], generation),
    ]);
    const nameOf = async (client: typeof one) => youIn(await client.ok('agents'));
    const names = [await nameOf(one), await nameOf(two)];
    expect(new Set(names).size).toBe(2);
    for (const name of names) expect(name).toMatch(/^test-client-[a-z]+(-[\da-f]{12})?$/);
    await one.ok('remember', { key: 'who', value: 1 });
    expect((await two.ok('recall', { key: 'who', namespace: 'acme/shop' })).items[0].createdByAgent).toBe(
      names[0],
    );
    await one.ok('lock', { action: 'acquire', name: 'src/app.ts' });
    expect((await two.call('lock', { action: 'acquire', name: './src/app.ts' })).value).toMatchObject({
      code: 'conflict',
      details: { holder: names[0], name: 'acme/shop/src/app.ts' },
    });
    const task = (await one.ok('tasks', { action: 'create', command: 'build' })).tasks[0];
    const claim = await one.ok('work', { action: 'claim' });
    expect(claim.task.id).toBe(task.id);
    expect(Date.parse(claim.expires_at) - Date.now()).toBeGreaterThan(800_000);
    process.kill(await stdio.ownerOf(data), 'SIGKILL');
    expect(await nameOf(one)).toBe(names[0]);
    expect(await nameOf(two)).toBe(names[1]);
    expect(youIn(await two.ok('agents', { action: 'register', name: `scout-${generation}` }))).toBe(
      `scout-${generation}`,
    );
    expect(await nameOf(two)).toBe(`scout-${generation}`);
    await Promise.all([one.close(), two.close()]);
  });
});

describe.each(generations)('a %s client whose agent gets a key of its own', (generation) => {
  test('continues under another name, unless it was given this one', { timeout: 120_000 }, async () => {
    const data = await stdio.data();
    const [chosen, given] = [
      await stdio.connect(data, [], generation),
      await stdio.connect(data, ['--agent', 'scout'], generation),
    ];
    const [name] = [String(youIn(await chosen.ok('agents', { action: 'register' })))];
    await given.ok('agents', { action: 'register' });
    for (const each of [name, 'scout']) await giveKey(data, each);

    for (let step = 0; step < 2; step += 1)
      await expect(outcomeOf(given, 'remember', { key: 'k', value: 1 })).resolves.toContain(
        'The agent "scout" signs with its own key',
      );
    const refusal = await outcomeOf(chosen, 'remember', { key: 'k', value: 1 });
    expect(refusal).toContain(`The agent "${name}" signs with its own key`);
    if (generation === 'legacy') {
      expect(refusal).toContain('call agents with action');
      await chosen.ok('agents', { action: 'register', name: 'another' });
    } else expect(refusal).toContain('Send the call again');
    await chosen.ok('remember', { key: 'k', value: 2 });
    expect((await chosen.ok('recall', { key: 'k' })).items[0]).toMatchObject({
      value: 2,
      createdByAgent: expect.not.stringMatching(new RegExp(`^${name}$`)) as string,
    });
    // The session of a restarted server is opened again, without the name that was lost.
    if (generation === 'legacy') {
      await giveKey(data, 'another');
      process.kill(await stdio.ownerOf(data), 'SIGKILL');
      expect(youIn(await chosen.ok('agents'))).toMatch(/^test-client-/);
    }
    await Promise.all([chosen.close(), given.close()]);
  });
});

describe.each(generations)('a client of the %s protocol', (generation) => {
  test('gets changes through the pipe', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const client = await stdio.connect(data, ['--user', 'ada'], generation);
    const updated: string[] = [];
    client.client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      updated.push(params.uri);
    });
    const uri = 'stoa://data/default/watched';
    const subscription =
      generation === 'modern'
        ? await client.client.listen({ resourceSubscriptions: [uri] })
        : await client.client.subscribeResource({ uri });
    // The session's stream opens in parallel: write until an event arrives.
    await eventually(async () => {
      await client.ok('remember', { key: 'watched', value: 1 });
      expect(updated).toContain(uri);
    }, 100);
    if (subscription !== undefined && 'close' in subscription && typeof subscription.close === 'function')
      await subscription.close();
    await client.close();
  });

  test('continues after its server was killed: another one is started', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const client = await stdio.connect(data, ['--agent', 'scout'], generation);
    await client.ok('remember', { key: 'before', value: 'kept' });
    const first = await stdio.ownerOf(data);
    process.kill(first, 'SIGKILL');
    await eventually(async () => {
      expect((await client.ok('recall', { key: 'before' })).items[0].value).toBe('kept');
    });
    expect(await stdio.ownerOf(data)).not.toBe(first);
    await client.close();
  });
});

const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
};
const request = (id: number, name: string, input: object) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: input },
});
const waiting = { room: 'global', after: '2255-03-14T16:00:00Z', wait_seconds: 60 };

async function opened(data: string) {
  const pipe = stdio.open(data);
  pipe.write(initialize);
  await pipe.answer(0);
  pipe.write({ jsonrpc: '2.0', method: 'notifications/initialized' });
  return pipe;
}

describe('when things go wrong', () => {
  test(
    'a server that is killed in the middle of a call is an answer to that call, and the next one works',
    { timeout: 120_000 },
    async () => {
      const data = await stdio.data();
      const pipe = await opened(data);
      pipe.write(request(1, 'remember', { key: 'k', value: 'kept' }));
      await pipe.answer(1);
      pipe.write(request(2, 'work', { action: 'claim', wait_seconds: 30 }));
      // Answers to later messages show that the one before has arrived.
      for (const id of [3, 5, 6]) {
        pipe.write(request(id, 'list', {}));
        await pipe.answer(id);
      }
      const first = await stdio.ownerOf(data);
      process.kill(first, 'SIGKILL');
      expect(await pipe.answer(2)).toMatchObject({
        error: {
          data: { code: 'unreachable', fix: expect.stringContaining('Check before you repeat') as string },
        },
      });
      pipe.write(request(4, 'recall', { key: 'k' }));
      expect(await pipe.answer(4)).toMatchObject({
        result: { structuredContent: { items: [{ value: 'kept' }] } },
      });
      expect(await stdio.ownerOf(data)).not.toBe(first);
      expect(await pipe.end()).toBe(0);
    },
  );

  test('a harmless call is sent again when its server is killed', { timeout: 120_000 }, async () => {
    const data = await stdio.data();
    const pipe = await opened(data);
    pipe.write(request(1, 'remember', { key: 'k', value: 'kept' }));
    await pipe.answer(1);
    pipe.write(request(2, 'read', { room: 'global', after: new Date().toISOString(), wait_seconds: 3 }));
    pipe.write(request(3, 'list', {}));
    await pipe.answer(3);
    process.kill(await stdio.ownerOf(data), 'SIGKILL');
    expect(await pipe.answer(2)).toMatchObject({ result: { structuredContent: { messages: [] } } });
    expect(await pipe.end()).toBe(0);
  });

  test('a cancelled call delays neither the client nor the stop', { timeout: 60_000 }, async () => {
    const pipe = await opened(await stdio.data());
    pipe.write(request(1, 'read', waiting));
    pipe.write(request(2, 'list', {}));
    await pipe.answer(2);
    pipe.write({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } });
    pipe.write(request(3, 'list', {}));
    await pipe.answer(3);
    expect(await pipe.end()).toBe(0);
  });

  test('the client that starts the server may be killed while it does so', { timeout: 120_000 }, async () => {
    const data = await stdio.data();
    const killed = stdio.open(data);
    await eventually(() => expect(existsSync(join(data, 'stoa.log'))).toBe(true), 5);
    await killed.kill();
    const pipe = await opened(data);
    pipe.write(request(1, 'remember', { key: 'k', value: 1 }));
    expect(await pipe.answer(1)).toMatchObject({ result: { structuredContent: { version: 1 } } });
    const owner = await stdio.ownerOf(data);
    // One server runs, and survives the processes that started it.
    await pipe.end();
    expect(await stdio.ownerOf(data)).toBe(owner);
  });

  test('the lock of a dead server is ignored', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const first = await opened(data);
    const dead = await stdio.ownerOf(data);
    process.kill(dead, 'SIGKILL');
    await first.kill();
    expect(await stdio.ownerOf(data)).toBe(dead);
    const pipes = await Promise.all([opened(data), opened(data), opened(data)]);
    for (const pipe of pipes) {
      pipe.write(request(1, 'remember', { key: 'count', value: 1, how: 'add' }));
      await pipe.answer(1);
    }
    pipes[0]?.write(request(2, 'recall', { key: 'count' }));
    expect(await pipes[0]?.answer(2)).toMatchObject({
      result: { structuredContent: { items: [{ value: 3 }] } },
    });
    for (const pipe of pipes) expect(await pipe.end()).toBe(0);
  });
});

describe('the pipe', () => {
  test('carries only the protocol, also after invalid input lines', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const { status, stdout, stderr } = await stdio.feed(
      data,
      `not json\n\n42\n${call(1, 'remember', { key: 'k', value: 'ä💥' })}${call(2, 'no-such', {})}`,
    );
    const answers = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(status, stderr).toBe(0);
    expect(answers.filter(({ error }) => error?.code === -32_700).length).toBe(2);
    expect(answers.find(({ id }) => id === 1).result.structuredContent).toMatchObject({
      key: 'k',
      version: 1,
    });
    expect(answers.find(({ id }) => id === 2).error.code).toBe(-32_602);
    expect(answers.length).toBe(4);
  });

  test('acts for the user and agent that it is given', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const key = randomUUID();
    await stdio.feed(data, call(1, 'remember', { key, value: 1 }), ['--user', 'ada', '--agent', 'späher']);
    const own = await stdio.feed(data, call(1, 'recall', { key }), ['--user', 'ada']);
    expect(JSON.parse(own.stdout).result.structuredContent.items[0].createdByAgent).toBe('späher');
    const other = await stdio.feed(data, call(1, 'recall', { key }), ['--user', 'bob']);
    expect(JSON.parse(other.stdout).result.structuredContent.missing).toEqual([key]);
  });

  test('reports wrong credentials in the answer', { timeout: 60_000 }, async () => {
    const data = await stdio.data();
    const { stdout } = await stdio.feed(data, call(1, 'list', {}), ['--token', 'wrong']);
    expect(JSON.parse(stdout)).toMatchObject({ id: 1, error: { data: { code: 'unauthenticated' } } });
  });

  test('ends with an error if no server can be started', { timeout: 60_000 }, async () => {
    const { status, stdout, stderr } = await stdio.feed('/dev/null/nowhere', call(1, 'list', {}));
    expect(stdout).toBe('');
    expect(status).not.toBe(0);
    expect(stderr).not.toBe('');
  });
});
