/** What tasks do on every backend: claimed once, given back when the holder is lost, closed to late writes. */
import type { TestRunner } from '../../core/test-runner.js';
import { operatorCaller } from '../../core/caller.js';
import { encodeCursor } from '../../core/paging.js';
import type { Claim, Task } from '../model.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, makePlace, makeTasks, userCaller } from './bench.js';

export function taskTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`tasks on ${backend}`, () => {
    let bench: Bench;
    let service: WorkspacesService;
    const ada = userCaller('ada', { agent: 'worker-1' });

    beforeAll(async () => {
      // Small steps, so that bulk work needs several of them.
      bench = await open({ workspaceStepRowsMax: 10 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    async function claimOne(projectId: string): Promise<Claim> {
      const claim = await service.claimTask(ada, projectId);
      if (claim === null) throw new Error('nothing was ready');
      return claim;
    }

    async function readyIds(projectId: string): Promise<string[]> {
      return (await service.listReadyTasks(ada, projectId, { limit: 100 })).items.map(({ id }) => id);
    }

    it('a new task is pending, with the fields of its record', async () => {
      const { sessionId } = await makePlace(service, ada);
      const task = await service.createTask(ada, sessionId, { command: 'go test ./...', priority: 5 });
      expect(task).toEqual({
        id: expect.stringMatching(/^task_/),
        session_id: sessionId,
        command: 'go test ./...',
        status: 'pending',
        output: null,
        error: null,
        started_at: null,
        completed_at: null,
        bytes_in: 0,
        bytes_out: 0,
        duration: null,
        depends_on: [],
        priority: 5,
        claimed_by: null,
        attempts: 0,
        max_attempts: 3,
        reason: null,
        created_at: expect.any(String),
        updated_at: task.created_at,
        version: 1,
      });
      expect(await service.getTask(ada, task.id)).toEqual(task);
    });

    for (const body of [
      { command: '' },
      { command: 'x'.repeat(10_001) },
      {},
      { command: 'a\0b' },
      { command: 'x', priority: 1.5 },
      { command: 'x', priority: 1_000_000 },
      { command: 'x', max_attempts: 0 },
      { command: 'x', depends_on: ['nonsense'] },
    ])
      it(`a task that does not fit is refused: ${JSON.stringify(body)}`, async () => {
        const { sessionId } = await makePlace(service, ada);
        await expect(service.createTask(ada, sessionId, body)).rejects.toMatchObject({
          code: 'invalid_request',
        });
      });

    it('tasks are claimed by priority, then by age', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made: Task[] = [];
      for (const priority of [0, 5, -3, 5, 0, 1000, -1000])
        made.push(await service.createTask(ada, sessionId, { command: 'x', priority }));
      const expected = [5, 1, 3, 0, 4, 2, 6].map((index) => made[index]!.id);
      expect(await readyIds(projectId)).toEqual(expected);
      const claimed: string[] = [];
      for (
        let claim = await service.claimTask(ada, projectId);
        claim !== null;
        claim = await service.claimTask(ada, projectId)
      )
        claimed.push(claim.task.id);
      expect(claimed).toEqual(expected);
    });

    it('what is cancelled, deleted, moved, returned or added between claims is claimed in its right place', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made: Task[] = [];
      for (let index = 0; index < 9; index += 1)
        made.push(await service.createTask(ada, sessionId, { command: `step ${index}` }));
      const [first, cancelled, deleted, later, , sooner, , , last] = made as [
        Task,
        Task,
        Task,
        Task,
        Task,
        Task,
        Task,
        Task,
        Task,
      ];
      const blocked = await service.createTask(ada, sessionId, { command: 'blocked', depends_on: [last.id] });
      const claim = await claimOne(projectId);
      expect(claim.task.id).toBe(first.id);
      await service.cancelTask(ada, cancelled.id);
      await service.deleteTask(ada, deleted.id);
      await service.updateTask(ada, later.id, { priority: -5 });
      await service.updateTask(ada, sooner.id, { priority: 9 });
      await service.updateTask(ada, blocked.id, { priority: 50 });
      const urgent = await service.createTask(ada, sessionId, { command: 'urgent', priority: 3 });
      await service.failTask(ada, first.id, { fence: claim.lease.fence, retry: true });
      const claimed: string[] = [];
      for (
        let next = await service.claimTask(ada, projectId);
        next !== null;
        next = await service.claimTask(ada, projectId)
      )
        claimed.push(next.task.id);
      expect(claimed).toEqual([
        sooner.id,
        urgent.id,
        first.id,
        made[4]!.id,
        made[6]!.id,
        made[7]!.id,
        last.id,
        later.id,
      ]);
    });

    it('the ready list comes in pages', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made = await makeTasks(service, ada, sessionId, 7);
      const first = await service.listReadyTasks(ada, projectId, { limit: 4 });
      const second = await service.listReadyTasks(ada, projectId, { limit: 4, cursor: first.next_cursor });
      expect([...first.items, ...second.items].map(({ id }) => id).toSorted()).toEqual(
        made.map(({ id }) => id).toSorted(),
      );
      expect(second.next_cursor).toBeNull();
    });

    it('a claim answers the task, running, and a lease with a fence', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const { task, lease } = await claimOne(projectId);
      expect(task).toMatchObject({
        status: 'running',
        claimed_by: 'worker-1',
        started_at: expect.any(String),
        attempts: 0,
        version: 2,
      });
      expect(lease).toEqual({
        fence: 1,
        expires_at: new Date(Date.parse(task.started_at ?? '') + 60_000).toISOString(),
      });
      expect(await service.claimTask(ada, projectId)).toBeNull();
      expect(await service.getTask(ada, task.id)).toEqual(task);
    });

    it('of many claims at the same time each task goes to one', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made = await makeTasks(service, ada, sessionId, 30);
      const claims = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          service.claimTask(ada, projectId, { agent_id: `w${index}` }),
        ),
      );
      const given = claims.filter((claim) => claim !== null).map(({ task }) => task.id);
      expect(given.toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    });

    it('complete records the result, and the same write again is not an error', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const { task, lease } = await claimOne(projectId);
      bench.pass(2);
      const done = await service.completeTask(ada, task.id, { fence: lease.fence, output: 'ok' });
      expect(done).toMatchObject({
        status: 'completed',
        output: 'ok',
        bytes_out: 2,
        completed_at: expect.any(String),
        error: null,
        version: 3,
      });
      expect(done.duration).toBeGreaterThanOrEqual(2);
      expect(await service.completeTask(ada, task.id, { fence: lease.fence, output: 'ok' })).toEqual(done);
      await expect(
        service.completeTask(ada, task.id, { fence: lease.fence, output: 'other' }),
      ).rejects.toMatchObject({ code: 'fenced' });
      await expect(service.failTask(ada, task.id, { fence: lease.fence })).rejects.toMatchObject({
        code: 'fenced',
      });
      await expect(service.heartbeatTask(ada, task.id, { fence: lease.fence })).rejects.toMatchObject({
        code: 'fenced',
      });
      await expect(service.cancelTask(ada, task.id)).rejects.toMatchObject({
        code: 'invalid_transition',
        details: { from: 'completed', to: 'cancelled' },
      });
    });

    it('a wrong fence writes nothing', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [made] = await makeTasks(service, ada, sessionId, 1);
      await expect(service.completeTask(ada, made!.id, { fence: 1 })).rejects.toMatchObject({
        code: 'fenced',
      });
      const { task } = await claimOne(projectId);
      for (const fence of [2, 99])
        await expect(service.completeTask(ada, task.id, { fence })).rejects.toMatchObject({ code: 'fenced' });
      expect((await service.getTask(ada, task.id)).status).toBe('running');
    });

    it('a lapsed lease puts the task back with the reason and a raised count, and refuses the late holder', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const first = await claimOne(projectId);
      bench.pass(61);
      // Refused before the sweeper has been there, too.
      await expect(
        service.completeTask(ada, first.task.id, { fence: first.lease.fence }),
      ).rejects.toMatchObject({ code: 'fenced' });
      await bench.sweep();
      expect(await service.getTask(ada, first.task.id)).toMatchObject({
        status: 'pending',
        attempts: 1,
        claimed_by: null,
        started_at: null,
        reason: expect.stringContaining('worker-1'),
      });
      const second = await claimOne(projectId);
      expect(second.task.id).toBe(first.task.id);
      expect(second.lease.fence).toBeGreaterThan(first.lease.fence);
      await expect(
        service.completeTask(ada, first.task.id, { fence: first.lease.fence }),
      ).rejects.toMatchObject({ code: 'fenced' });
      expect(await service.completeTask(ada, first.task.id, { fence: second.lease.fence })).toMatchObject({
        status: 'completed',
        attempts: 1,
      });
    });

    it('after the last attempt a lapsed task fails', async () => {
      const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      for (let attempt = 1; attempt <= 3; attempt += 1) {
        expect((await service.getTask(ada, task!.id)).status).toBe('pending');
        await claimOne(projectId);
        bench.pass(61);
        await bench.sweep();
      }
      expect(await service.getTask(ada, task!.id)).toMatchObject({
        status: 'failed',
        attempts: 3,
        error: expect.any(String),
        reason: expect.stringContaining('No attempt is left'),
      });
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
      expect(await service.claimTask(ada, projectId)).toBeNull();
    });

    it('heartbeats keep a claim, without a new version and without a change in the feed', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const { task, lease } = await claimOne(projectId);
      const changes = (await bench.changes()).length;
      for (let beat = 0; beat < 5; beat += 1) {
        bench.pass(40);
        await bench.sweep();
        const renewed = await service.heartbeatTask(ada, task.id, { fence: lease.fence });
        expect(renewed.lease).toMatchObject({ holder: 'worker-1', fence: lease.fence });
        expect(Date.parse(renewed.lease.expires_at)).toBeGreaterThan(Date.parse(lease.expires_at));
      }
      expect(await service.getTask(ada, task.id)).toEqual(task);
      expect((await bench.changes()).length).toBe(changes);
      bench.pass(61);
      await bench.sweep();
      expect((await service.getTask(ada, task.id)).status).toBe('pending');
    });

    it('a lease has the length that the claim asks for', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const claim = await service.claimTask(ada, projectId, { lease_seconds: 5 });
      bench.pass(6);
      await bench.sweep();
      expect((await service.getTask(ada, claim!.task.id)).status).toBe('pending');
      await expect(service.claimTask(ada, projectId, { lease_seconds: 1_000_000 })).rejects.toMatchObject({
        code: 'invalid_request',
      });
    });

    it('fail is final, unless another attempt is asked for and one is left', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      let claim = await claimOne(projectId);
      expect(
        await service.failTask(ada, claim.task.id, { fence: claim.lease.fence, error: 'flaky', retry: true }),
      ).toMatchObject({ status: 'pending', attempts: 1, reason: expect.stringContaining('flaky') });
      // The answer may have been lost: the same write again changes nothing.
      expect(
        await service.failTask(ada, claim.task.id, { fence: claim.lease.fence, error: 'flaky', retry: true }),
      ).toMatchObject({ status: 'pending', attempts: 1 });
      claim = await claimOne(projectId);
      expect(
        await service.failTask(ada, claim.task.id, { fence: claim.lease.fence, error: '', retry: true }),
      ).toMatchObject({ status: 'pending', attempts: 2, reason: expect.stringMatching(/ gave it back\.$/) });
      claim = await claimOne(projectId);
      const failed = await service.failTask(ada, claim.task.id, {
        fence: claim.lease.fence,
        error: 'broken',
        output: 'trace',
      });
      expect(failed).toMatchObject({
        status: 'failed',
        error: 'broken',
        output: 'trace',
        attempts: 3,
        reason: 'broken',
      });
      expect(
        await service.failTask(ada, claim.task.id, {
          fence: claim.lease.fence,
          error: 'broken',
          output: 'trace',
        }),
      ).toEqual(failed);
    });

    it('cancel ends a running task and shuts its holder out', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [waiting] = await makeTasks(service, ada, sessionId, 2);
      const { task, lease } = await claimOne(projectId);
      expect(task.id).toBe(waiting!.id);
      const cancelled = await service.cancelTask(ada, task.id, { reason: 'not needed' });
      expect(cancelled).toMatchObject({ status: 'cancelled', reason: 'not needed' });
      expect(await service.cancelTask(ada, task.id)).toEqual(cancelled);
      await expect(service.completeTask(ada, task.id, { fence: lease.fence })).rejects.toMatchObject({
        code: 'fenced',
      });
      bench.pass(61);
      await bench.sweep();
      expect(await service.getTask(ada, task.id)).toEqual(cancelled);
    });

    it('only a pending task can be changed, and a new priority changes its place', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [first, second] = await makeTasks(service, ada, sessionId, 2);
      await service.updateTask(ada, second!.id, { priority: 9, command: 'sooner' }, { ifVersion: 1 });
      await expect(
        service.updateTask(ada, second!.id, { priority: 1 }, { ifVersion: 1 }),
      ).rejects.toMatchObject({ code: 'version_conflict' });
      expect(await readyIds(projectId)).toEqual([second!.id, first!.id]);
      expect((await claimOne(projectId)).task).toMatchObject({
        id: second!.id,
        command: 'sooner',
        priority: 9,
      });
      await expect(service.updateTask(ada, second!.id, { priority: 1 })).rejects.toMatchObject({
        code: 'conflict',
      });
    });

    it('a task that depends on others is ready only when all are completed', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [a, b] = await makeTasks(service, ada, sessionId, 2);
      const last = await service.createTask(ada, sessionId, {
        command: 'last',
        priority: 100,
        depends_on: [a!.id, b!.id],
      });
      expect(await readyIds(projectId)).toEqual([a!.id, b!.id]);
      await service.updateTask(ada, last.id, { priority: 101 });
      expect(await readyIds(projectId)).toEqual([a!.id, b!.id]);
      const first = await claimOne(projectId);
      await service.completeTask(ada, first.task.id, { fence: first.lease.fence });
      expect(await readyIds(projectId)).toEqual([b!.id]);
      const second = await claimOne(projectId);
      await service.completeTask(ada, second.task.id, { fence: second.lease.fence });
      expect((await claimOne(projectId)).task.id).toBe(last.id);
      // Also after it came back, and after what it depends on was deleted.
      await service.deleteTask(ada, a!.id);
      bench.pass(61);
      await bench.sweep();
      expect(await readyIds(projectId)).toEqual([last.id]);
    });

    it('a task that depends on a completed one is ready at once; on a failed one it is refused', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [done, cancelled] = await makeTasks(service, ada, sessionId, 2);
      const claim = await claimOne(projectId);
      await service.completeTask(ada, done!.id, { fence: claim.lease.fence });
      await service.cancelTask(ada, cancelled!.id);
      const next = await service.createTask(ada, sessionId, { command: 'next', depends_on: [done!.id] });
      expect(await readyIds(projectId)).toEqual([next.id]);
      await expect(
        service.createTask(ada, sessionId, { command: 'never', depends_on: [cancelled!.id] }),
      ).rejects.toMatchObject({ code: 'conflict' });
    });

    it('nothing depends on a task of another project', async () => {
      const { sessionId } = await makePlace(service, ada);
      const other = await makePlace(service, ada);
      const [theirs] = await makeTasks(service, ada, other.sessionId, 1);
      await expect(
        service.createTask(ada, sessionId, { command: 'x', depends_on: [theirs!.id] }),
      ).rejects.toMatchObject({ code: 'not_found' });
    });

    for (const end of ['cancelled', 'failed', 'deleted'] as const)
      it(`when a task is ${end}, what depends on it is cancelled, down the line`, async () => {
        const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
        const [root] = await makeTasks(service, ada, sessionId, 1);
        const child = await service.createTask(ada, sessionId, { command: 'child', depends_on: [root!.id] });
        const grandchild = await service.createTask(ada, sessionId, {
          command: 'grandchild',
          depends_on: [child.id],
        });
        if (end === 'cancelled') await service.cancelTask(ada, root!.id);
        if (end === 'deleted') await service.deleteTask(ada, root!.id);
        if (end === 'failed') {
          const claim = await claimOne(projectId);
          await service.failTask(ada, root!.id, { fence: claim.lease.fence });
        }
        await bench.sweep();
        expect(await service.getTask(ada, child.id)).toMatchObject({
          status: 'cancelled',
          reason: expect.stringContaining(root!.id),
        });
        expect(await service.getTask(ada, grandchild.id)).toMatchObject({
          status: 'cancelled',
          reason: expect.stringContaining(child.id),
        });
        expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
      });

    it('more dependants than one step holds follow in further steps', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [root] = await makeTasks(service, ada, sessionId, 1);
      const children = await Promise.all(
        Array.from({ length: 35 }, () =>
          service.createTask(ada, sessionId, { command: 'child', depends_on: [root!.id] }),
        ),
      );
      const claim = await claimOne(projectId);
      await service.completeTask(ada, root!.id, { fence: claim.lease.fence });
      await bench.sweep();
      expect((await readyIds(projectId)).toSorted()).toEqual(children.map(({ id }) => id).toSorted());
    });

    it('deleting a session cancels what depends on its unfinished tasks', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [root] = await makeTasks(service, ada, sessionId, 1);
      const other = await service.createSession(ada, projectId);
      const child = await service.createTask(ada, other.id, { command: 'child', depends_on: [root!.id] });
      await service.deleteSession(ada, sessionId);
      await bench.sweep();
      expect((await service.getTask(ada, child.id)).status).toBe('cancelled');
    });

    it('a claim skips the many tasks of a deleted session', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 40);
      const other = await service.createSession(ada, projectId);
      const [left] = await makeTasks(service, ada, other.id, 1);
      await service.deleteSession(ada, sessionId);
      expect((await claimOne(projectId)).task.id).toBe(left!.id);
    });

    it('a waiting claim returns as soon as a task is ready', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const waiting = service.claimTask(ada, projectId, { wait: 30 });
      const [task] = await makeTasks(service, ada, sessionId, 1);
      expect((await waiting)?.task.id).toBe(task!.id);
    });

    it('a waiting claim is woken by a return, by a finished dependency, and by nothing else', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [root] = await makeTasks(service, ada, sessionId, 1);
      const child = await service.createTask(ada, sessionId, { command: 'child', depends_on: [root!.id] });
      const claim = await claimOne(projectId);
      const first = service.claimTask(ada, projectId, { wait: 30 });
      await service.failTask(ada, root!.id, { fence: claim.lease.fence, retry: true });
      const again = await first;
      expect(again?.task.id).toBe(root!.id);
      const second = service.claimTask(ada, projectId, { wait: 30 });
      await service.completeTask(ada, root!.id, { fence: again!.lease.fence });
      expect((await second)?.task.id).toBe(child.id);
      expect(await service.claimTask(ada, projectId, { wait: 0.05 })).toBeNull();
    });

    it('of many waiting claims each gets another task, first come first served', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const waiting = Array.from({ length: 10 }, (_, index) =>
        service.claimTask(ada, projectId, { wait: 30, agent_id: `w${index}` }),
      );
      await makeTasks(service, ada, sessionId, 10);
      const ids = (await Promise.all(waiting)).map((claim) => claim?.task.id);
      expect(new Set(ids).size).toBe(10);
    });

    it('a waiting claim that is given up leaves the task to the next', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const gone = new AbortController();
      const first = service.claimTask(ada, projectId, { wait: 30 }, gone.signal);
      const second = service.claimTask(ada, projectId, { wait: 30 });
      gone.abort();
      expect(await first).toBeNull();
      const [task] = await makeTasks(service, ada, sessionId, 1);
      expect((await second)?.task.id).toBe(task!.id);
    });

    it('a claim of somebody who is gone already takes no task', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      expect(await service.claimTask(ada, projectId, { wait: 30 }, AbortSignal.abort())).toBeNull();
      expect((await service.claimTask(ada, projectId))?.task.id).toBe(task!.id);
    });

    it('lists come by status, in the order of creation', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made = await makeTasks(service, ada, sessionId, 3);
      await claimOne(projectId);
      expect((await service.listTasks(ada, sessionId)).items.map(({ id }) => id)).toEqual(
        made.map(({ id }) => id),
      );
      expect(
        (await service.listTasks(ada, sessionId, { status: 'running' })).items.map(({ id }) => id),
      ).toEqual([made[0]!.id]);
      expect((await service.listTasks(ada, sessionId, { status: 'pending' })).items).toHaveLength(2);
    });

    it('a signed agent claims in its own name only', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const signed = userCaller('ada', { kind: 'agent', agent: 'signed', agentId: 'a'.repeat(64) });
      await expect(service.claimTask(signed, projectId, { agent_id: 'somebody else' })).rejects.toMatchObject(
        { code: 'forbidden' },
      );
      expect((await service.claimTask(signed, projectId))?.task.claimed_by).toBe('a'.repeat(64));
    });

    it('a signed agent reports on its own claims only, whatever number it guesses', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      const holder = userCaller('ada', { kind: 'agent', agent: 'holder', agentId: 'a'.repeat(64) });
      const other = userCaller('ada', { kind: 'agent', agent: 'other', agentId: 'b'.repeat(64) });
      const { lease } = (await service.claimTask(holder, projectId))!;
      for (const fence of [lease.fence, 1]) {
        await expect(service.heartbeatTask(other, task!.id, { fence })).rejects.toMatchObject({
          code: 'forbidden',
        });
        await expect(
          service.completeTask(other, task!.id, { fence, output: 'forged' }),
        ).rejects.toMatchObject({ code: 'forbidden' });
        await expect(service.failTask(other, task!.id, { fence, error: 'forged' })).rejects.toMatchObject({
          code: 'forbidden',
        });
      }
      await service.heartbeatTask(holder, task!.id, { fence: lease.fence });
      // The user may report for any of its agents.
      await service.heartbeatTask(ada, task!.id, { fence: lease.fence });
      expect(
        await service.completeTask(holder, task!.id, { fence: lease.fence, output: 'done' }),
      ).toMatchObject({ status: 'completed', output: 'done' });
    });

    it('a cursor that somebody made up is refused, or shows nothing of others', async () => {
      const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 3);
      await makePlace(service, userCaller('bob'));
      const { next_cursor: real } = await service.listReadyTasks(ada, projectId, { limit: 1 });
      const lists = [
        (cursor: string) => service.listReadyTasks(ada, projectId, { cursor }),
        (cursor: string) => service.listTasks(ada, sessionId, { cursor }),
        (cursor: string) => service.listSessions(ada, projectId, { cursor }),
        (cursor: string) => service.listProjects(ada, workspaceId, { cursor }),
        (cursor: string) => service.listWorkspaces(ada, { cursor }),
        (cursor: string) => service.listWorkspaces(operatorCaller(), { cursor }),
      ];
      expect(real).not.toBeNull();
      const tags = ['ready', 'tasks', 'sessions', 'projects'].map(
        (kind, at) =>
          [`${kind} ${[projectId, sessionId, projectId, workspaceId][at]} {}`, lists[at]] as const,
      );
      const forged = [...tags, ['workspaces ada {}', lists[4]], ['workspaces null {}', lists[5]]] as const;
      for (const [tag, list] of forged) {
        for (const key of [
          '-1 ',
          '-1',
          '1e9 x',
          'NaN',
          '99999999999999999999',
          '\0',
          '\u{10FFFF}',
          '%',
          "' OR 1=1 --",
          'a'.repeat(1_000),
          'a'.repeat(5_000),
          '9999 idx',
        ]) {
          const cursor = encodeCursor(tag, Buffer.from(key));
          const answer = await list!(cursor).catch((error: unknown) => error);
          if (answer instanceof Error)
            expect(answer, `${tag}: ${key}`).toMatchObject({
              code: expect.stringMatching(/^(invalid_cursor|too_large)$/) as string,
            });
          else
            for (const item of (answer as { items: { owner_id?: string }[] }).items)
              expect(item.owner_id ?? 'ada').toMatch(tag.startsWith('workspaces null') ? /./ : /^ada$/);
        }
      }
    });

    it('a task ends whatever sizes its holder and its session claim', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 2);
      const most = Number.MAX_SAFE_INTEGER;
      await service.updateSession(ada, sessionId, {
        bytes_in: most,
        bytes_out: most,
        command_count: most,
        error_count: most,
      });
      const first = await claimOne(projectId);
      await service.completeTask(ada, first.task.id, {
        fence: first.lease.fence,
        bytes_in: most,
        bytes_out: most,
      });
      const second = await claimOne(projectId);
      await service.failTask(ada, second.task.id, { fence: second.lease.fence, bytes_in: most });
      expect(await service.getSession(ada, sessionId)).toMatchObject({
        bytes_in: most,
        bytes_out: most,
        command_count: most,
        error_count: most,
      });
    });

    it('a deleted task is gone with its claim', async () => {
      const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const { task, lease } = await claimOne(projectId);
      await service.deleteTask(ada, task.id);
      await expect(service.completeTask(ada, task.id, { fence: lease.fence })).rejects.toMatchObject({
        code: 'not_found',
      });
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
      bench.pass(61);
      await bench.sweep();
      expect(await bench.dump()).not.toContain(task.id);
    });
  });
}
