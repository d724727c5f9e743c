/**
 * What a PostgreSQL transaction sees after it waited for another one. Each test fixes the order of the two.
 */
import { EventEmitter, once } from 'node:events';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { type PostgresSql, query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { transaction } from '../../../../src/homes/postgres/database/transaction.js';
import { makePlace, makeTasks, userCaller } from '../../../../src/workspaces/conformance/bench.js';
import { ReadyWaiters } from '../../../../src/workspaces/tasks/ready-waiters.js';
import { startGate } from '../../../servers/gate.js';
import { until } from '../../../until.js';
import { type PostgresBench, openPostgresBench } from './fixture.js';

const ada = userCaller('ada');
let bench: PostgresBench;
let sql: PostgresSql;

beforeAll(async () => {
  bench = await openPostgresBench();
  sql = await openPostgres(bench.url, { connectionsMax: 2 });
});

afterAll(async () => {
  await sql.end();
  await bench.close();
});

/** Waits until the given number of transactions of this database wait for a lock. */
async function standStill(count: number): Promise<void> {
  await expect
    .poll(
      async () =>
        (
          await query(
            sql,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
          )
        ).length,
      { timeout: 20_000, interval: 5 },
    )
    .toBe(count);
}

it('a holder is refused if its task got a new holder while it waited', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 1);
  const claim = await bench.service.claimTask({ ...ada, agent: 'first' }, projectId);
  const { id } = claim!.task;
  const first = { ...ada, agent: 'first' };
  const verbs = [
    () => bench.service.completeTask(first, id, { fence: claim!.lease.fence, output: 'late' }),
    () => bench.service.failTask(first, id, { fence: claim!.lease.fence, error: 'late' }),
    () => bench.service.heartbeatTask(first, id, { fence: claim!.lease.fence }),
  ];
  const attempts = await transaction(sql, async (tx) => {
    await query(tx, 'SELECT 1 FROM workspaces.tasks WHERE id = $1 FOR UPDATE', [id]);
    const waiting = Promise.allSettled(verbs.map((verb) => verb()));
    await standStill(verbs.length);
    // The same rows as after a lost presence and the next claim in the same millisecond.
    await query(
      tx,
      "UPDATE workspaces.tasks SET claimed_by = 'first', attempts = 1, version = version + 2 WHERE id = $1",
      [id],
    );
    await query(tx, 'UPDATE workspaces.leases SET fence = fence + 1 WHERE task_id = $1', [id]);
    return { waiting };
  });
  for (const outcome of await attempts.waiting)
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'fenced' } });
  expect(await bench.service.getTask(ada, id)).toMatchObject({ status: 'running', output: null });
});

it.each(['cancelled', 'released'])(
  'a task that is claimed for the first time while its cancellation or release waits is %s with its lease',
  async (verb) => {
    const { projectId, sessionId } = await makePlace(bench.service, ada);
    const [task] = await makeTasks(bench.service, ada, sessionId, 1);
    const { id } = task!;
    const { claiming, ending } = await transaction(sql, async (tx) => {
      // Reads go on; the claim has locked its task, and waits to write its lease.
      await query(tx, 'LOCK TABLE workspaces.leases IN SHARE MODE');
      const claimed = bench.service.claimTask({ ...ada, agent: 'first' }, projectId);
      await standStill(1);
      const ended =
        verb === 'cancelled' ? bench.service.cancelTask(ada, id, {}) : bench.service.releaseTask(ada, id, {});
      await standStill(2);
      return { claiming: claimed, ending: ended };
    });
    expect(await claiming).toMatchObject({ task: { id } });
    expect(await ending).toMatchObject({ status: verb === 'cancelled' ? 'cancelled' : 'pending' });
    expect(await query(sql, 'SELECT holder FROM workspaces.leases WHERE task_id = $1', [id])).toEqual([
      { holder: null },
    ]);
  },
);

it('a completion whose task got a new holder does not undo those that share its transaction', async () => {
  const { workspaceId, projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 4);
  const claims = await Promise.all(
    Array.from({ length: 4 }, () => bench.service.claimTask({ ...ada, agent: 'first' }, projectId)),
  );
  const first = { ...ada, agent: 'first' };
  const [lost] = claims;
  const { waiting } = await transaction(sql, async (tx) => {
    await query(tx, 'SELECT 1 FROM workspaces.tasks WHERE id = $1 FOR UPDATE', [lost!.task.id]);
    const started = Promise.allSettled(
      claims.map((claim) =>
        bench.service.completeTask(first, claim!.task.id, { fence: claim!.lease.fence, output: 'done' }),
      ),
    );
    await standStill(1);
    await query(tx, 'UPDATE workspaces.tasks SET version = version + 2 WHERE id = $1', [lost!.task.id]);
    await query(
      tx,
      `UPDATE workspaces.leases SET fence = fence + 1, renewed_at = renewed_at + interval '1 second'
        WHERE task_id = $1`,
      [lost!.task.id],
    );
    return { waiting: started };
  });
  const [refused, ...others] = await waiting;
  expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'fenced' } });
  for (const other of others) expect(other).toMatchObject({ value: { status: 'completed' } });
  expect((await bench.service.getWorkspace(ada, workspaceId)).active_tasks).toBe(1);
});

