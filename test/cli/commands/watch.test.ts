import { expect, test } from 'vitest';
import { Stoa } from '../../../src/client/index.js';
import { useProgram } from '../program.js';
import { eventually } from '../../until.js';

const program = useProgram();

interface Line {
  kind: string;
  items?: {
    key?: string;
    version?: number;
    id?: string;
    kind?: string;
    agent_id?: string;
    body?: string;
    message?: { body: string };
  }[];
  position?: string;
}

const itemsOf = (lines: Line[], kind: string) =>
  lines.filter((line) => line.kind === kind).flatMap(({ items = [] }) => items);

test('watches resume after the server is killed and restarted', async () => {
  const data = program.path('killed');
  let server = await program.up(data);
  const { port } = new URL(server.url);
  const stoa = new Stoa({
    url: server.url,
    token: server.token,
    user: 'ada',
    retryDelayMs: 20,
    attemptsMax: 50,
  });
  const workspace = await stoa.workspaces.create({ name: 'w', project_path: '/w' });
  const project = await stoa.projects.create(workspace.id, { name: 'p' });
  const session = await stoa.sessions.create(project.id, { status: 'active' });
  await stoa.data('n').setMany({ a: 1, b: 2 });
  const agent = await stoa.agents.create({ name: 'scout' });
  const globals = ['--data', data, '--user', 'ada', '--json'];
  const watches = {
    data: program.follow(['watch', 'data', '-n', 'n', ...globals]),
    key: program.follow(['watch', 'data', '-n', 'n', '--key', 'key-7', ...globals]),
    tasks: program.follow(['watch', 'tasks', project.id, ...globals]),
    agents: program.follow(['watch', 'agents', ...globals]),
    room: program.follow(['watch', 'room', '00000000-0000-0000-0000-000000000001', ...globals]),
    prefix: program.follow(['watch', 'data', 'key-1', '-n', 'n', ...globals]),
  };
  for (const watch of Object.values(watches))
    await eventually(() =>
      expect(
        watch.lines<Line>().some(({ kind }) => kind === 'live'),
        watch.stderr(),
      ).toBe(true),
    );
  expect(itemsOf(watches.data.lines(), 'snapshot').map(({ key }) => key)).toEqual(['a', 'b']);
  expect(itemsOf(watches.agents.lines(), 'snapshot').map(({ agent_id }) => agent_id)).toEqual([
    agent.agent_id,
  ]);

  const tasks: string[] = [];
  for (let turn = 0; turn < 30; turn += 1) {
    // Killed in the middle of the writing, twice.
    if (turn % 10 === 9) {
      await server.end('SIGKILL');
      server = await program.up(data, ['--port', port]);
    }
    await stoa.data('n').set(`key-${turn}`, turn);
    tasks.push((await stoa.tasks.create(session.id, { command: `turn ${turn}` })).id);
    await stoa.agents.update(agent.agent_id, { labels: { turn: String(turn) } });
    if (turn % 3 === 0) await stoa.room('00000000-0000-0000-0000-000000000001').post(`turn ${turn}`);
  }
  const turns = Array.from({ length: 30 }, (_, turn) => turn);
  await eventually(() => {
    expect(itemsOf(watches.data.lines(), 'changes').map(({ key }) => key)).toEqual(
      turns.map((turn) => `key-${turn}`),
    );
    expect(itemsOf(watches.key.lines(), 'changes').map(({ key }) => key)).toEqual(['key-7']);
    expect(
      itemsOf(watches.tasks.lines(), 'changes')
        .filter(({ kind }) => kind === 'task.created')
        .map(({ id }) => id),
    ).toEqual(tasks);
    expect(itemsOf(watches.agents.lines(), 'changes').map(({ version }) => version)).toEqual(
      turns.map((turn) => turn + 2),
    );
    expect(itemsOf(watches.room.lines(), 'changes').map(({ message }) => message?.body)).toEqual(
      turns.filter((turn) => turn % 3 === 0).map((turn) => `turn ${turn}`),
    );
    expect(
      itemsOf(watches.prefix.lines(), 'changes').map(({ kind, key, version }) => [kind, key, version]),
    ).toEqual(turns.filter((turn) => String(turn).startsWith('1')).map((turn) => ['set', `key-${turn}`, 1]));
  });
  for (const watch of Object.values(watches)) expect(await watch.end()).toBe(0);

  const resumed = program.follow([
    'watch',
    'data',
    '-n',
    'n',
    '--since',
    watches.prefix.lines<Line>().find(({ kind }) => kind === 'changes')?.position ?? '',
    ...globals,
  ]);
  await eventually(() =>
    expect(itemsOf(resumed.lines(), 'changes').map(({ key }) => key)).toEqual(
      turns.slice(2).map((turn) => `key-${turn}`),
    ),
  );
  expect(resumed.lines<Line>().some(({ kind }) => kind === 'snapshot')).toBe(false);
  await resumed.end();
  await server.end('SIGTERM');
}, 180_000);

test('watches of the feed and of a room continue when the server returns on another port, and report it', async () => {
  const data = program.path('followed');
  let server = await program.up(data);
  const feed = program.follow(['watch', 'changes', '--topics', 'document.set', '--data', data, '--json']);
  const ending = program.follow(['watch', 'changes', '--no-reconnect', '--data', data, '--json']);
  const room = program.follow(['watch', 'room', 'global', '--data', data, '--json']);
  const write = async (key: string) => {
    const stoa = new Stoa({ url: server.url, token: server.token, retryDelayMs: 20, attemptsMax: 50 });
    await stoa.data('n').set(key, 1);
    await stoa.room('global').post(key);
  };
  const told = () => feed.lines<{ facts: { key: string } }>().map(({ facts }) => facts.key);
  const said = () => itemsOf(room.lines(), 'changes').map(({ message }) => message?.body);
  // The stream opens a moment after the program says so.
  await eventually(async () => {
    await write('before');
    expect([told().at(-1), said().at(-1), ending.lines().length > 0]).toEqual(['before', 'before', true]);
  }, 500);
  const seen = told().length;
  await server.end('SIGKILL');
  await eventually(() =>
    expect(feed.stderr()).toMatch(
      /The server is unreachable; continuing after [0-9a-f]+-\d+ when it is back\./,
    ),
  );
  expect(await ending.ended()).toBe(6);
  expect(ending.stderr()).toMatch(/--since [0-9a-f]+-\d+/);
  server = await program.up(data);
  await write('after');
  await eventually(() => expect([told().slice(seen), said().at(-1)]).toEqual([['after'], 'after']));
  expect(feed.stderr()).toContain('The server is reachable again.');
  for (const command of [feed, room]) expect(await command.end()).toBe(0);
  const { status } = await program.stoa(['watch', 'changes', '--url', server.url, '--token', 'wrong']);
  expect(status).toBe(3);
  await server.end('SIGTERM');
  expect(
    (await program.stoa(['watch', 'changes', '--url', server.url, '--token', server.token])).status,
  ).toBe(6);
}, 120_000);

test('people get lines, and a directory without a server is watched too', async () => {
  const data = program.path('alone');
  await program.stoa(['data', 'set', 'a', '1', '--data', data]);
  const watch = program.follow(['watch', 'data', '--data', data]);
  await eventually(() => expect(watch.stderr()).toMatch(/Live at [0-9a-f]+-\d+; --since/));
  expect(await watch.end()).toBe(0);
  expect(
    (await program.stoa(['watch', 'tasks', 'proj_01a1e14b-12a6-7000-92db-c354f8aae8b9', '--data', data]))
      .status,
  ).toBe(4);
}, 60_000);
