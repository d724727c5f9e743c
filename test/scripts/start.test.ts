/** `npm start` in a clone. `npm run test:clone` begins without packages and without anything compiled. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { builtProgram } from '../servers/shared.js';
import { readLock } from '../../src/homes/directory/kernel/directory/lock.js';

const repository = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
let running: ChildProcess | undefined;
let tree: string | undefined;
afterAll(async () => {
  if (running?.exitCode === null && running.signalCode === null)
    process.kill(-(running.pid as number), 'SIGKILL');
  if (tree !== undefined) await rm(tree, { recursive: true, force: true, maxRetries: 5 });
});

/** Runs `npm start` until it greets; answers what it printed. */
async function start(directory: string): Promise<string> {
  // A separate process group, as in a terminal: npm and the server get the signal together.
  const child = spawn('npm', ['start', '--silent', '--', '--port', '0'], {
    cwd: directory,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, npm_config_prefer_offline: 'true' },
  });
  running = child;
  let printed = '';
  child.stderr?.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  await expect
    .poll(() => (child.exitCode === null ? printed : `ended: ${printed}`), { timeout: 170_000, interval: 50 })
    .toMatch(/try it|^ended/);
  return printed;
}

/** npm ends at once; the server has ended when it has released its directory. */
async function end(directory: string): Promise<void> {
  const child = running as ChildProcess;
  const exited = once(child, 'exit');
  process.kill(-(child.pid as number), 'SIGINT');
  await exited;
  await expect.poll(() => readLock(join(directory, 'data'))).toBeUndefined();
}

/** A clone without packages and without anything compiled. */
async function bareClone(): Promise<string> {
  const bare = await mkdtemp(join(tmpdir(), 'stoa-bare-'));
  tree = bare;
  const files = execFileSync('git', ['ls-files', '-z', '--', ':!test'], { cwd: repository, encoding: 'utf8' })
    .split('\0')
    .filter((file) => file !== '');
  for (const file of files) await cp(join(repository, file), join(bare, file));
  return bare;
}

if (process.env['CLONE'] === 'bare')
  test('npm start installs and compiles a bare clone', { timeout: 200_000 }, async () => {
    const bare = await bareClone();
    const printed = await start(bare);
    expect(printed).toContain('Installing');
    expect(printed).toContain('Compiling');
    await expectToRun(printed);
    await end(bare);
    expect(await start(bare)).not.toMatch(/Installing|Compiling/);
    await end(bare);
  });
else
  test('npm start neither installs nor compiles what is there', { timeout: 200_000 }, async () => {
    await builtProgram();
    const clone = await bareClone();
    await symlink(join(repository, 'node_modules'), join(clone, 'node_modules'));
    for (const made of ['dist', 'bundle'])
      await cp(join(repository, made), join(clone, made), { recursive: true });
    const printed = await start(clone);
    expect(printed).not.toMatch(/Installing|Compiling/);
    await expectToRun(printed);
    await end(clone);
  });

async function expectToRun(printed: string): Promise<void> {
  const url = /Stoa is up at (\S+)/.exec(printed)?.[1] ?? '';
  expect((await fetch(`${url}/livez`)).status).toBe(200);
  // The compiler and the bundler had a process of their own: they leave 450 MB where they run.
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const bytes = Number(/^stoa_process_resident_bytes (\S+)$/m.exec(metrics)?.[1]);
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThan(250_000_000);
}