it('a completion that waits for a locked task does not hold up those that share its transaction', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 3);
  const claims = await Promise.all(
    Array.from({ length: 3 }, () => bench.service.claimTask({ ...ada, agent: 'first' }, projectId)),
  );
  const first = { ...ada, agent: 'first' };
  const { late } = await transaction(sql, async (tx) => {
    await query(tx, 'SELECT 1 FROM workspaces.tasks WHERE id = $1 FOR UPDATE', [claims[0]!.task.id]);
    const [waiting, ...others] = claims.map((claim) =>
      bench.service.completeTask(first, claim!.task.id, { fence: claim!.lease.fence, output: 'done' }),
    );
    for (const done of await Promise.all(others)) expect(done.status).toBe('completed');
    return { late: { waiting } };
  });
  expect(await late.waiting).toMatchObject({ status: 'completed' });
});

it('a completion also unblocks a task that began to depend on its task while it waited', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 1);
  const first = { ...ada, agent: 'first' };
  const claim = await bench.service.claimTask(first, projectId);
  const other = await bench.service.createTask(ada, sessionId, { command: 'x' });
  const { id } = claim!.task;
  const { completing } = await transaction(sql, async (tx) => {
    await query(tx, 'SELECT 1 FROM workspaces.tasks WHERE id = $1 FOR SHARE', [id]);
    const completing = bench.service.completeTask(first, id, { fence: claim!.lease.fence, output: 'done' });
    await standStill(1);
    // The same rows as after a new task that depends on it.
    await query(
      tx,
      "INSERT INTO workspaces.task_dependencies (owner_id, task_id, depends_on) VALUES ('ada', $1, $2)",
      [other.id, id],
    );
    await query(tx, 'UPDATE workspaces.tasks SET blockers = 1 WHERE id = $1', [other.id]);
    return { completing };
  });
  expect(await completing).toMatchObject({ status: 'completed' });
  const next = await bench.service.claimTask(first, projectId);
  expect(next?.task.id).toBe(other.id);
});

it('claims at the same moment get different tasks, and those without a task get none', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 5);
  const holders = Array.from({ length: 8 }, (_, index) => `holder-${index}`);
  const claims = await Promise.all(
    holders.map((agent) => bench.service.claimTask({ ...ada, agent }, projectId)),
  );
  const taken = claims.flatMap((claim) => (claim === null ? [] : [claim]));
  expect(new Set(taken.map(({ task }) => task.id)).size).toBe(5);
  for (const { task } of taken) {
    const [holder] = holders.filter((name) => name === task.claimed_by);
    expect(await bench.service.getTask(ada, task.id)).toMatchObject({
      status: 'running',
      claimed_by: holder,
    });
  }
});

it('claims with different labels at the same moment get tasks with their labels', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  const wanted = ['a', 'b', 'c', 'd'];
  for (const label of wanted)
    await bench.service.createTask(ada, sessionId, { command: 'x', labels: [label] });
  const claims = await Promise.all(
    wanted.toReversed().map((label) => bench.service.claimTask(ada, projectId, { labels: [label] })),
  );
  expect(claims.map((claim) => claim?.task.labels)).toEqual(wanted.toReversed().map((label) => [label]));
});

it('a claim does not wait for a task that another transaction has locked', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  const [first, second] = await makeTasks(bench.service, ada, sessionId, 2);
  await transaction(sql, async (tx) => {
    await query(tx, 'SELECT FROM workspaces.tasks WHERE id = $1 FOR UPDATE', [first!.id]);
    expect((await bench.service.claimTask(ada, projectId))?.task.id).toBe(second!.id);
    expect(await bench.service.claimTask(ada, projectId)).toBeNull();
  });
});

