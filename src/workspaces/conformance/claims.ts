/**
 * Claims on tasks on every backend: one holder at a time, given back when the holder is lost, closed to late
 * writes.
 */
import { operatorCaller } from '../../core/caller.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import type { Task } from '../model.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, ada, makePlace, makeTasks, readyTasks, userCaller } from './bench.js';

export function claimTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`claims on tasks on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;

    beforeAll(async () => {
      // Small steps, so that bulk work needs several of them.
      bench = await open({ workspaceStepRowsMax: 10 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    const { claimOne, readyIds } = readyTasks(() => service, ada);

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

    it('tasks that are cancelled, deleted, moved, returned or added between claims keep the claim order', async () => {
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

    it('a claim returns the running task and a lease with a fence', async () => {
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

    it('each task goes to one of many concurrent claims', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made = await makeTasks(service, ada, sessionId, 30);
      const claims = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          service.claimTask({ ...ada, agent: `w${index}` }, projectId),
        ),
      );
      const given = claims.filter((claim) => claim !== null).map(({ task }) => task.id);
      expect(given.toSorted()).toEqual(made.map(({ id }) => id).toSorted());
    });

    it('a wrong fence writes nothing', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [made] = await makeTasks(service, ada, sessionId, 1);
      await refused(service.completeTask(ada, made!.id, { fence: 1 }), 'fenced');
      const { task } = await claimOne(projectId);
      for (const fence of [2, 99]) await refused(service.completeTask(ada, task.id, { fence }), 'fenced');
      expect((await service.getTask(ada, task.id)).status).toBe('running');
    });

    it('an expired lease makes the task ready again, with reason and attempt count, and refuses the late holder', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const first = await claimOne(projectId);
      bench.pass(61);
      // Refused before the sweeper has been there, too.
      await refused(service.completeTask(ada, first.task.id, { fence: first.lease.fence }), 'fenced');
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
      await refused(service.completeTask(ada, first.task.id, { fence: first.lease.fence }), 'fenced');
      expect(await service.completeTask(ada, first.task.id, { fence: second.lease.fence })).toMatchObject({
        status: 'completed',
        attempts: 1,
      });
    });

    it('a task whose last lease expires fails', async () => {
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

    it('all claims of an agent are renewed together, however many there are, and no ended one', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const holder = userCaller('ada', { agent: 'busy' });
      await makeTasks(service, ada, sessionId, 26);
      const ended = await service.claimTask(holder, projectId, { lease_seconds: 30 });
      for (let held = 1; held < 26; held += 1) await service.claimTask(holder, projectId);
      bench.pass(40);
      await service.renewClaims(holder);
      bench.pass(40);
      await bench.sweep();
      const { items } = await service.listTasks(ada, { project: projectId, limit: 100 });
      expect(items.filter(({ status }) => status !== 'running').map(({ id }) => id)).toEqual([
        ended!.task.id,
      ]);
    });

    it('claims that were renewed together can still be renewed, completed and taken back', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const holder = userCaller('ada', { agent: 'busy' });
      await makeTasks(service, ada, sessionId, 3);
      const claims = [1, 2, 3].map(() => service.claimTask(holder, projectId));
      const [one, other, left] = (await Promise.all(claims)).map((claim) => ({
        id: claim!.task.id,
        fence: claim!.lease.fence,
      }));
      await service.renewClaims(holder);
      await service.heartbeatTask(holder, one!.id, { fence: one!.fence });
      const done = await service.completeTask(holder, other!.id, { fence: other!.fence });
      expect(done).toMatchObject({ status: 'completed' });
      bench.pass(61);
      await bench.sweep();
      expect(await service.getTask(ada, left!.id)).toMatchObject({ status: 'pending', attempts: 1 });
    });

    it('a lease lasts as long as the claim requests', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const claim = await service.claimTask(ada, projectId, { lease_seconds: 5 });
      bench.pass(6);
      await bench.sweep();
      expect((await service.getTask(ada, claim!.task.id)).status).toBe('pending');
      await refused(service.claimTask(ada, projectId, { lease_seconds: 1_000_000 }), 'invalid_request');
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

    it('waiting claims get different tasks, in the order of their arrival', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const waiting = Array.from({ length: 10 }, (_, index) =>
        service.claimTask({ ...ada, agent: `w${index}` }, projectId, { wait: 30 }),
      );
      await makeTasks(service, ada, sessionId, 10);
      const ids = (await Promise.all(waiting)).map((claim) => claim?.task.id);
      expect(new Set(ids).size).toBe(10);
    });

    it('a cancelled waiting claim leaves the task to the next claim', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const gone = new AbortController();
      const first = service.claimTask(ada, projectId, { wait: 30 }, { signal: gone.signal });
      const second = service.claimTask(ada, projectId, { wait: 30 });
      gone.abort();
      expect(await first).toBeNull();
      const [task] = await makeTasks(service, ada, sessionId, 1);
      expect((await second)?.task.id).toBe(task!.id);
    });

    it('a claim of a disconnected caller takes no task', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      expect(
        await service.claimTask(ada, projectId, { wait: 30 }, { signal: AbortSignal.abort() }),
      ).toBeNull();
      expect((await service.claimTask(ada, projectId))?.task.id).toBe(task!.id);
    });

    it('are answered again under an Idempotency-Key, and "none" is not stored', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const idempotency = { scope: 'ada', key: `claim ${projectId}`, fingerprint: 'f', seconds: 60 };
      const claim = () => service.claimTask(ada, projectId, {}, { idempotency });
      expect(await claim()).toBeNull();
      await service.createTask(ada, sessionId, { command: 'one' });
      await service.createTask(ada, sessionId, { command: 'two' });
      const [first, ...repeats] = await Promise.all([claim(), claim(), claim()]);
      expect(first).toMatchObject({ task: { command: 'one' } });
      expect(repeats).toEqual([first, first]);
      const waited = await service.claimTask(ada, projectId, { wait: 30 }, { idempotency });
      expect(waited).toEqual(first);
      expect(await service.claimTask(ada, projectId)).toMatchObject({ task: { command: 'two' } });
    });

    it('a signed agent claims in its own name', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const signed = userCaller('ada', { kind: 'agent', agent: 'signed', agentId: 'a'.repeat(64) });
      expect((await service.claimTask(signed, projectId))?.task.claimed_by).toBe('signed');
    });

    it('only the holder can report on a claim, even with a correct fence', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      const holder = userCaller('ada', { kind: 'agent', agent: 'holder', agentId: 'a'.repeat(64) });
      const other = userCaller('ada', { kind: 'agent', agent: 'other', agentId: 'b'.repeat(64) });
      const { lease } = (await service.claimTask(holder, projectId))!;
      for (const fence of [lease.fence, 1]) {
        await refused(service.heartbeatTask(other, task!.id, { fence }), 'forbidden');
        await refused(service.completeTask(other, task!.id, { fence, output: 'forged' }), 'forbidden');
        await refused(service.failTask(other, task!.id, { fence, error: 'forged' }), 'forbidden');
      }
      const { fence } = lease;
      const others = [ada, userCaller('ada', { agent: 'third' }), operatorCaller('ada'), operatorCaller()];
      for (const caller of others) {
        await refused(service.heartbeatTask(caller, task!.id, { fence }), 'forbidden', {
          details: { holder: 'holder' },
        });
        await refused(service.completeTask(caller, task!.id, { fence }), 'forbidden');
        await refused(service.failTask(caller, task!.id, { fence }), 'forbidden');
      }
      await service.heartbeatTask(holder, task!.id, { fence });
      // A token in the name of the agent is the agent.
      await service.heartbeatTask(userCaller('ada', { agent: 'holder' }), task!.id, { fence });
      expect(
        await service.completeTask(holder, task!.id, { fence: lease.fence, output: 'done' }),
      ).toMatchObject({ status: 'completed', output: 'done' });
    });
  });
}
