/** Commands on a directory without a server, and on a directory that is not there. */
import { access, writeFile } from 'node:fs/promises';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { AbsentStore } from '../../src/cli/connection/connection.js';
import type { CommandDefinition } from '../../src/cli/definitions/definition.js';
import { Output } from '../../src/cli/output/output.js';
import { commandTree } from '../../src/cli/tree/index.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { directoryFamilies } from '../../src/homes/directory/families.js';
import { openKernel } from '../../src/homes/directory/kernel/open-kernel.js';
import { type Agent, useServedProgram } from './served.js';

const { stoa, ownProcess, up, path, data, run } = useServedProgram();

const settings = (): never => {
  throw new Error('This command reads its settings before it asks for a connection.');
};

describe('without a server', () => {
  test('a server waits for a running command that has the directory, but not for another server', async () => {
    const own = path('busy');
    const kernel = await openKernel({ dataDir: own, families: directoryFamilies, limits: limitsWith() });
    const starting = up(own);
    // Long enough for the program to have met the lock.
    await sleep(2_000);
    await kernel.close();
    const server = await starting;
    const second = await ownProcess(['up', '--data', own, '--port', '0', '--json']);
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

  test('nothing keeps the process of a finished command', async () => {
    const script = `process.on('exit', () => console.error(JSON.stringify(process.getActiveResourcesInfo())))`;
    const environment = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
    for (const command of [
      ['set', 'plan', 'go'],
      ['get', 'plan'],
    ]) {
      const { status, stderr } = await ownProcess(['data', ...command, '--data', path('brief')], {
        environment,
      });
      expect([status, stderr]).toEqual([0, expect.stringMatching(/^\[.*\]$/m)]);
      expect(stderr).not.toContain('Timeout');
    }
  });

  test('re-sharding reports missing options and changes no existing directory', async () => {
    const from = path('one-shard');
    await stoa(['agents', 'create', 'first', '--data', from]);
    expect((await stoa(['reshard', '--from', from, '--to', path('four'), '--shards', '0'])).status).toBe(2);
    expect((await stoa(['reshard', '--from', from, '--shards', '4', '--json'])).error().fix).toContain(
      '--to',
    );
    expect((await stoa(['reshard', '--from', from, '--to', data(), '--shards', '4'])).status).toBe(5);
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
        )({ output, globals: { user: 'ada' }, settings, connect }, values, {
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
