/** Start times of tasks and pauses after failed attempts, on every backend. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import type { Claim, Task } from '../model.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, ada, makePlace } from './bench.js';

export function scheduleTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`start times of tasks on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    /** How far the tests have moved the clock. */
    let passedSeconds = 0;

    beforeAll(async () => {
      bench = await open();
      service = bench.service;
    });
    afterAll(() => bench.close());

    async function pass(seconds: number): Promise<void> {
      passedSeconds += seconds;
      bench.pass(seconds);
      await bench.sweep();
    }

    /** The time in so many seconds by the clock of the home. */
    function inSeconds(seconds: number): string {
      return new Date(Date.now() + (passedSeconds + seconds) * 1_000).toISOString();
    }

    async function claimOne(projectId: string): Promise<Claim> {
      const claim = await service.claimTask(ada, projectId);
      if (claim === null) throw new Error('nothing was ready');
      return claim;
    }

    it('a task is not claimed before its start time, and is announced when the time is reached', async () => {
      const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
      const runAt = inSeconds(600);
      const later = await service.createTask(ada, sessionId, {
        command: 'later',
        priority: 9,
        run_at: runAt,
      });
      const now = await service.createTask(ada, sessionId, { command: 'now', run_at: inSeconds(-5) });
      expect(later).toMatchObject({ status: 'pending', run_at: runAt });
      expect(now.run_at).toBeNull();
      expect((await service.listReadyTasks(ada, projectId)).items.map(({ id }) => id)).toEqual([now.id]);
      const claim = await claimOne(projectId);
      expect(claim.task.id).toBe(now.id);
      expect(await service.claimTask(ada, projectId)).toBeNull();
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(2);
      await service.completeTask(ada, now.id, { fence: claim.lease.fence });
      await pass(590);
      expect(await service.claimTask(ada, projectId)).toBeNull();
      const waiting = service.claimTask(ada, projectId, { wait: 30 });
      await pass(11);
      expect((await waiting)?.task).toMatchObject({ id: later.id, run_at: null, version: 3 });
      const kinds = (await bench.changes()).filter(({ id }) => id === later.id).map(({ kind }) => kind);
      expect(kinds).toEqual(['task.created', 'task.ready', 'task.claimed']);
    });

    it('a start time can be changed and removed while the task is pending', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const task = await service.createTask(ada, sessionId, { command: 'x', run_at: inSeconds(60) });
      await service.updateTask(ada, task.id, { run_at: inSeconds(600) });
      await pass(61);
      expect(await service.claimTask(ada, projectId)).toBeNull();
      expect((await service.updateTask(ada, task.id, { run_at: null })).run_at).toBeNull();
      expect((await claimOne(projectId)).task.id).toBe(task.id);
    });

    it('a task waits for its start time and for its dependencies', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [first, second] = [
        await service.createTask(ada, sessionId, { command: 'first' }),
        await service.createTask(ada, sessionId, { command: 'second' }),
      ];
      const create = (id: string, seconds: number): Promise<Task> =>
        service.createTask(ada, sessionId, { command: 'x', depends_on: [id], run_at: inSeconds(seconds) });
      const timeLast = await create(first.id, 60);
      const dependencyLast = await create(second.id, 30);
      const claims = [await claimOne(projectId), await claimOne(projectId)];
      await service.completeTask(ada, first.id, { fence: claims[0]!.lease.fence });
      expect(await service.claimTask(ada, projectId)).toBeNull();
      await pass(40);
      expect(await service.claimTask(ada, projectId)).toBeNull();
      await service.completeTask(ada, second.id, { fence: claims[1]!.lease.fence });
      expect((await claimOne(projectId)).task.id).toBe(dependencyLast.id);
      await pass(21);
      expect((await claimOne(projectId)).task.id).toBe(timeLast.id);
    });

    it('a cancelled or deleted task does not come back at its start time', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const make = (): Promise<Task> =>
        service.createTask(ada, sessionId, { command: 'x', run_at: inSeconds(60) });
      const [cancelled, deleted] = [await make(), await make()];
      await service.cancelTask(ada, cancelled.id);
      await service.deleteTask(ada, deleted.id);
      await pass(61);
      expect(await service.claimTask(ada, projectId)).toBeNull();
      expect((await service.getTask(ada, cancelled.id)).status).toBe('cancelled');
    });

    it('a task with retry returns after a pause that doubles up to its maximum', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const retry = { base_seconds: 100, max_seconds: 300 };
      const made = await service.createTask(ada, sessionId, { command: 'x', max_attempts: 5, retry });
      expect(made.retry).toEqual(retry);
      for (const pause of [100, 200, 300]) {
        const { lease } = await claimOne(projectId);
        const failed = await service.failTask(ada, made.id, { fence: lease.fence, error: 'flaky' });
        expect(failed).toMatchObject({ status: 'pending', claimed_by: null });
        expect(pauseOf(failed)).toBeGreaterThanOrEqual(pause / 2);
        expect(pauseOf(failed)).toBeLessThanOrEqual(pause);
        expect(await service.claimTask(ada, projectId)).toBeNull();
        await pass(pause + 1);
      }
      await claimOne(projectId);
      await pass(61);
      const lapsed = await service.getTask(ada, made.id);
      expect(lapsed).toMatchObject({ status: 'pending', attempts: 4 });
      expect(pauseOf(lapsed)).toBeGreaterThanOrEqual(150);
      await pass(301);
      const last = await claimOne(projectId);
      expect(await service.failTask(ada, made.id, { fence: last.lease.fence })).toMatchObject({
        status: 'failed',
        attempts: 5,
      });
    });

    it('a failure with retry false is final, and a task without retry returns at once', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const retry = { base_seconds: 10 };
      const final = await service.createTask(ada, sessionId, { command: 'x', retry });
      expect(final.retry).toEqual({ base_seconds: 10, max_seconds: 3_600 });
      const { lease } = await claimOne(projectId);
      expect(await service.failTask(ada, final.id, { fence: lease.fence, retry: false })).toMatchObject({
        status: 'failed',
      });
      const plain = await service.createTask(ada, sessionId, { command: 'x' });
      const claim = await claimOne(projectId);
      await service.failTask(ada, plain.id, { fence: claim.lease.fence, retry: true });
      expect((await claimOne(projectId)).task).toMatchObject({ id: plain.id, attempts: 1 });
    });

    it('invalid start times and pauses are refused', async () => {
      const { sessionId } = await makePlace(service, ada);
      for (const body of [
        { run_at: 'tomorrow' },
        { retry: { base_seconds: 0 } },
        { retry: { base_seconds: 60, max_seconds: 30 } },
        { retry: { base_seconds: 1e9 } },
      ])
        await refused(service.createTask(ada, sessionId, { command: 'x', ...body }), 'invalid_request');
    });
  });
}

/** The seconds from the last change of the task to its start time. */
function pauseOf({ run_at, updated_at }: Task): number {
  return (Date.parse(run_at ?? '') - Date.parse(updated_at)) / 1_000;
}
