/** The package as npm would publish it, in an empty project. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { builtProgram } from '../servers/shared.js';
import { root } from './pages.js';

const run = promisify(execFile);
let directory: string;
let files: string[];

beforeAll(async () => {
  await builtProgram();
  directory = await mkdtemp(join(tmpdir(), 'stoa-package-'));
  // What there is to pack was compiled just now.
  const { stdout } = await run(
    'npm',
    ['pack', '--ignore-scripts', '--json', '--pack-destination', directory],
    { cwd: root },
  );
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  files = packed.files.map(({ path }) => path);
  const modules = join(directory, 'node_modules');
  await mkdir(join(modules, 'stoa'), { recursive: true });
  await run('tar', [
    'xzf',
    join(directory, packed.filename),
    '-C',
    join(modules, 'stoa'),
    '--strip-components',
    '1',
  ]);
  // Instead of an installation over the network: what the checkout has installed.
  for (const name of await readdir(join(root, 'node_modules')))
    if (name !== 'stoa' && !name.startsWith('.'))
      await symlink(join(root, 'node_modules', name), join(modules, name));
  await symlink(join(root, 'test/node_modules/@langchain'), join(modules, '@langchain'));
  await writeFile(join(directory, 'package.json'), '{"type":"module"}');
}, 120_000);
afterAll(() => rm(directory, { recursive: true }));

test('every package that it needs runs on the Node that the tests run on', async () => {
  const strict = join(directory, 'strict');
  await mkdir(strict);
  for (const name of ['package.json', 'package-lock.json'])
    await copyFile(join(root, name), join(strict, name));
  await run('npm', ['ci', '--dry-run', '--engine-strict', '--offline'], { cwd: strict });
});

test.each(['stoa', 'stoa/client', 'stoa/conformance', 'stoa/langgraph'])(
  '%s can be imported',
  async (entry) => {
    const { stdout } = await run(
      process.execPath,
      ['--input-type=module', '-e', `console.log(Object.keys(await import('${entry}')).length)`],
      { cwd: directory },
    );
    expect(Number(stdout)).toBeGreaterThan(0);
  },
);

test('the types of every entry compile under the strictest options', async () => {
  const program = [
    "import { openStoa } from 'stoa';",
    "import { Stoa, type Task } from 'stoa/client';",
    "import { StoaStore } from 'stoa/langgraph';",
    "import { dataStore, messaging, registry, workspaces } from 'stoa/conformance';",
    "export const used: [typeof openStoa, typeof dataStore, StoaStore, Task | undefined] = [openStoa, dataStore, new StoaStore({ client: new Stoa({ url: 'http://127.0.0.1' }) }), undefined];",
    'export const suites = [registry, workspaces, messaging];',
  ].join('\n');
  await writeFile(join(directory, 'reader.ts'), program);
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
  };
  await writeFile(
    join(directory, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: ['reader.ts'] }),
  );
  const compiled = run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', directory]);
  expect(await compiled.catch(({ stdout }: { stdout: string }) => ({ stdout }))).toMatchObject({
    stdout: '',
  });
});

test('every type that the client returns is exported', async () => {
  const declarations = join(directory, 'node_modules/stoa/dist/client');
  const index = await readFile(join(declarations, 'index.d.ts'), 'utf8');
  const exported = new Set(
    Array.from(index.matchAll(/^export (?:type )?\{([^}]*)\}/gm), ([, names = '']) =>
      names.split(',').map((name) =>
        name
          .trim()
          .replace(/^type /, '')
          .replace(/^(\w+) as \w+$/, '$1'),
      ),
    ).flat(),
  );
  const answered = new Set<string>();
  for (const name of [
    'admin',
    'agent',
    'agents',
    'data',
    'direct',
    'index',
    'rooms',
    'tasks',
    'watch/changes',
  ]) {
    const text = await readFile(join(declarations, `${name}.d.ts`), 'utf8');
    for (const [, answer = ''] of text.matchAll(/\): (?:Promise|AsyncGenerator)<(.*)>;$/gm))
      for (const [type] of answer.matchAll(/\b[A-Z]\w+\b/g)) answered.add(type);
  }
  for (const parameter of ['Value', 'Other', 'Fallback', 'Record', 'Omit', 'Uint8Array'])
    answered.delete(parameter);
  expect(answered.size).toBeGreaterThan(20);
  expect([...answered].filter((type) => !exported.has(type))).toEqual([]);
});

test('its command prints its version and contains the text for agents', async () => {
  const stoa = join(directory, 'node_modules/stoa/bundle/main.js');
  expect((await run(process.execPath, [stoa, '--version'])).stdout).toMatch(/^\d+\.\d+\.\d+/);
  expect((await run(process.execPath, [stoa, 'connect', 'agents-md'], { cwd: directory })).stdout).toContain(
    'Shared memory and work',
  );
});

test('it contains no tests, no sources and no secrets', () => {
  expect(
    files.filter((path) => /(^|\/)(test|src|bench|node_modules)\/|\.(env|token|lock)$/.test(path)),
  ).toEqual([]);
  expect(files).toEqual(
    expect.arrayContaining([
      'llms.txt',
      'README.md',
      'LICENSE',
      'docs/five-minutes.md',
      'docs/AGENTS-snippet.md',
    ]),
  );
});