it('of writes at the same moment each gets its own answer or refusal', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  const bea = userCaller('bea');
  const places = [
    ...Array.from({ length: 3 }, () => [ada, sessionId] as const),
    [bea, sessionId] as const,
    [ada, 'nowhere'] as const,
  ];
  const created = await Promise.allSettled(
    places.map(([caller, session]) => bench.service.createTask(caller, session, { command: 'x' })),
  );
  expect(created.map(({ status }) => status)).toEqual([
    'fulfilled',
    'fulfilled',
    'fulfilled',
    'rejected',
    'rejected',
  ]);
  const claim = await bench.service.claimTask(ada, projectId);
  const { id } = claim!.task;
  const fence = claim!.lease.fence;
  // The same task two times: the second completion finds the first one done.
  const ended = await Promise.allSettled([
    bench.service.completeTask(ada, id, { fence, output: 'same' }),
    bench.service.completeTask(ada, id, { fence, output: 'same' }),
    bench.service.completeTask(ada, id, { fence: fence + 1, output: 'late' }),
    bench.service.completeTask(bea, id, { fence, output: 'mine' }),
  ]);
  expect(ended).toMatchObject([
    { status: 'fulfilled' },
    { status: 'fulfilled' },
    { status: 'rejected', reason: { code: 'fenced' } },
    { status: 'rejected', reason: { code: 'not_found' } },
  ]);
  const events = (await bench.changes()).filter((change) => change.id === id).map(({ kind }) => kind);
  expect(events).toEqual(['task.created', 'task.claimed', 'task.completed']);
});

it('claims at the same moment wake an idle session once', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 3);
  await bench.service.updateSession(ada, sessionId, { status: 'active' });
  const idle = await bench.service.updateSession(ada, sessionId, { status: 'idle' });
  await Promise.all(Array.from({ length: 3 }, () => bench.service.claimTask(ada, projectId)));
  expect(await bench.service.getSession(ada, sessionId)).toMatchObject({
    status: 'active',
    version: idle.version + 1,
  });
});

it('a commit is refused if its task got a new holder while it waited', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 1);
  const claim = await bench.service.claimTask({ ...ada, agent: 'first' }, projectId);
  const { id } = claim!.task;
  const { waiting } = await transaction(sql, async (tx) => {
    await query(tx, 'SELECT 1 FROM workspaces.tasks WHERE id = $1 FOR UPDATE', [id]);
    const { steps } = bench.service;
    const started = Promise.allSettled([
      bench.writer.write({ caller: ada, checks: [steps.requireClaim(ada, id, claim!.lease.fence)] }, [
        steps.createTask(ada, sessionId, { command: 'late' }),
      ]),
    ]);
    await standStill(1);
    await query(tx, 'UPDATE workspaces.leases SET fence = fence + 1 WHERE task_id = $1', [id]);
    return { waiting: started };
  });
  expect((await waiting)[0]).toMatchObject({ status: 'rejected', reason: { code: 'fenced' } });
  expect((await bench.service.listSessionTasks(ada, sessionId)).items).toHaveLength(1);
});

it.each(['complete', 'cancel', 'create'] as const)(
  '%s in a session that is deleted at the same moment counts no task twice',
  async (verb) => {
    const { workspaceId, projectId, sessionId } = await makePlace(bench.service, ada);
    await makeTasks(bench.service, ada, sessionId, 2);
    const other = await bench.service.createSession(ada, projectId);
    const staying = await makeTasks(bench.service, ada, other.id, 2);
    const claim = await bench.service.claimTask(ada, projectId);
    const act = {
      complete: () => bench.service.completeTask(ada, claim!.task.id, { fence: claim!.lease.fence }),
      cancel: () => bench.service.cancelTask(ada, claim!.task.id),
      create: () => bench.service.createTask(ada, sessionId, { command: 'late' }),
    }[verb];
    const { both } = await transaction(sql, async (tx) => {
      await query(tx, 'SELECT 1 FROM workspaces.sessions WHERE id = $1 FOR NO KEY UPDATE', [sessionId]);
      const deleting = bench.service.deleteSession(ada, sessionId);
      await standStill(1);
      const acting = act();
      await standStill(2);
      return { both: Promise.allSettled([deleting, acting]) };
    });
    const [deleted, acted] = await both;
    expect(deleted).toMatchObject({ status: 'fulfilled' });
    if (acted.status === 'rejected') expect(acted.reason).toMatchObject({ code: 'not_found' });
    await bench.sweep();
    expect((await bench.service.getWorkspace(ada, workspaceId)).active_tasks).toBe(staying.length);
    expect((await bench.service.listReadyTasks(ada, projectId)).items.map(({ id }) => id)).toEqual(
      staying.map(({ id }) => id),
    );
  },
);

