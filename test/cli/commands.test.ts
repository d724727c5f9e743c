import { execFile, spawn } from 'node:child_process';
import { access, writeFile } from 'node:fs/promises';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { directoryFamilies } from '../../src/homes/directory/families.js';
import { clientVariables } from '../../src/core/settings/config.js';
import { openKernel } from '../../src/homes/directory/kernel/open-kernel.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { builtProgram } from '../servers/shared.js';
import type { AbsentStore } from '../../src/cli/connection/connection.js';
import type { CommandDefinition } from '../../src/cli/definitions/definition.js';
import { Output } from '../../src/cli/output/output.js';
import { commandTree } from '../../src/cli/tree/index.js';
import { type RunningServer, useProgram } from './program.js';

const { stoa, up, path } = useProgram();
let data: string;
let server: RunningServer;

beforeAll(async () => {
  data = path('data');
  server = await up(data);
});

const run = (...args: string[]) => stoa([...args, '--data', data]);
const json = async <Body>(...args: string[]): Promise<Body> => {
  const ended = await run(...args, '--json');
  if (ended.status !== 0)
    throw new Error(`stoa ${args.join(' ')} ended with ${ended.status}: ${ended.stderr}`);
  return ended.json<Body>();
};

interface Agent {
  agent_id: string;
  name: string;
  status: string;
  labels: Record<string, string>;
  spec: { cpu_millicores: number };
  version: number;
}

describe('agents', () => {
  test('are created, listed, changed, kept alive, stopped and deleted', async () => {
    const created = await json<Agent>(
      'agents',
      'create',
      'scout',
      '--user',
      'ada',
      '--cpu',
      '750',
      '--label',
      'team=blue',
      '--label',
      'tier=1',
    );
    expect(created).toMatchObject({
      name: 'scout',
      status: 'provisioning',
      labels: { team: 'blue', tier: '1' },
      spec: { cpu_millicores: 750 },
    });
    const id = created.agent_id;
    expect(
      (await json<{ items: Agent[] }>('agents', 'ls', '--user', 'ada', '--label', 'team=blue')).items.map(
        (agent) => agent.agent_id,
      ),
    ).toEqual([id]);
    expect(
      (
        await json<Agent>(
          'agents',
          'update',
          id,
          '--user',
          'ada',
          '--status',
          'running',
          '--if-version',
          String(created.version),
        )
      ).status,
    ).toBe('running');
    expect(await json('agents', 'heartbeat', id, '--user', 'ada', '--holder', 'host-1')).toMatchObject({
      lease: { holder: 'host-1', fence: 1 },
    });
    const session = await json<{ session_id: string; status: string }>(
      'agents',
      'sessions',
      'open',
      id,
      '--user',
      'ada',
    );
    expect(session.status).toBe('active');
    await json('agents', 'sessions', 'close', id, session.session_id, '--user', 'ada');
    expect(
      (await json<{ items: { status: string }[] }>('agents', 'sessions', 'ls', id, '--user', 'ada')).items,
    ).toMatchObject([{ status: 'closed' }]);
    await json('agents', 'stop', id, '--user', 'ada');
    await json('agents', 'update', id, '--user', 'ada', '--status', 'stopped');
    expect(await json('agents', 'rm', id, '--user', 'ada')).toEqual({ deleted: id });
    expect((await run('agents', 'get', id, '--user', 'ada')).status).toBe(4);
  });

  test('with the same idempotency key are one agent', async () => {
    const args = ['agents', 'create', 'once', '--user', 'ida', '--idempotency-key', 'k1'];
    expect((await json<Agent>(...args)).agent_id).toBe((await json<Agent>(...args)).agent_id);
  });

  test('show as a table for people', async () => {
    await run('agents', 'create', 'painted\u001B[31m', '--user', 'tab');
    await run('agents', 'create', 'plain', '--user', 'tab');
    const { stdout, stderr } = await run('agents', 'ls', '--user', 'tab');
    expect(stdout.split('\n')[0]).toMatch(/^ID +NAME +STATUS/);
    expect(stdout).toContain('plain');
    expect(stdout).not.toContain('\u001B');
    expect(stderr).toBe('');
  });
});

