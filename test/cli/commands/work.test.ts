import { access, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer, request as ask } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { Stoa } from '../../../src/client/index.js';
import { builtProgram } from '../../servers/shared.js';
import { type RunningServer, useProgram } from '../program.js';
import { eventually } from '../../until.js';

const { follow, stoa, up, path } = useProgram();
let server: RunningServer;
let common: string[];
let client: Stoa;
let project: string;
let session: string;

interface Line {
  task: string;
  status: string;
  how: string;
}

beforeAll(async () => {
  server = await up(path('data'));
  client = new Stoa({ url: server.url, token: server.token, user: 'ada' });
  const workspace = await client.workspaces.create({ name: 'site' });
  project = (await client.projects.create(workspace.id, { name: 'api' })).id;
  session = (await client.sessions.create(project, {})).id;
  common = ['--data', path('data'), '--user', 'ada', '--agent', 'worker-1', '--json'];
});

const untilStatus = (id: string, status: string): Promise<unknown> =>
  eventually(async () => expect(await client.tasks.get(id)).toMatchObject({ status }), 100);

describe('stoa work', { timeout: 120_000 }, () => {
  test('runs the command for each task that it can do, and reports how it ended', async () => {
    const done = await client.tasks.create(session, { command: 'echo "task $TASK_ID"' });
    const failing = await client.tasks.create(session, { command: 'echo broken >&2; exit 3' });
    const other = await client.tasks.create(session, { command: 'true', labels: ['gpu'], priority: 9 });
    const worker = follow(['work', 'site/api', '--skill', 'cpu', ...common, '--', 'sh']);
    await untilStatus(failing.id, 'failed');
    expect(await client.tasks.get(done.id)).toMatchObject({
      status: 'completed',
      claimed_by: 'worker-1',
      output: `task ${done.id}\n`,
    });
    expect((await client.tasks.get(failing.id)).error).toBe('exit status 3: broken\n');
    // The worker waits for the next task, and takes it as soon as it is there.
    const later = await client.tasks.create(session, { command: 'echo later', labels: ['cpu'] });
    await untilStatus(later.id, 'completed');
    expect((await client.tasks.get(other.id)).status).toBe('pending');
    expect(await worker.end()).toBe(0);
    expect(worker.lines<Line>()).toEqual([
      { task: done.id, status: 'completed', how: 'exit status 0' },
      { task: failing.id, status: 'failed', how: 'exit status 3' },
      { task: later.id, status: 'completed', how: 'exit status 0' },
    ]);
    await client.tasks.delete(other.id);
  });

  test('reports a task after errors that may pass', async () => {
    const task = await client.tasks.create(session, { command: 'echo kept' });
    const errors = ['disk_full', 'rate_limited'];
    const proxy = createServer((incoming, outgoing) => {
      const code = incoming.url?.endsWith('/complete') === true ? errors.pop() : undefined;
      if (code !== undefined) {
        incoming.resume();
        outgoing.writeHead(code === 'disk_full' ? 503 : 429, { 'content-type': 'application/problem+json' });
        outgoing.end(JSON.stringify({ code, title: code, detail: `${code} for a test.` }));
        return;
      }
      const { method, headers } = incoming;
      const onward = ask(new URL(incoming.url ?? '/', server.url), { method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(outgoing);
      });
      incoming.pipe(onward);
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    const flags = ['--url', url, '--user', 'ada', '--agent', 'worker-1', '--json'];
    const worker = follow(['work', project, '--once', ...flags, '--', 'sh'], {
      environment: { STOA_TOKEN: server.token },
    });
    expect([await worker.ended(), worker.stderr()]).toEqual([0, expect.any(String)]);
    expect([await client.tasks.get(task.id), errors]).toMatchObject([
      { status: 'completed', output: 'kept\n' },
      [],
    ]);
    proxy.close();
  });

  test('gives the task back when it is stopped before the command has ended', async () => {
    const long = await client.tasks.create(session, { command: 'sleep 600 & wait' });
    const worker = follow(['work', project, '--grace', '0s', ...common, '--', 'sh']);
    await untilStatus(long.id, 'running');
    expect(await worker.end()).toBe(0);
    const back = await client.tasks.get(long.id);
    expect(back).toMatchObject({ status: 'pending', attempts: 1, claimed_by: null });
    expect(back.reason).toContain('The worker was stopped (SIGTERM).');
    await client.tasks.delete(long.id);
  });

  test('lets the command end within the grace, renews the lease meanwhile, and takes no new task', async () => {
    const flag = path('go');
    const running = await client.tasks.create(session, {
      command: `while [ ! -e ${flag} ]; do sleep 0.1; done; echo ended`,
    });
    const worker = follow(['work', project, '--lease', '2s', '--grace', '60s', ...common, '--', 'sh']);
    await untilStatus(running.id, 'running');
    const next = await client.tasks.create(session, { command: 'true' });
    const ended = worker.end();
    const startedMs = Date.parse((await client.tasks.get(running.id)).started_at ?? '');
    // Longer than the lease.
    await eventually(() => expect(Date.now() - startedMs).toBeGreaterThan(5_000));
    await writeFile(flag, '');
    expect(await ended).toBe(0);
    expect(await client.tasks.get(running.id)).toMatchObject({
      status: 'completed',
      output: 'ended\n',
      attempts: 0,
    });
    expect((await client.tasks.get(next.id)).status).toBe('pending');
    await client.tasks.delete(next.id);
  });

  test('ends the command of a task that another agent has now, and reports nothing for it', async () => {
    const mark = path('ended-by-itself');
    const taken = await client.tasks.create(session, { command: `sleep 60; touch ${mark}` });
    const worker = follow([
      'work',
      project,
      '--lease',
      '3s',
      '--once',
      '--wait',
      '20s',
      ...common,
      '--',
      'sh',
    ]);
    await untilStatus(taken.id, 'running');
    await client.tasks.release(taken.id, { reason: 'given to another' });
    const claim = await client.tasks.claim(project, { agentId: 'worker-2', wait: 10 });
    expect(claim?.task.id).toBe(taken.id);
    expect(await worker.ended()).toBe(0);
    expect(worker.lines<Line>()).toMatchObject([{ task: taken.id, status: 'lost' }]);
    expect(await client.tasks.get(taken.id)).toMatchObject({ status: 'running', claimed_by: 'worker-2' });
    await expect(access(mark)).rejects.toThrow();
    claim?.abandon();
    await client.tasks.cancel(taken.id);
  });

  test('leaves a task that asks a person to its answer', async () => {
    const task = await client.tasks.create(session, { command: 'deploy' });
    const script = `if [ -n "$TASK_ANSWER" ]; then echo "was told: $TASK_ANSWER"; else
      "$NODE" "$PROGRAM" tasks ask "$TASK_ID" "Deploy?" --fence "$TASK_FENCE" ${common.join(' ')}; fi`;
    const once = async (): ReturnType<typeof stoa> =>
      stoa(['work', project, '--once', '--wait', '60s', ...common, '--', 'sh', '-c', script], {
        environment: { NODE: process.execPath, PROGRAM: await builtProgram() },
      });
    const asked = await once();
    expect(asked.json<Line>(), asked.stderr).toMatchObject({ task: task.id, status: 'input_required' });
    expect(await client.tasks.get(task.id)).toMatchObject({ status: 'input_required', question: 'Deploy?' });
    const answered = await stoa(['tasks', 'answer', task.id, 'Yes', ...common]);
    expect(answered.json()).toMatchObject({ answer: 'Yes', answered_by: 'worker-1' });
    expect((await once()).json<Line>()).toMatchObject({ task: task.id, status: 'completed' });
    expect((await client.tasks.get(task.id)).output).toBe('was told: Yes\n');
  });

  test('has a name of its own without --agent, also in the command that asks', async () => {
    const unnamed = ['--data', path('data'), '--user', 'ada', '--json'];
    const [done, asks] = [
      await client.tasks.create(session, { command: 'echo done', priority: 2 }),
      await client.tasks.create(session, {
        command: `"$NODE" "$PROGRAM" tasks ask "$TASK_ID" "Now?" --fence "$TASK_FENCE" ${unnamed.join(' ')}`,
      }),
    ];
    const once = async (): Promise<Line> =>
      (
        await stoa(['work', project, '--once', ...unnamed, '--', 'sh'], {
          environment: { NODE: process.execPath, PROGRAM: await builtProgram() },
        })
      ).json<Line>();
    expect(await once()).toMatchObject({ task: done.id, status: 'completed' });
    expect((await client.tasks.get(done.id)).claimed_by).toMatch(/-\d+$/);
    expect(await once()).toMatchObject({ task: asks.id, status: 'input_required' });
    await client.tasks.cancel(asks.id);
  });

  test('needs a command and a project that exists, and ends with 4 when there is no task', async () => {
    expect((await stoa(['work', project, ...common])).error().detail).toBe('The command to run is missing.');
    expect((await stoa(['work', 'site/none', ...common, '--', 'true'])).status).toBe(4);
    expect((await stoa(['work', project, '--once', ...common, '--', 'true'])).status).toBe(4);
    const task = await client.tasks.create(session, { command: 'x' });
    const missing = await stoa(['work', project, ...common, '--', path('none')]);
    expect(missing.error().detail).toContain('cannot be started');
    expect(await client.tasks.get(task.id)).toMatchObject({ status: 'pending', attempts: 1 });
  });
});
