/** Old backups are deleted in a directory of backups, so it may contain no other files and no links. */
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readFile, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { summariesIn } from '../../../../../src/homes/directory/kernel/backup/chain.js';
import { pruneChains } from '../../../../../src/homes/directory/kernel/backup/schedule.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
import { useProgram } from '../../../../cli/program.js';

const program = useProgram();
let directory: string;
let backups: string;
let kernel: Kernel;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-backups-'));
  backups = join(directory, 'backups');
  kernel = await openKernel({ dataDir: join(directory, 'data'), families: [], limits: limitsWith() });
});
afterEach(async () => {
  await kernel.close();
  await rm(directory, { recursive: true, force: true });
});

const full = (from = kernel) => backup(from, { directory: backups, kind: 'full' });

it.each(['notes.txt', '.hidden', '20260101T000000-000Z-other'])(
  'a directory that holds %s is refused, and stays as it is',
  async (name) => {
    await mkdir(backups);
    await writeFile(join(backups, name), 'of somebody');
    await expect(full()).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(join(backups, name)),
      fix: expect.stringContaining('separate directory'),
    });
    expect(await readdir(backups)).toEqual([name]);
  },
);

it('a directory of another store is refused', async () => {
  const other = await openKernel({ dataDir: join(directory, 'other'), families: [], limits: limitsWith() });
  await full(other);
  await other.close();
  await expect(full()).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining(`this store is ${kernel.manifest.id}`),
  });
});

it('a damaged backup does not stop the ones after it', async () => {
  const { name } = await full();
  await writeFile(join(backups, name, 'backup.json'), 'damaged');
  await full();
  expect(await readdir(backups)).toHaveLength(2);
});

it('a link in it is refused, not read, and nothing behind it is deleted', async () => {
  const { name } = await full();
  const elsewhere = join(directory, 'elsewhere');
  await rename(join(backups, name), elsewhere);
  await symlink(elsewhere, join(backups, name));
  await expect(full()).rejects.toMatchObject({ code: 'conflict', message: expect.stringContaining(name) });
  const { items, unreadable } = await summariesIn(backups);
  expect([items, unreadable]).toEqual([[], [{ name, reason: expect.stringContaining('symbolic link') }]]);
  await pruneChains(backups, kernel.manifest.id, 1);
  expect(await readFile(join(elsewhere, 'backup.json'), 'utf8')).toContain(name);
});

it(
  'too many open files are reported as such, and the next backup succeeds',
  { timeout: 60_000 },
  async () => {
    const server = await program.up(program.path('files'));
    // The connection is open before the limit is: a new one could not be accepted.
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ask = (method: string, path: string) =>
      new Promise<{ status: number | undefined; body: Record<string, unknown> }>((resolve, reject) => {
        const sent = request(
          new URL(path, server.url),
          { method, agent, headers: { authorization: `Bearer ${server.token}` } },
          (answer) => {
            let text = '';
            answer.on('data', (chunk: Buffer) => (text += chunk.toString()));
            answer.on('end', () =>
              resolve({ status: answer.statusCode, body: JSON.parse(text) as Record<string, unknown> }),
            );
          },
        );
        sent.on('error', reject);
        sent.end();
      });
    const limit = (files: number) =>
      execFileSync('prlimit', ['--pid', String(server.pid), `--nofile=${files}:`]);
    expect((await ask('POST', '/v1/backups')).status).toBe(201);
    limit(3);
    expect(await ask('POST', '/v1/backups')).toMatchObject({ status: 503, body: { code: 'overloaded' } });
    limit(1_000);
    expect((await ask('POST', '/v1/backups')).status).toBe(201);
    agent.destroy();
    expect(await server.end('SIGTERM')).toBe(0);
  },
);