describe('exit statuses follow the error', () => {
  test('2 for usage, 3 for credentials, 4 for not found, 5 for a conflict, 6 for no server', async () => {
    const { agent_id: id, version } = await json<Agent>('agents', 'create', 'exits', '--user', 'eve');
    expect((await run('agents', 'get')).status).toBe(2);
    expect((await run('agents', 'get', 'zz', '--user', 'eve')).status).toBe(4);
    expect((await run('agents', 'ls', '--limit', 'many')).status).toBe(2);
    expect((await stoa(['status', '--url', server.url, '--token', 'wrong'])).status).toBe(3);
    expect((await run('agents', 'get', '0'.repeat(64), '--user', 'eve')).status).toBe(4);
    expect((await run('agents', 'wake', id, '--user', 'eve')).status).toBe(5);
    expect(
      (await run('agents', 'update', id, '--name', 'x', '--if-version', String(version + 7), '--user', 'eve'))
        .status,
    ).toBe(5);
    expect((await stoa(['status', '--url', 'http://127.0.0.1:9', '--json'])).status).toBe(6);
  });
});

test.each([
  [['data', 'watch', 'src/'], 'stoa watch data'],
  [['data', 'export'], 'stoa export'],
  [['agents', 'restore', 'backups'], 'stoa restore'],
])('an unknown command %j is answered with the one that has its words: %s', async (words, meant) => {
  const { status, stderr } = await stoa(words);
  expect([status, stderr]).toEqual([2, expect.stringContaining(`Use "${meant}"`)]);
  // What is only spelled alike ("patch" for "watch") is not suggested beside it.
  expect(stderr).not.toContain('Did you mean');
  expect((await stoa([...words, '--json'])).error().fix).toContain(`Use "${meant}"`);
});

test('an unknown command without one clear suggestion is refused', async () => {
  expect((await stoa(['secrets', 'create', '--json'])).error().fix).toContain('--help');
  expect((await stoa(['exprot'])).stderr).toContain('Unknown command "exprot". Did you mean "export"?');
  expect((await stoa(['tasks', 'add', 'shop'])).stderr).toContain('The argument <command> is missing.');
});

test('an empty variable counts as not set', async () => {
  const environment = Object.fromEntries(clientVariables.map((name) => [name, '']));
  const listed = await stoa(['users', 'ls', '--data', data, '--json'], { environment });
  expect(listed.status, listed.stderr).toBe(0);
});

describe('tokens', () => {
  test('are created for a user, reach only that user, and can be revoked', async () => {
    const created = await json<{ token: string; token_id: string }>(
      'token',
      'create',
      '--user',
      'tom',
      '--name',
      'laptop',
      '--expires-in',
      '1h',
    );
    await json('agents', 'create', 'mine', '--user', 'tom');
    const as = (...args: string[]) =>
      stoa([...args, '--url', server.url, '--json'], { environment: { STOA_TOKEN: created.token } });
    expect((await as('agents', 'ls')).json<{ items: Agent[] }>().items.map((agent) => agent.name)).toEqual([
      'mine',
    ]);
    expect((await as('users', 'ls')).status).toBe(3);
    expect(JSON.stringify(await json('token', 'ls', '--user', 'tom'))).not.toContain(created.token);
    expect(await json('token', 'revoke', created.token_id, '--user', 'tom')).toEqual({
      revoked: [created.token_id],
    });
    expect((await as('agents', 'ls')).status).toBe(3);
  });

  test('that only read cannot write', async () => {
    const { token, token_id } = await json<{ token: string; token_id: string }>(
      'token',
      'create',
      '--user',
      'rea',
      '--read-only',
      '--namespace',
      'a',
      '--namespace',
      'b',
    );
    expect((await run('token', 'ls', '--user', 'rea')).stdout).toMatch(
      new RegExp(`^${token_id.slice(-8)} .* false +a, b `, 'm'),
    );
    expect((await stoa(['agents', 'create', 'x', '--url', server.url, '--token', token])).status).toBe(3);
  });

  test('are never created without a user', async () => {
    const refused = await run('token', 'create', '--json');
    expect(refused.status).toBe(2);
    expect(refused.error().fix).toContain('--user');
  });
});

