import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, readdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { repository } from '../compiled.js';
import { builtProgram } from '../servers/shared.js';
import { useProgram } from './program.js';

const { stoa, path } = useProgram();

/** A copy of the installation, whose files a test may change. */
let copy: string;
let program: string;

beforeAll(async () => {
  program = await builtProgram();
  copy = await mkdtemp(join(tmpdir(), 'stoa-start-'));
  await symlink(join(repository, 'node_modules'), join(copy, 'node_modules'));
  await cp(join(repository, 'package.json'), join(copy, 'package.json'));
  await cp(join(repository, 'bundle'), join(copy, 'bundle'), { recursive: true });
});
afterAll(() => rm(copy, { recursive: true, force: true }));

async function version(...flags: string[]): Promise<string> {
  const main = join(copy, 'bundle', 'main.cjs');
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [...flags, main, '--version']);
  return stdout + stderr;
}

async function changeStoredCode(change: (path: string) => Promise<void>): Promise<void> {
  const bundle = join(copy, 'bundle');
  const files = (await readdir(bundle)).filter((name) => name.endsWith('.code'));
  expect(files.length).toBeGreaterThan(0);
  for (const file of files) await change(join(bundle, file));
}

test('V8 takes the code of every file of a start from what the build stored', async () => {
  const script = `
    process.argv.push('--version');
    process.argv.splice(1, 0, ${JSON.stringify(program)});
    const { scripts } = require(${JSON.stringify(program)});
    process.on('exit', () => {
      for (const [path, script] of scripts) if (script.cachedDataRejected !== false) console.log(path);
      console.log(scripts.size > 5);
    });`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script], { cwd: copy });
  expect(stdout.trim().split('\n')).toEqual([expect.stringMatching(/^\d+\.\d+\.\d+$/), 'true']);
});

test('with other flags of V8 the program compiles its files', async () => {
  expect(await version('--no-opt')).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('with stored code of another version, cut or missing, the program compiles its files', async () => {
  await changeStoredCode(async (path) => {
    const code = await readFile(path);
    code.writeUInt32LE(code.readUInt32LE(4) ^ 1, 4);
    await writeFile(path, code);
  });
  expect(await version()).toMatch(/^\d+\.\d+\.\d+\n$/);
  await changeStoredCode((path) => truncate(path, 100));
  expect(await version()).toMatch(/^\d+\.\d+\.\d+\n$/);
  await changeStoredCode((path) => rm(path));
  expect(await version()).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('before the build the command says how to build', async () => {
  const clone = join(copy, 'clone');
  await cp(join(repository, 'bin'), join(clone, 'bin'), { recursive: true });
  const failed = promisify(execFile)(process.execPath, [join(clone, 'bin', 'stoa.cjs'), '--version']);
  await expect(failed).rejects.toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^Stoa is not built: .*main\.cjs is missing\.\nRun "npm start" .* in .*clone\.\n$/,
    ),
  });
  await symlink(join(copy, 'bundle'), join(clone, 'bundle'));
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(clone, 'bin', 'stoa.cjs'),
    '--version',
  ]);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test('nothing keeps the process of a finished command', async () => {
  const script = `process.on('exit', () => console.error(JSON.stringify(process.getActiveResourcesInfo())))`;
  const environment = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
  for (const command of [
    ['set', 'plan', 'go'],
    ['get', 'plan'],
  ]) {
    const { status, stderr } = await stoa(['data', ...command, '--data', path('brief')], {
      environment,
    });
    expect([status, stderr]).toEqual([0, expect.stringMatching(/^\[.*\]$/m)]);
    expect(stderr).not.toContain('Timeout');
  }
});