it('creating a record in a parent that is being deleted fails with not_found', async () => {
  const { workspaceId, projectId, sessionId } = await makePlace(bench.service, ada);
  const makers: [table: string, id: string, make: () => Promise<unknown>][] = [
    ['sessions', sessionId, () => bench.service.createTask(ada, sessionId, { command: 'late' })],
    ['projects', projectId, () => bench.service.createSession(ada, projectId)],
    ['workspaces', workspaceId, () => bench.service.createProject(ada, workspaceId, { name: 'late' })],
  ];
  for (const [table, id, make] of makers) {
    const { making } = await transaction(sql, async (tx) => {
      await query(tx, `DELETE FROM workspaces.${table} WHERE id = $1`, [id]);
      const started = Promise.allSettled([make()]);
      await standStill(1);
      return { making: started };
    });
    expect((await making)[0]).toMatchObject({ status: 'rejected', reason: { code: 'not_found' } });
  }
});

it("leases use the database's clock, even if the server's clock jumps", async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 2);
  const [realNow, ahead] = [Date.now, vi.spyOn(Date, 'now')];
  try {
    const before = await bench.service.claimTask(ada, projectId);
    ahead.mockImplementation(() => realNow() + 600_000);
    const during = await bench.service.claimTask(ada, projectId);
    expect(Date.parse(during!.lease.expires_at) - Date.parse(before!.lease.expires_at)).toBeLessThan(60_000);
    await bench.sweep();
    for (const claim of [before!, during!]) {
      const { id } = claim.task;
      expect(await bench.service.getTask(ada, id)).toMatchObject({ status: 'running', attempts: 0 });
      await bench.service.completeTask(ada, id, { fence: claim.lease.fence });
    }
  } finally {
    ahead.mockRestore();
  }
});

it('a waiting claim finds a ready task although its notice was lost', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 1);
  await query(sql, 'UPDATE workspaces.tasks SET blockers = 1 WHERE project_id = $1', [projectId]);
  const waiting = bench.service.claimTask(ada, projectId, { wait: 30 });
  await expect.poll(() => bench.port.waiters.size).toBe(1);
  await query(sql, 'UPDATE workspaces.tasks SET blockers = 0 WHERE project_id = $1', [projectId]);
  const startedMs = performance.now();
  expect(await waiting).toMatchObject({ task: { status: 'running' } });
  // Much less than the 30 seconds that the claim would wait.
  expect(performance.now() - startedMs).toBeLessThan(10_000);
});

it('looks for ready tasks once after an outage, however long it was', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const looks = vi.spyOn(ReadyWaiters.prototype, 'projects', 'get');
  const own = await openPostgresBench();
  try {
    const { projectId } = await makePlace(own.service, ada);
    const waiting = own.service.claimTask(ada, projectId, { wait: 60 });
    await expect.poll(() => own.port.waiters.size).toBe(1);
    await transaction(own.base.sql, async (tx) => {
      await query(tx, 'LOCK TABLE workspaces.projects');
      await vi.advanceTimersByTimeAsync(60_000);
    });
    vi.useRealTimers();
    await own.close();
    expect(await waiting).toBeNull();
    // The other servers of this suite look too.
    expect(looks.mock.contexts.filter((waiters) => waiters === own.port.waiters).length).toBeLessThan(4);
  } finally {
    looks.mockRestore();
    vi.useRealTimers();
  }
});

it('sends no notice about a task that a poll has found', async () => {
  const released = new EventEmitter();
  const held = once(released, 'now').then(() => undefined);
  const gate = await startGate(bench.url.href, {
    hold: (sent) => (sent.includes(' held"') ? held : undefined),
  });
  const own = await openPostgresBench({}, new URL(gate.url));
  const heard: string[] = [];
  const listening = await sql.listen('stoa_tasks_ready', (notice) => void heard.push(notice));
  try {
    const { sessionId } = await makePlace(own.service, ada);
    const make = (label: string) => own.service.createTask(ada, sessionId, { command: 'c', labels: [label] });
    for (const label of ['held', 'b', 'c']) await make(label);
    const [startedMs, pollMs] = [performance.now(), 1_000];
    await until(() => performance.now() > startedMs + pollMs);
    released.emit('now');
    await expect.poll(() => heard.some((notice) => notice.endsWith(' held'))).toBe(true);
    await make('last');
    await expect.poll(() => heard.some((notice) => notice.endsWith(' last'))).toBe(true);
    expect(heard.filter((notice) => / [bc]$/.test(notice))).toEqual([]);
  } finally {
    await listening.unlisten();
    await own.close();
    await gate.close();
  }
});

it('the operator and the owner who claim in one project at once get different tasks', async () => {
  const { projectId, sessionId } = await makePlace(bench.service, ada);
  await makeTasks(bench.service, ada, sessionId, 40);
  const callers = [ada, operatorCaller()];
  const claims = await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      bench.service.claimTask({ ...callers[index % 2]!, agent: `claimer-${index}` }, projectId),
    ),
  );
  expect(new Set(claims.map((claim) => claim?.task.id)).size).toBe(40);
});