describe('users', () => {
  test('are listed and given a quota, which holds', async () => {
    await json('agents', 'create', 'first', '--user', 'quo');
    expect(
      await json('users', 'set', 'quo', '--agents-max', '1', '--email', 'quo@example.org'),
    ).toMatchObject({ user: 'quo', agents_max: 1, email: 'quo@example.org' });
    expect((await run('agents', 'create', 'second', '--user', 'quo')).status).toBe(5);
    expect(await json('users', 'set', 'quo', '--agents-max', 'none')).not.toMatchObject({ agents_max: 1 });
    expect((await run('users', 'set', 'quo', '--json')).error()).toMatchObject({
      code: 'invalid_request',
      fix: 'Add one of --email, --agents-max.',
    });
    expect((await run('users', 'ls')).stdout).toMatch(/^quo +1\/\d+ +quo@example\.org /m);
    expect(
      (await json<{ items: { user: string }[] }>('users', 'ls')).items.map(({ user }) => user),
    ).toContain('quo');
  });

  test('can have any name, also one that looks like the base64url of another name', async () => {
    expect(await json('users', 'set', '~Ym9i', '--email', 'tilde@example.org')).toMatchObject({
      user: '~Ym9i',
    });
    expect((await json<{ items: object[] }>('token', 'ls', '--user', '..')).items).toEqual([]);
  });
});

describe('the store', () => {
  test('shows its families, and entries as hex with their meaning', async () => {
    const { agent_id: id } = await json<Agent>('agents', 'create', 'seen', '--user', 'ins');
    const families = await json<{ items: { family: string; entries: number }[] }>('inspect');
    expect(families.items.find(({ family }) => family === 'registry/agents')?.entries).toBeGreaterThan(0);
    const entries = await json<{
      items: { key: string; value: string; decoded: { agent_id: string; name: string } }[];
    }>('inspect', 'agents');
    const entry = entries.items.find(({ decoded }) => decoded.agent_id === id);
    expect(entry?.decoded.name).toBe('seen');
    expect(entry?.key).toMatch(new RegExp(`^[0-9a-f]{64}${id}$`));
    expect(Buffer.from(entry?.value ?? '', 'hex').toString('latin1')).toContain('seen');
  });

  test('shows the rows of the data store as documents, large values apart', async () => {
    await json('data', 'set', 'small', '{"a":[1]}', '--user', 'ins', '--namespace', 'looked-at');
    await json(
      'data',
      'set',
      'large',
      JSON.stringify('x'.repeat(10_000)),
      '--user',
      'ins',
      '--namespace',
      'looked-at',
    );
    const decoded = async (family: string) =>
      (await json<{ items: { decoded: { namespace: string; key: string } }[] }>('inspect', family)).items
        .map((item) => item.decoded)
        .filter(({ namespace }) => namespace === 'looked-at');
    const [large, small] = await decoded('agent_data_store');
    expect(small).toMatchObject({
      _id: 'ins:looked-at:c21hbGw=',
      userId: 'ins',
      key: 'small',
      value: { a: [1] },
      version: 1,
    });
    expect(large).toMatchObject({ key: 'large', version: 1 });
    expect(large).not.toHaveProperty('value');
    expect(await decoded('data/values')).toMatchObject([{ key: 'large', sizeBytes: 10_002 }]);
    expect(await decoded('data/namespaces')).toMatchObject([{ count: 2, sizeBytes: 10_011 }]);
  });

  test('pages entries without losing or repeating one', async () => {
    const whole = await json<{ items: { key: string }[] }>('inspect', 'agents');
    const paged: string[] = [];
    for (let cursor: string | null = null; ;) {
      const page: { items: { key: string }[]; next_cursor: string | null } = await json(
        'inspect',
        'agents',
        '--limit',
        '3',
        ...(cursor === null ? [] : ['--cursor', cursor]),
      );
      paged.push(...page.items.map(({ key }) => key));
      cursor = page.next_cursor;
      if (cursor === null) break;
    }
    expect(paged).toEqual(whole.items.map(({ key }) => key));
  });

  test('refuses a name that several families have, and one that none has', async () => {
    expect((await run('inspect', 'agent_metal', '--json')).error().detail).toContain(
      'Did you mean "agent_meta"?',
    );
    expect((await run('inspect', 'nothing-like-it')).status).toBe(4);
  });

  test('is backed up and restored into a new directory', async () => {
    await json('agents', 'create', 'kept', '--user', 'bak');
    const backups = path('backups');
    expect(await json('backup', backups)).toMatchObject({ kind: 'full', parent: null });
    await json('agents', 'create', 'later', '--user', 'bak');
    expect(await json('backup', '--incremental', backups)).toMatchObject({ kind: 'incremental' });
    const restored = path('restored');
    expect(
      (await stoa(['restore', backups, '--data', restored, '--json'])).json<{ chain: string[] }>().chain,
    ).toHaveLength(2);
    const names = (await stoa(['agents', 'ls', '--user', 'bak', '--data', restored, '--json']))
      .json<{ items: Agent[] }>()
      .items.map(({ name }) => name);
    expect(names.toSorted()).toEqual(['kept', 'later']);
    expect((await stoa(['restore', backups, '--data', restored])).status).not.toBe(0);
  });
});

