/** Deleted, restored, moved and purged workspaces and projects, on every backend. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { operatorCaller } from '../../core/caller.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, makePlace, makeTasks, userCaller } from './bench.js';

export function deletionTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`deleted workspaces and projects on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    const ada = userCaller('ada');

    beforeAll(async () => {
      bench = await open();
      service = bench.service;
    });
    afterAll(() => bench.close());

    it('a deleted workspace hides its content, and a restore brings it back unchanged', async () => {
      const { workspaceId, projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      const gone = await service.createProject(ada, workspaceId, { name: 'gone before' });
      await service.deleteProject(ada, gone.id);
      await service.deleteWorkspace(ada, workspaceId);
      const calls = [
        () => service.getWorkspace(ada, workspaceId),
        () => service.getProject(ada, projectId),
        () => service.getSession(ada, sessionId),
        () => service.getTask(ada, task!.id),
        () => service.claimTask(ada, projectId),
      ];
      for (const call of calls) await refused(call(), 'not_found');
      expect((await service.listWorkspaces(ada, { limit: 100 })).items.map(({ id }) => id)).not.toContain(
        workspaceId,
      );
      expect(
        (await service.listWorkspaces(ada, { deleted: true, limit: 100 })).items.map(({ id }) => id),
      ).toContain(workspaceId);
      expect((await service.getWorkspace(ada, workspaceId, { deleted: true })).deleted_at).not.toBeNull();
      await service.restoreWorkspace(ada, workspaceId);
      expect(await service.getTask(ada, task!.id)).toEqual(task);
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(1);
      await refused(service.getProject(ada, gone.id), 'not_found');
    });

    it('active_tasks counts the open tasks of live projects, through deletion, restoring and moves', async () => {
      const { workspaceId, projectId, sessionId } = await makePlace(service, ada);
      const other = await service.createWorkspace(ada, { name: `other of ${workspaceId}` });
      const active = async (id: string): Promise<number> =>
        (await service.getWorkspace(ada, id)).active_tasks;
      const tasks = await makeTasks(service, ada, sessionId, 5);
      expect(await active(workspaceId)).toBe(5);
      const before = await service.getWorkspace(ada, workspaceId);
      const claim = await service.claimTask(ada, projectId);
      expect(await active(workspaceId)).toBe(5);
      await service.completeTask(ada, claim!.task.id, { fence: claim!.lease.fence });
      await service.cancelTask(ada, tasks[4]!.id);
      expect(await active(workspaceId)).toBe(3);
      await service.deleteTask(ada, tasks[3]!.id);
      expect(await active(workspaceId)).toBe(2);
      await service.deleteProject(ada, projectId);
      expect(await active(workspaceId)).toBe(0);
      await service.restoreProject(ada, projectId);
      expect(await active(workspaceId)).toBe(2);
      await service.updateProject(ada, projectId, { workspace_id: other.id });
      expect([await active(workspaceId), await active(other.id)]).toEqual([0, 2]);
      expect((await service.listProjects(ada, other.id)).items.map(({ id }) => id)).toEqual([projectId]);
      expect((await service.listProjects(ada, workspaceId)).items).toEqual([]);
      await service.deleteSession(ada, sessionId);
      expect(await active(other.id)).toBe(0);
      // Derived counters change neither the version nor updated_at.
      expect(await service.getWorkspace(ada, workspaceId)).toEqual({ ...before, active_tasks: 0 });
    });

    it('a project does not move to the workspace of another owner', async () => {
      const { projectId } = await makePlace(service, ada);
      const theirs = await service.createWorkspace(userCaller('bob'), { name: 'theirs' });
      await refused(service.updateProject(ada, projectId, { workspace_id: theirs.id }), 'not_found');
      await refused(
        service.updateProject(operatorCaller(), projectId, { workspace_id: theirs.id }),
        'not_found',
      );
    });

    it('a purge or a restore requires a deletion first, and a purge leaves no rows', async () => {
      const caller = userCaller('purger');
      const { workspaceId, sessionId, projectId } = await makePlace(service, caller);
      const second = await service.createProject(caller, workspaceId, { name: 'second' });
      await service.deleteProject(caller, second.id);
      const tasks = await makeTasks(service, caller, sessionId, 30);
      await service.claimTask(caller, projectId);
      await service.updateSession(caller, sessionId, { status: 'active' });
      await refused(service.purgeWorkspace(caller, workspaceId), 'conflict', {
        message: `The workspace ${workspaceId} is not deleted. Only a deleted workspace can be purged.`,
      });
      await refused(service.restoreWorkspace(caller, workspaceId), 'conflict', {
        message: `The workspace ${workspaceId} is not deleted. Only a deleted workspace can be restored.`,
      });
      await service.deleteWorkspace(caller, workspaceId);
      await service.purgeWorkspace(caller, workspaceId);
      await refused(service.getWorkspace(caller, workspaceId, { deleted: true }), 'not_found');
      await refused(service.getTask(caller, tasks[0]!.id), 'not_found');
      await bench.sweep();
      const stored = await bench.dump();
      for (const id of [workspaceId, projectId, second.id, sessionId, ...tasks.map((task) => task.id)])
        expect(stored).not.toContain(id);
    });

    it('a purge deletes a project with its sessions and tasks; the rest of the workspace stays', async () => {
      const { workspaceId, projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      await service.deleteProject(ada, projectId);
      const namesake = await service.createProject(ada, workspaceId, { name: 'project' });
      await refused(service.restoreProject(ada, projectId), 'already_exists');
      await service.purgeProject(ada, projectId);
      await bench.sweep();
      const stored = await bench.dump();
      for (const id of [projectId, sessionId, task!.id]) expect(stored).not.toContain(id);
      expect((await service.listProjects(ada, workspaceId)).items.map(({ id }) => id)).toEqual([namesake.id]);
    });
  });
}
