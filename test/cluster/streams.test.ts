/**
 * Everything that stays connected goes on at another server when its own is killed: nothing is lost, nothing
 * comes twice.
 */
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, expect, test } from 'vitest';
import { readEvents } from '../../src/cli/connection/answers.js';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { type RunningServer, useProgram } from '../cli/program.js';
import { type Generation, TestClient } from '../mcp/client.js';
import { useStdio } from '../mcp/stdio.js';
import { sharedHome } from '../servers/shared.js';
import { type Switch, startSwitch } from './switch.js';
import { eventually } from '../until.js';

const program = useProgram();
const stdio = useStdio();
const user = 'ada';
const namespace = 'n';
const counter = 'counter';
const counterUri = `stoa://data/${namespace}/${counter}`;

const over = new AbortController();
let balancer: Switch | undefined;
/** Readers end in `afterAll`; one that fails before that is a failure of the test. */
const failures: string[] = [];
const clients: TestClient[] = [];
afterAll(async () => {
  over.abort();
  await Promise.all(clients.map((client) => client.close()));
  await balancer?.close();
});

/** A reader: the texts it got, in the order in which they came. */
function reader(name: string, run: (got: string[]) => Promise<void>): string[] {
  const got: string[] = [];
  run(got).catch(noteFailure(name));
  return got;
}

function noteFailure(name: string): (error: unknown) => void {
  return (error) => {
    if (!over.signal.aborted) failures.push(`${name}: ${String(error)}`);
  };
}

