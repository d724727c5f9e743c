/**
 * A fleet over HTTP: workers are killed, the server is killed with SIGKILL, and each task is completed
 * exactly once.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { type RunningServer, useProgram } from '../cli/program.js';
import { freePort } from '../servers/child.js';

/** `npm run test:fleet` runs all of it; every run of the tests a part. */
const full = process.env['FLEET'] === 'full';
const size = full ? { tasks: 10_000, processes: 8, loops: 8 } : { tasks: 200, processes: 4, loops: 4 };
const workerScript = fileURLToPath(new URL('fleet-worker.mjs', import.meta.url));

const program = useProgram();
const workers = new Set<ChildProcess>();
afterAll(() => {
  for (const worker of workers) worker.kill('SIGKILL');
});

it(
  `${size.processes * size.loops} workers complete ${size.tasks} tasks once each while processes are killed`,
  { timeout: 600_000 },
  async () => {
    const data = program.path('data');
    const port = String(await freePort());
    let server = await program.up(data, ['--port', port]);
    const call = async <Body>(method: string, path: string, body?: unknown): Promise<Body> => {
      const headers = {
        authorization: `Bearer ${server.token}`,
        'stoa-user': 'fleet',
        ...(body !== undefined && { 'content-type': 'application/json' }),
      };
      const answer = await fetch(server.url + path, {
        method,
        headers,
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as Body;
    };
    const workspace = await call<{ id: string }>('POST', '/v1/workspaces', { name: 'fleet' });
    const project = await call<{ id: string }>('POST', `/v1/workspaces/${workspace.id}/projects`, {
      name: 'fleet',
    });
    const session = await call<{ id: string }>('POST', `/v1/projects/${project.id}/sessions`, {});
    const made = await makeTasks(size.tasks, (index) =>
      call<{ id: string }>('POST', `/v1/sessions/${session.id}/tasks`, {
        command: `work ${index}`,
        max_attempts: 50,
      }),
    );

    const reported: string[] = [];
    const startWorkers = (name: string): ChildProcess => {
      const worker = spawn(
        process.execPath,
        [workerScript, server.url, server.token, project.id, name, String(size.loops)],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      let rest = '';
      worker.stdout?.on('data', (chunk: Buffer) => {
        const lines = (rest + chunk.toString()).split('\n');
        rest = lines.pop() ?? '';
        reported.push(...lines);
      });
      workers.add(worker);
      worker.once('exit', () => workers.delete(worker));
      return worker;
    };
    const crew = Array.from({ length: size.processes }, (_, index) => startWorkers(`w${index}`));
    const until = (share: number): Promise<void> =>
      expect
        .poll(() => reported.length, { timeout: 300_000, interval: 20 })
        .toBeGreaterThanOrEqual(size.tasks * share);

    await until(0.2);
    crew[0]?.kill('SIGKILL');
    startWorkers('spare-0');
    await until(0.4);
    server = await restart(server, data, port);
    await until(0.6);
    crew[1]?.kill('SIGKILL');
    startWorkers('spare-1');
    await until(0.7);
    server = await restart(server, data, port);

    await expect
      .poll(
        async () =>
          (await call<{ active_tasks: number }>('GET', `/v1/workspaces/${workspace.id}`)).active_tasks,
        { timeout: 300_000, interval: 250 },
      )
      .toBe(0);
    const tasks = await allPages<{ id: string; status: string }>((cursor) =>
      call('GET', `/v1/sessions/${session.id}/tasks?limit=100${cursor}`),
    );
    expect(tasks.map(({ id }) => id).toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    expect(tasks.filter(({ status }) => status !== 'completed')).toEqual([]);
    const completions = await allPages<{ id: string }>((cursor) =>
      call('GET', `/v1/changes?limit=1000&topics=task.completed${cursor.replace('cursor', 'since')}`),
    );
    expect(completions.map(({ id }) => id).toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    // No two workers got the same claim.
    const holders = new Set(reported.map((line) => line.split(' ')[0]));
    expect(reported.length).toBe(holders.size);
  },
);

async function restart(server: RunningServer, data: string, port: string): Promise<RunningServer> {
  await server.end('SIGKILL');
  return program.up(data, ['--port', port]);
}

async function makeTasks<Made>(count: number, make: (index: number) => Promise<Made>): Promise<Made[]> {
  const made: Made[] = [];
  for (let from = 0; from < count; from += 50)
    made.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(50, count - from) }, (_, index) => make(from + index)),
      )),
    );
  return made;
}

async function allPages<Item>(
  read: (cursor: string) => Promise<{ items: Item[]; next_cursor: string | null }>,
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor = '';
  for (;;) {
    const page = await read(cursor);
    items.push(...page.items);
    if (page.next_cursor === null) return items;
    cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
}
