/** Commands on a directory that is not there. */
import { access, writeFile } from 'node:fs/promises';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { AbsentStore } from '../../../src/cli/connection/connection.js';
import type { CommandDefinition } from '../../../src/cli/definitions/definition.js';
import { Output } from '../../../src/cli/output/output.js';
import { commandTree } from '../../../src/cli/tree/index.js';
import { useServedProgram } from '../served.js';

const { stoa, path, run } = useServedProgram();

const settings = (): never => {
  throw new Error('This command reads its settings before it asks for a connection.');
};

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