/** A client of AICQ's streams: it reconnects with the id of its last event. */
async function followEvents(url: string, headers: Record<string, string>, got: string[]): Promise<void> {
  for (let position: string | undefined; !over.signal.aborted;) {
    try {
      const response = await fetch(url, {
        headers: { ...headers, ...(position !== undefined && { 'last-event-id': position }) },
        signal: over.signal,
      });
      if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
      for await (const { id, event, data } of readEvents(response.body)) {
        position = id ?? position;
        if (event === 'message') got.push((JSON.parse(data) as { body: string }).body);
        else if (got.length === 0) got.push('open');
      }
    } catch (error) {
      if (position === undefined) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** An MCP client that subscribed to the counter, and what it read after the last update. */
async function subscribed(client: TestClient, generation: Generation): Promise<{ value(): unknown }> {
  clients.push(client);
  let value: unknown;
  let reading = Promise.resolve();
  const read = async (): Promise<void> => {
    // A call that is under way when its server is killed may fail.
    await eventually(async () => {
      const { items } = await client.ok('recall', { key: counter, namespace });
      value = items[0]?.value;
    });
  };
  client.client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
    if (params.uri === counterUri) reading = reading.then(read).catch(noteFailure('recall'));
  });
  if (generation === 'modern') await client.client.listen({ resourceSubscriptions: [counterUri] });
  else await client.client.subscribeResource({ uri: counterUri });
  return { value: () => value };
}

/** Documents of this test among those that a stream got. */
function keys(got: string[]): () => string[] {
  return () => got.filter((key) => key.startsWith('k'));
}

/** Messages of this test among those that a stream got. */
function bodies(got: string[]): () => string[] {
  return () => got.filter((body) => body.startsWith('m'));
}

function since(got: string[], from: number): string[] {
  return got.filter((text) => Number(text.slice(1)) >= from);
}

test('all streams survive the end of their server, two of them with kill -9', async () => {
  const { args, environment } = await sharedHome();
  const settings = {
    ...environment,
    STOA_RATE_LIMIT_ALLOW: '127.0.0.0/8',
    STOA_LIMIT_POSTS_PER_MINUTE_MAX: '100000',
    STOA_LIMIT_MESSAGE_BYTES_PER_MINUTE_MAX: '100000000',
  };
  const token = environment.STOA_OPERATOR_TOKEN;
  const up = (): Promise<RunningServer> => program.up(program.path('none'), args, settings);
  const clientAt = (url: string): Stoa => new Stoa({ url, token, user, retryDelayMs: 50, attemptsMax: 50 });
  const [first, second] = await Promise.all([up(), up()]);
  balancer = await startSwitch();
  balancer.send(first.url, second.url);
  const { url } = balancer;

  const stoa = clientAt(url);
  const { signal } = over;
  const room = (await stoa.rooms.create({ name: 'streams' })).id;
  const agent = stoa.agent(await AgentKeys.generate());
  const agentId = await agent.register();
  await stoa.inbox.send({ to: agentId, body: 'who I am' });
  const userId = (await agent.direct.read()).items[0]?.from ?? '';
  await stoa.data(namespace).set(counter, 0);

  const documents: Record<string, () => string[]> = {};
  const messages: Record<string, () => string[]> = {};
  documents['changes.follow'] = keys(
    reader('changes.follow', async (got) => {
      for await (const { items } of stoa.changes.follow({ namespace, signal }))
        got.push(...items.map(({ facts }) => String(facts?.['key'])));
    }),
  );
  documents['data.watch'] = keys(
    reader('data.watch', async (got) => {
      for await (const { key } of stoa.data(namespace).watch({ signal })) got.push(String(key));
    }),
  );
  messages['room.stream'] = bodies(
    reader('room.stream', async (got) => {
      for await (const { body } of stoa.room(room).stream({ signal })) got.push(body);
    }),
  );
  messages['direct.stream'] = bodies(
    reader('direct.stream', async (got) => {
      for await (const { body } of agent.direct.stream({ signal })) got.push(body);
    }),
  );
  const headers = { authorization: `Bearer ${token}`, 'stoa-user': user };
  const wire = {
    room: reader('/room/{id}/stream', (got) => followEvents(`${url}/room/${room}/stream`, headers, got)),
    inbox: reader('/dm/stream', (got) => followEvents(`${url}/dm/stream`, headers, got)),
  };
  messages['/room/{id}/stream'] = bodies(wire.room);
  messages['/dm/stream'] = bodies(wire.inbox);
  const globals = ['--url', url, '--token', token, '--user', user, '--json'];
  const watches = {
    changes: program.follow(['watch', 'changes', '--topics', 'document', ...globals]),
    data: program.follow(['watch', 'data', '-n', namespace, ...globals]),
  };
  documents['stoa watch changes'] = () =>
    keys(watches.changes.lines<{ facts: { key: string } }>().map(({ facts }) => facts.key))();
  documents['stoa watch data'] = () =>
    keys(
      watches.data
        .lines<{ kind: string; items?: { key: string }[] }>()
        .flatMap(({ kind, items = [] }) => (kind === 'changes' ? items.map(({ key }) => key) : [])),
    )();

  const direct = TestClient.of('legacy');
  await direct.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit: { headers } }));
  const bridged = ['--url', url, '--token', token, '--user', user];
  const subscriptions = Object.fromEntries(
    await Promise.all(
      (
        [
          ['MCP over HTTP', 'legacy', Promise.resolve(new TestClient(direct))],
          ['stoa mcp of 2025', 'legacy', stdio.connect(program.path('none'), bridged, 'legacy')],
          ['stoa mcp of 2026', 'modern', stdio.connect(program.path('none'), bridged, 'modern')],
        ] as const
      ).map(
        async ([name, generation, client]) => [name, await subscribed(await client, generation)] as const,
      ),
    ),
  );

  let written = 0;
  const write = async (server: RunningServer, count: number): Promise<void> => {
    const writer = clientAt(server.url);
    for (let index = 0; index < count; index += 1) {
      const number = written;
      written += 1;
      await Promise.all([
        writer.data(namespace).set(`k${number}`, number),
        writer.room(room).post(`m${number}`),
        writer.inbox.send({ to: userId, body: `m${number}` }),
        writer.inbox.send({ to: agentId, body: `m${number}` }),
        writer.data(namespace).set(counter, number + 1),
      ]);
    }
  };
  const numbered = (letter: string, from: number) =>
    Array.from({ length: written - from }, (_, index) => `${letter}${index + from}`);
  /** Everything that was written from a number on has arrived everywhere, once and in order. */
  const arrived = (from: number): Promise<void> =>
    eventually(() => {
      expect(failures).toEqual([]);
      for (const [name, got] of Object.entries(documents))
        expect(since(got(), from), name).toEqual(numbered('k', from));
      for (const [name, got] of Object.entries(messages))
        expect(since(got(), from), name).toEqual(numbered('m', from));
      for (const [name, { value }] of Object.entries(subscriptions)) expect(value(), name).toBe(written);
    });

  // Streams open a moment after they are asked for: until all are open, what is written may be missed.
  let start = 0;
  await eventually(async () => {
    start = written;
    await write(second, 1);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const last = String(start);
    for (const [name, got] of [...Object.entries(documents), ...Object.entries(messages)])
      expect(got().at(-1)?.slice(1), name).toBe(last);
  }, 100);

  /** Kills a server in the middle of writes through another one. */
  const killDuringWrites = async (killed: RunningServer, writer: RunningServer): Promise<void> => {
    await write(writer, 3);
    const writing = write(writer, 12);
    await new Promise((resolve) => setTimeout(resolve, 100));
    await killed.end('SIGKILL');
    await writing;
    await arrived(start);
  };
  const [third] = await Promise.all([up(), killDuringWrites(first, second)]);
  balancer.send(second.url, third.url);
  const [fourth] = await Promise.all([up(), killDuringWrites(second, third)]);
  balancer.send(fourth.url);
  // A server that stops in order ends its streams itself.
  await Promise.all([third.end('SIGTERM'), write(fourth, 12)]);
  await arrived(start);
  for (const watch of Object.values(watches)) expect(await watch.end()).toBe(0);
}, 120_000);
