/** `stoa agents`. */
import { describe, expect, test } from 'vitest';
import { type Agent, useServedProgram } from '../served.js';

const { stoa, path, run, json } = useServedProgram();

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
