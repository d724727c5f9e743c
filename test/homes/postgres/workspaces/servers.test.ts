/** Four server processes on one PostgreSQL: each task is claimed once, even if one server is killed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type RunningServer, useProgram } from '../../../cli/program.js';
import { sharedHome } from '../../../servers/shared.js';

const servers = 4;
const claimersEach = 3;
const tasks = 200;
const program = useProgram();

interface Claim {
  task: { id: string };
  lease: { fence: number };
}

/** Null if the answer has no body, undefined if a killed server sends no answer. */
async function ask<Body>(
  server: RunningServer,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; body: Body | null } | undefined> {
  const headers = {
    authorization: `Bearer ${server.token}`,
    'stoa-user': 'ada',
    ...(body !== undefined && { 'content-type': 'application/json' }),
  };
  try {
    const answer = await fetch(server.url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { status: answer.status, body: text === '' ? null : (JSON.parse(text) as Body) };
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

async function made<Body>(server: RunningServer, path: string, body: unknown): Promise<Body> {
  const answer = await ask<Body>(server, 'POST', path, body);
  expect(answer?.status, JSON.stringify(answer?.body)).toBe(201);
  return answer?.body as Body;
}

it(
  'four server processes complete each task once, even if one of them is killed',
  { timeout: 300_000 },
  async () => {
    const { args, environment } = await sharedHome();
    const running = await Promise.all(
      Array.from({ length: servers }, (_, index) =>
        program.up(program.path(`server-${index}`), args, environment),
      ),
    );
    const [first, ...others] = running as [RunningServer, ...RunningServer[]];
    const workspace = await made<{ id: string }>(first, '/v1/workspaces', { name: 'fleet' });
    const project = await made<{ id: string }>(first, `/v1/workspaces/${workspace.id}/projects`, {
      name: 'fleet',
    });
    const session = await made<{ id: string }>(first, `/v1/projects/${project.id}/sessions`, {});
    const ids = await Promise.all(
      Array.from(
        { length: tasks },
        async (_, index) =>
          (
            await made<{ id: string }>(
              running[index % servers] as RunningServer,
              `/v1/sessions/${session.id}/tasks`,
              { command: `step ${index}` },
            )
          ).id,
      ),
    );

    const claims: string[] = [];
    const completed: string[] = [];
    const isOver = (): boolean => completed.length >= tasks;
    const work = async (server: RunningServer): Promise<void> => {
      while (!isOver()) {
        const claim = await ask<Claim>(server, 'POST', `/v1/projects/${project.id}/tasks/claim`, {
          lease_seconds: 5,
        });
        if (claim === undefined) return;
        if (claim.body === null) {
          // Other workers have the remaining tasks, or they become ready again when a lease expires.
          if (await everythingEnded(others[0] as RunningServer, session.id)) return;
          await sleep(50);
          continue;
        }
        const { task, lease } = claim.body;
        claims.push(`${task.id} ${lease.fence}`);
        const done = await ask(server, 'POST', `/v1/tasks/${task.id}/complete`, {
          fence: lease.fence,
          output: 'done',
        });
        if (done?.status === 200) completed.push(task.id);
        // The server was killed during the request: the write is stored, or the task becomes ready again.
        else if (done === undefined) return;
      }
    };
    const working = Promise.all(
      running.flatMap((server) => Array.from({ length: claimersEach }, () => work(server))),
    );
    await expect.poll(() => completed.length, { timeout: 120_000, interval: 5 }).toBeGreaterThan(tasks / 4);
    await first.end('SIGKILL');
    await working;

    expect(new Set(claims).size).toBe(claims.length);
    expect(new Set(completed).size).toBe(completed.length);
    const ended = await listed(others[0] as RunningServer, session.id, 'completed');
    expect(ended.toSorted()).toEqual(ids.toSorted());
    const { body } =
      (await ask<{ active_tasks: number }>(
        others[0] as RunningServer,
        'GET',
        `/v1/workspaces/${workspace.id}`,
      )) ?? {};
    expect(body?.active_tasks).toBe(0);
  },
);

async function everythingEnded(server: RunningServer, sessionId: string): Promise<boolean> {
  const [pending, busy] = await Promise.all([
    listed(server, sessionId, 'pending'),
    listed(server, sessionId, 'running'),
  ]);
  return pending.length + busy.length === 0;
}

async function listed(server: RunningServer, sessionId: string, status: string): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const page:
      | { status: number; body: { items: { id: string }[]; next_cursor: string | null } | null }
      | undefined = await ask(
      server,
      'GET',
      `/v1/sessions/${sessionId}/tasks?limit=100&status=${status}${cursor === '' ? '' : `&cursor=${cursor}`}`,
    );
    if (page?.body === null || page === undefined) throw new Error('The server that lists does not answer.');
    found.push(...page.body.items.map(({ id }) => id));
    cursor = page.body.next_cursor;
  }
  return found;
}
