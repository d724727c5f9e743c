/** Tasks that depend on other tasks, on every backend. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, ada, makePlace, makeTasks, readyTasks } from './bench.js';

export function dependencyTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`dependencies of tasks on ${backend}`, () => {
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
      await refused(
        service.createTask(ada, sessionId, { command: 'never', depends_on: [cancelled!.id] }),
        'conflict',
      );
    });

    it('a task cannot depend on a task of another project', async () => {
      const { sessionId } = await makePlace(service, ada);
      const other = await makePlace(service, ada);
      const [theirs] = await makeTasks(service, ada, other.sessionId, 1);
      await refused(
        service.createTask(ada, sessionId, { command: 'x', depends_on: [theirs!.id] }),
        'not_found',
      );
    });

    for (const end of ['cancelled', 'failed', 'deleted'] as const)
      it(`when a task is ${end}, all tasks that depend on it are cancelled`, async () => {
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

    it('more dependants than one step can change are changed in further steps', async () => {
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

    it('deleting a session cancels tasks that depend on its unfinished tasks', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [root] = await makeTasks(service, ada, sessionId, 1);
      const other = await service.createSession(ada, projectId);
      const child = await service.createTask(ada, other.id, { command: 'child', depends_on: [root!.id] });
      await service.deleteSession(ada, sessionId);
      await bench.sweep();
      expect((await service.getTask(ada, child.id)).status).toBe('cancelled');
    });
  });
}
