/** The package as npm would publish it, in an empty project. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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
  // Instead of an installation over the network: what the checkout has installed, without what is for development.
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; optional?: boolean }>;
  };
  for (const [place, { dev, optional }] of Object.entries(packages)) {
    if (dev === true || optional === true || place.lastIndexOf('node_modules/') !== 0) continue;
    await mkdir(dirname(join(directory, place)), { recursive: true });
    await symlink(join(root, place), join(directory, place));
  }
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
  ];
  expect(await complaintsAbout(program, { skipLibCheck: true })).toBe('');
});

test('the types of the client compile for a browser, without types of Node and with every declaration checked', async () => {
  const program = [
    "import { AgentKeys, Stoa, type Task } from 'stoa/client';",
    "const stoa = new Stoa({ url: location.origin, token: 'x' });",
    "export const value: Promise<{ size: number } | undefined> = stoa.data<{ size: number }>('n').get('k');",
    'export const task = async (id: string): Promise<Task> => stoa.tasks.get(id);',
    'export const agent = async () => stoa.agent(await AgentKeys.generate());',
  ];
  expect(await complaintsAbout(program, { lib: ['es2023', 'dom', 'dom.iterable'] })).toBe('');
});

/** What the compiler says about a program of these lines. */
async function complaintsAbout(
  program: readonly string[],
  options: Record<string, unknown>,
): Promise<string> {
  await writeFile(join(directory, 'reader.ts'), program.join('\n'));
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    noEmit: true,
    types: [],
    ...options,
  };
  await writeFile(
    join(directory, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, files: ['reader.ts'] }),
  );
  const compiled = run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', directory]);
  return (await compiled.catch(({ stdout }: { stdout: string }) => ({ stdout }))).stdout;
}

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
  const stoa = join(directory, 'node_modules/stoa/bundle/main.cjs');
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
      'docs/first-hour.md',
      'docs/AGENTS-snippet.md',
    ]),
  );
});