describe('changes', () => {
  test('are listed, and go on from a position', async () => {
    const before = await json<{ position: string }>('changes', '--limit', '1000');
    await json('agents', 'create', 'news', '--user', 'chg');
    const after = await json<{ items: { kind: string; user: string }[] }>(
      'changes',
      '--since',
      before.position,
      '--topics',
      'agent',
    );
    expect(after.items).toMatchObject([{ kind: 'agent.created', user: 'chg' }]);
  });

  test('are watched, one JSON a line, until a signal', async () => {
    const child = spawn(
      process.execPath,
      [await builtProgram(), 'watch', 'changes', '--json', '--data', data],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    let talk = '';
    child.stderr.on('data', (chunk: Buffer) => (talk += chunk.toString()));
    await expect.poll(() => talk, { timeout: 20_000 }).toContain('Live at');
    let lines = '';
    child.stdout.on('data', (chunk: Buffer) => (lines += chunk.toString()));
    // The stream opens a moment after the program says so; each agent is another chance to see it.
    await expect
      .poll(
        async () => {
          await json('agents', 'create', `followed-${Date.now()}`, '--user', `fol-${Date.now()}`);
          return lines.split('\n').filter((line) => line !== '').length;
        },
        { timeout: 30_000 },
      )
      .toBeGreaterThan(0);
    expect(JSON.parse(lines.split('\n')[0] ?? '')).toMatchObject({ domain: 'registry' });
    child.kill('SIGINT');
    expect(await ended).toBe(0);
  });
});

describe('the configuration', () => {
  test('is printed with the source of each value', async () => {
    const ended = await stoa(['config', '--host', '127.0.0.2', '--json'], {
      environment: { STOA_PORT: '9000', STOA_LIMIT_LEASE_SECONDS: '5' },
    });
    expect(ended.json()).toMatchObject({
      host: { value: '127.0.0.2', origin: '--host' },
      port: { value: 9000, origin: 'STOA_PORT' },
      engine: { value: null, origin: 'default' },
      'limits.leaseSeconds': { value: 5, origin: 'STOA_LIMIT_LEASE_SECONDS' },
    });
  });
});

describe('help', () => {
  test.each([
    ['up'],
    ['agents'],
    ['agents create'],
    ['agents sessions open'],
    ['users set'],
    ['token create'],
    ['changes'],
    ['backup'],
    ['restore'],
    ['inspect'],
    ['config'],
    ['status'],
    [''],
  ])('of "%s" has examples', async (words) => {
    const { stdout, status } = await stoa([...words.split(' ').filter((word) => word !== ''), '--help']);
    expect(status).toBe(0);
    expect(stdout).toContain('Examples:');
    expect(stdout).toContain(`$ stoa ${words}`.trim());
  });

  test('names the variable of the data directory', async () => {
    expect((await stoa(['--help'])).stdout).toMatch(/env:\s+STOA_DATA/);
  });

  test('names the version', async () => {
    expect((await stoa(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe('completion', () => {
  test.each([
    ['stoa ', ['agents', 'completion', 'tasks', '--json']],
    ['stoa da', ['data']],
    ['stoa data ', ['ls', 'set', '--user']],
    ['stoa data --user ada s', ['set', 'set-many']],
    ['stoa data ls --v', ['--values']],
    ['stoa agents sessions o', ['open']],
  ])('of %j in bash', async (typed, wanted) => {
    const { stdout: script } = await stoa(['completion', 'bash']);
    const words = typed.split(' ');
    const asked = `${script}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _stoa; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', asked]);
    const offered = stdout.trim().split('\n');
    expect(offered).toEqual(expect.arrayContaining(wanted));
    expect(offered.filter((word) => !word.startsWith(words.at(-1) ?? ''))).toEqual([]);
  });

  test('has scripts for zsh and fish, and refuses other shells', async () => {
    expect((await stoa(['completion', 'zsh'])).stdout).toMatch(/^#compdef stoa\n/);
    expect((await stoa(['completion', 'fish'])).stdout).toContain("complete -c stoa -a '(__stoa_words)'");
    expect((await stoa(['completion', 'tcsh'])).status).toBe(2);
  });
});

test('a table fits 80 columns, and its short ids are accepted', async () => {
  const own = path('short');
  const asUser = ['--data', own, '--user', 'ada'];
  const long = 'scout-'.repeat(10);
  const created = (await stoa(['agents', 'create', long, ...asUser, '--json'])).json<Agent>();
  const { stdout } = await stoa(['agents', 'ls', ...asUser]);
  expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([]);
  const [, row = ''] = stdout.split('\n');
  const short = row.split(' ')[0] ?? '';
  expect(short).toBe(created.agent_id.slice(-8));
  expect((await stoa(['agents', 'get', short, ...asUser, '--json'])).json()).toMatchObject({
    agent_id: created.agent_id,
  });
  expect((await stoa(['agents', 'ls', '--wide', ...asUser])).stdout).toContain(
    `${created.agent_id}  ${long}`,
  );
});

describe('without a server', () => {
  test('a server waits for a running command that has the directory, but not for another server', async () => {
    const own = path('busy');
    const kernel = await openKernel({ dataDir: own, families: directoryFamilies, limits: limitsWith() });
    const starting = up(own);
    // Long enough for the program to have met the lock.
    await sleep(2_000);
    await kernel.close();
    const server = await starting;
    const second = await stoa(['up', '--data', own, '--port', '0', '--json']);
    expect(second).toMatchObject({ status: 5 });
    expect(second.error().code).toBe('locked');
    expect(await server.end('SIGTERM')).toBe(0);
  });

  test('the doctor finds nothing, and repairs a lost index entry', async () => {
    const own = path('doctored');
    const created = (
      await stoa(['agents', 'create', 'patient', '--user', 'doc', '--data', own, '--json'])
    ).json<Agent>();
    const healthy = await stoa(['doctor', '--data', own, '--json']);
    expect(healthy.json()).toMatchObject({ found: 0, remaining: 0, findings: [] });
    expect(healthy.status).toBe(0);

    const kernel = await openKernel({ dataDir: own, families: directoryFamilies, limits: limitsWith() });
    await kernel.root.transact((tx) =>
      tx.delete('registry/agents_by_id', Buffer.from(created.agent_id, 'hex')),
    );
    await kernel.close();

    const sick = await stoa(['doctor', '--data', own, '--json']);
    expect(sick.status).toBe(1);
    expect(sick.json<{ findings: object[] }>().findings).toMatchObject([
      { family: 'registry/agents_by_id', kind: 'missing', repaired: false },
    ]);
    const mended = await stoa(['doctor', '--repair', '--data', own, '--json']);
    expect(mended.json()).toMatchObject({ found: 1, repaired: 1, remaining: 0 });
    expect(mended.status).toBe(0);
    expect(
      (await stoa(['agents', 'get', created.agent_id, '--data', own, '--json'])).json<Agent>().name,
    ).toBe('patient');
  });

  test('re-sharding reports missing options and changes no existing directory', async () => {
    const from = path('one-shard');
    await stoa(['agents', 'create', 'first', '--data', from]);
    expect((await stoa(['reshard', '--from', from, '--to', path('four'), '--shards', '0'])).status).toBe(2);
    expect((await stoa(['reshard', '--from', from, '--shards', '4', '--json'])).error().fix).toContain(
      '--to',
    );
    expect((await stoa(['reshard', '--from', from, '--to', data, '--shards', '4'])).status).toBe(5);
    expect(
      (await stoa(['reshard', '--from', path('nowhere'), '--to', path('four'), '--shards', '4'])).status,
    ).toBe(4);
  });
});

/** What the running server exports. */
async function exported(command: readonly string[]): Promise<string> {
  return (await run(...command.map((word) => word.replace('import', 'export')), '-')).stdout;
}

describe('a mistyped directory', () => {
  test.each(['status', 'doctor'])(
    'that is a file, or below one, is refused in a sentence by %s',
    async (command) => {
      await writeFile(path('a-file'), '');
      for (const place of [path('a-file'), path('a-file/below'), '/dev/null']) {
        const { status, stderr } = await stoa([command, '--data', place]);
        expect([status, stderr]).toEqual([
          2,
          expect.stringContaining(`${place} cannot be used as a data directory`),
        ]);
        expect(stderr).not.toMatch(/^\s+at /m);
      }
    },
  );

  test.each([
    ['doctor'],
    ['inspect'],
    ['status'],
    ['backup'],
    ['agents', 'ls'],
    ['users', 'ls'],
    ['data', 'get', 'key'],
    ['data', 'ls'],
    ['export', '-'],
    ['changes'],
    ['watch', 'agents'],
  ])('%s %s says that there is nothing and how to make it, and makes nothing', async (...command) => {
    const { status, stderr } = await stoa([...command, '--data', path('mistyped')]);
    expect(status).toBe(4);
    expect(stderr).toContain(`The directory ${path('mistyped')} has no Stoa data.`);
    expect(stderr).toContain(`stoa up --data ${path('mistyped')}`);
    await expect(access(path('mistyped'))).rejects.toThrow('ENOENT');
  });

  test('becomes a store by a command that writes new records, which reports it', async () => {
    const { status, stderr } = await stoa(['data', 'set', 'plan', 'go', '--data', path('brought')]);
    expect(status).toBe(0);
    expect(stderr).toContain(`Created a new store in ${path('brought')}.`);
    const second = await stoa(['data', 'get', 'plan', '--data', path('brought')]);
    expect(second).toMatchObject({ status: 0, stderr: '' });
  });

  test('counts as empty for a dry run of an import, which creates nothing', async () => {
    for (const command of [['import'], ['import', '--documents']]) {
      const tried = await stoa([...command, '-', '--dry-run', '--json', '--data', path('tried')], {
        input: await exported(command),
      });
      expect(tried, tried.stderr).toMatchObject({ status: 0 });
      await expect(access(path('tried'))).rejects.toThrow('ENOENT');
    }
  });

  /** Replaces the connection to a store, and records how it was requested. */
  class Asked extends Error {
    constructor(readonly absent: AbsentStore) {
      super('asked');
    }
  }

  test('is refused by every other command', async () => {
    const creating: string[] = [];
    let asked = 0;
    for (const { words, load, values } of leaves(commandTree)) {
      const output = new Output({ json: true, stdout: new PassThrough(), stderr: new PassThrough() });
      const connect = (absent: AbsentStore = 'refused'): Promise<never> => Promise.reject(new Asked(absent));
      try {
        await (
          await load()
        )({ output, globals: { user: 'ada' }, connect }, values, {
          yes: true,
          fence: '1',
          email: 'a@b.example',
        });
      } catch (error) {
        if (!(error instanceof Asked)) continue;
        asked += 1;
        if (error.absent !== 'refused') creating.push(words);
      }
    }
    expect(asked).toBeGreaterThan(60);
    expect(creating.toSorted()).toEqual([
      'agents create',
      'data append',
      'data increment',
      'data patch',
      'data set',
      'import',
      'lock',
      'post',
      'rooms create',
      'tasks add',
      'token create',
      'users set',
      'workspaces create',
    ]);
  });
});

/** Commands with a value for each argument, without those that start or replace a server or a directory. */
function leaves(
  definitions: readonly CommandDefinition[],
  before = '',
): { words: string; load: NonNullable<CommandDefinition['action']>; values: string[] }[] {
  return definitions.flatMap(({ usage, action, commands = [] }) => {
    const [word = '', ...parameters] = usage.split(' ');
    const words = `${before}${word}`;
    const own =
      action === undefined || ['up', 'mcp', 'connect', 'restore', 'reshard', 'move', 'config'].includes(words)
        ? []
        : [
            {
              words,
              load: action,
              values: parameters.map(() => (/(im|ex)port$/.test(words) ? '/dev/null' : '1')),
            },
          ];
    return [...own, ...leaves(commands, `${words} `)];
  });
}
