import { writeFile } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { useCommands } from '../command-host.js';

const { stoa, up, path } = useCommands();
let common: string[];
let workspace: string;
let project: string;
let session: string;

interface Named {
  id: string;
  name: string;
  version: number;
}

const json = async <Body>(...args: string[]): Promise<Body> => {
  const ended = await stoa([...args, '--json', ...common]);
  if (ended.status !== 0)
    throw new Error(`stoa ${args.join(' ')} ended with ${ended.status}: ${ended.stderr}`);
  return ended.json<Body>();
};
const status = async (...args: string[]): Promise<number | null> =>
  (await stoa([...args, '--json', ...common])).status;

beforeAll(async () => {
  await up(path('data'));
  common = ['--data', path('data'), '--user', 'ada', '--agent', 'worker-1'];
  workspace = (await json<Named>('workspaces', 'create', 'site', '--path', '/srv/site')).id;
  project = (await json<Named>('projects', 'create', workspace, 'api', '--language', 'go')).id;
  session = (await json<Named>('sessions', 'create', project, '--start')).id;
});

describe('workspaces and projects', { timeout: 120_000 }, () => {
  test('are listed, shown and changed, but not over a newer version', async () => {
    expect(
      (await json<{ items: Named[] }>('workspaces', 'ls', '--name', 'site')).items.map(({ id }) => id),
    ).toEqual([workspace]);
    expect(
      await json('workspaces', 'update', workspace, '--status', 'inactive', '--if-version', '1'),
    ).toMatchObject({ status: 'inactive', version: 2, project_path: '/srv/site' });
    expect(await status('workspaces', 'update', workspace, '--status', 'active', '--if-version', '1')).toBe(
      5,
    );
    await writeFile(
      path('config.json'),
      JSON.stringify({ test_command: 'make', secrets: { token: 's3cret' } }),
    );
    expect(await json('projects', 'update', project, '--config-file', path('config.json'))).toMatchObject({
      config: { test_command: 'make', secrets: { token: '********' } },
    });
    expect((await stoa(['projects', 'ls', workspace, ...common])).stdout).toMatch(/^ID +NAME/);
  });

  test('are deleted, restored and purged, and a name is free meanwhile', async () => {
    const { id } = await json<Named>('projects', 'create', workspace, 'docs');
    expect(await status('projects', 'purge', id)).toBe(5);
    expect(await status('projects', 'rm', id)).toBe(0);
    expect(await status('projects', 'get', id)).toBe(4);
    expect(await json('projects', 'get', id, '--deleted')).toMatchObject({ deleted_at: expect.any(String) });
    const successor = await json<Named>('projects', 'create', workspace, 'docs');
    expect(await status('projects', 'restore', id)).toBe(5);
    expect(await json('projects', 'restore', id, '--name', 'old docs')).toMatchObject({
      id,
      name: 'old docs',
      deleted_at: null,
    });
    for (const gone of [id, successor.id]) {
      expect(await status('projects', 'rm', gone)).toBe(0);
      expect(await status('projects', 'purge', gone)).toBe(0);
    }
    expect((await json<{ items: Named[] }>('projects', 'ls', workspace, '--deleted')).items).toEqual([]);
  });
});

describe('sessions', { timeout: 120_000 }, () => {
  test('hold one slot, which a takeover takes', async () => {
    expect(await json('sessions', 'active', project)).toMatchObject({ id: session, status: 'active' });
    const refused = await stoa(['sessions', 'create', project, '--start', '--json', ...common]);
    expect(refused.status).toBe(5);
    expect(refused.error().detail).toContain(session);
    const second = await json<Named>(
      'sessions',
      'create',
      project,
      '--start',
      '--takeover',
      '--max-idle',
      '10m',
    );
    expect(second).toMatchObject({ status: 'active', max_idle_time: 600 });
    expect(await json('sessions', 'get', session)).toMatchObject({ status: 'ended' });
    expect(await json('sessions', 'move', second.id, 'idle')).toMatchObject({ status: 'idle' });
    expect(await status('sessions', 'move', second.id, 'pending')).toBe(5);
    session = second.id;
  });
});

describe('tasks', { timeout: 120_000 }, () => {
  interface Claim {
    task: { id: string; command: string };
    lease: { fence: number };
  }

  test('are made, claimed in order, kept, completed, failed and cancelled', async () => {
    const build = await json<Named>('tasks', 'create', session, 'make build', '--priority', '5');
    const later = await json<Named>('tasks', 'create', session, 'make test', '--after', build.id);
    const low = await json<Named>('tasks', 'create', session, 'make docs', '--priority', '-1');
    expect((await json<{ items: Named[] }>('tasks', 'ready', project)).items.map(({ id }) => id)).toEqual([
      build.id,
      low.id,
    ]);

    const claim = await json<Claim>('tasks', 'claim', project, '--lease', '1m');
    expect(claim.task).toMatchObject({
      id: build.id,
      command: 'make build',
      status: 'running',
      claimed_by: 'worker-1',
    });
    const fence = String(claim.lease.fence);
    expect(await json('tasks', 'heartbeat', build.id, '--fence', fence)).toMatchObject({
      lease: { holder: 'worker-1' },
    });
    expect(await status('tasks', 'complete', build.id, '--fence', '99')).toBe(5);
    expect(await json('tasks', 'complete', build.id, '--fence', fence, '--output', 'built')).toMatchObject({
      status: 'completed',
      output: 'built',
    });

    const next = await json<Claim>('tasks', 'claim', project, '--wait', '5s');
    expect(next.task.id).toBe(later.id);
    expect(
      await json(
        'tasks',
        'fail',
        later.id,
        '--fence',
        String(next.lease.fence),
        '--error',
        'flaky',
        '--retry',
      ),
    ).toMatchObject({ status: 'pending', attempts: 1 });
    expect(await json('tasks', 'update', later.id, '--priority', '-9')).toMatchObject({ priority: -9 });
    expect(await json('tasks', 'cancel', low.id, '--reason', 'not needed')).toMatchObject({
      status: 'cancelled',
      reason: 'not needed',
    });
    expect(await status('tasks', 'rm', later.id)).toBe(0);
    expect(await status('tasks', 'claim', project)).toBe(4);
    expect(
      (await json<{ items: Named[] }>('tasks', 'in', session, '--status', 'completed')).items.map(
        ({ id }) => id,
      ),
    ).toEqual([build.id]);
  });

  test('are listed over all projects, and claimed by label', async () => {
    const labelled = await json<Named>(
      'tasks',
      'create',
      session,
      'train',
      '--label',
      'gpu',
      '--label',
      'ml',
    );
    expect(await status('tasks', 'claim', project, '--skill', 'gpu')).toBe(4);
    const claim = await json<Claim>('tasks', 'claim', project, '--label', 'ml', '--without', 'slow');
    expect(claim.task).toMatchObject({ id: labelled.id, labels: ['gpu', 'ml'] });
    const filters = ['--holder', 'worker-1', '--label', 'gpu', '--project', project];
    const listed = await json<{ items: Named[] }>('tasks', 'ls', ...filters);
    expect(listed.items).toMatchObject([{ id: labelled.id, project_id: project }]);
    const [head = '', row = ''] = (await stoa(['tasks', 'ls', ...filters, ...common])).stdout.split('\n');
    expect(head).toMatch(/^ID +PROJECT +STATUS /);
    expect(row.split(/ +/)[1]).toBe('api');
    expect(Math.max(head.length, row.length)).toBeLessThanOrEqual(80);
  });
});
