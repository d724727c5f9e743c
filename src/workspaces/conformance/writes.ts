/** Steps of workspaces in one write: all of them or none, and what follows once the write stands. */
import { type TestRunner, eventually, refusals } from '../../core/test-runner.js';
import type { Step, WriteRequest } from '../../core/write.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, makePlace, makeTasks, userCaller } from './bench.js';

export function writeTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`writes of several steps on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    const ada = userCaller('ada');

    beforeAll(async () => {
      bench = await open({ workspaceStepRowsMax: 10, claimsWaitingMax: 2 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    function write(steps: readonly Step<unknown>[], request: Partial<WriteRequest> = {}): Promise<unknown[]> {
      return bench.writer.write({ caller: ada, ...request }, steps);
    }

    it('ten concurrent repeats of an Idempotency-Key get one answer, without the secret', async () => {
      const idempotency = { scope: 'ada', key: 'ten', fingerprint: 'f', seconds: 60 };
      const answers = await Promise.all(
        Array.from({ length: 10 }, () =>
          service.createWorkspace(ada, { name: 'ten', claude_key: 'sk-ten' }, { idempotency }),
        ),
      );
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
      expect(new Set(answers.map(({ claude_key }) => claude_key)).size).toBe(1);
      const named = (await service.listWorkspaces(ada, { name: 'ten' })).items;
      expect(named.map(({ id }) => id)).toEqual([answers[0]?.id]);
      expect(await service.revealWorkspaceKey(ada, answers[0]!.id)).toBe('sk-ten');
      expect(JSON.stringify(answers)).not.toMatch(/sk-ten|enc:v1/);
      // The sealed key is stored once: in the workspace, and not in the kept answer.
      const [sealed] = (await bench.port.getWorkspace('ada', answers[0]!.id, false)).claude_key!.match(
        /enc:v1:\S+/,
      )!;
      expect((await bench.dump()).split(sealed)).toHaveLength(2);
    });

    it('a refused step undoes all steps before it, and the claimed task is the next to claim again', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [first, second] = await makeTasks(service, ada, sessionId, 2);
      const before = await bench.dump();
      await refused(
        write([
          service.steps.createTask(ada, sessionId, { command: 'never' }),
          service.steps.claimNow(ada, projectId, {}),
          service.steps.completeTask(ada, second!.id, { fence: 99 }),
        ]),
        'fenced',
      );
      expect(await bench.dump()).toBe(before);
      expect((await service.claimTask(ada, projectId))?.task.id).toBe(first!.id);
      expect((await service.claimTask(ada, projectId))?.task.id).toBe(second!.id);
      expect(await service.claimTask(ada, projectId)).toBeNull();
    });

    it('steps see the writes of earlier steps', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [task, claim] = await write([
        service.steps.createTask(ada, sessionId, { command: 'x' }),
        service.steps.claimNow(ada, projectId, {}),
      ]);
      expect(claim).toMatchObject({ task: { id: (task as { id: string }).id }, lease: { fence: 1 } });
      expect(await write([service.steps.claimNow(ada, projectId, { wait: 30 })])).toEqual([null]);
    });

    it('a check that fails refuses the write, and the error has its index', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      const claim = await service.claimTask(ada, projectId);
      const { fence } = claim!.lease;
      const complete = (): Step<unknown> => service.steps.completeTask(ada, task!.id, { fence });
      const refusals: unknown[] = [];
      const onRefused = (refused: unknown, error: unknown): unknown => {
        refusals.push(refused);
        return error;
      };
      const checks = [service.steps.requireClaim(ada, task!.id, fence)];
      for (const [check, code] of [
        [service.steps.requireTaskVersion(ada, task!.id, 1), 'version_conflict'],
        [service.steps.requireClaim(ada, task!.id, fence + 1), 'fenced'],
        [service.steps.requireClaim(userCaller('eve'), task!.id, fence), 'fenced'],
      ] as const)
        await refused(write([complete()], { checks: [...checks, check], onRefused }), code);
      expect(refusals).toEqual(Array.from({ length: 3 }, () => ({ part: 'check', index: 1 })));
      expect((await service.getTask(ada, task!.id)).status).toBe('running');
      checks.push(service.steps.requireTaskVersion(ada, task!.id, 2));
      expect(await write([complete()], { checks })).toMatchObject([{ status: 'completed' }]);
    });

    it('a task of a write of several steps wakes a waiting claim; a task of a refused write does not', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const waiting = service.claimTask(ada, projectId, { wait: 30 });
      await eventually(
        () => bench.port.waiters.size,
        (size) => size === 1,
      );
      const make = (command: string): Step<unknown> => service.steps.createTask(ada, sessionId, { command });
      const outdated = service.steps.updateSession(ada, sessionId, { status: 'active' }, 99);
      await refused(write([make('a'), outdated]), 'version_conflict');
      expect(bench.port.waiters.size).toBe(1);
      await write([make('b'), service.steps.updateSession(ada, sessionId, { status: 'active' }, undefined)]);
      expect((await waiting)?.task.command).toBe('b');
    });

    it('a purge in a write of several steps continues in the background', async () => {
      const { workspaceId, projectId, sessionId } = await makePlace(service, ada);
      const tasks = await makeTasks(service, ada, sessionId, 25);
      await service.deleteProject(ada, projectId);
      await write([
        service.steps.purgeProject(ada, projectId, undefined),
        service.steps.updateWorkspace(ada, workspaceId, { project_path: '/purged' }, undefined),
      ]);
      await eventually(
        async () => {
          const stored = await bench.dump();
          return tasks.filter(({ id }) => stored.includes(id)).length;
        },
        (left) => left === 0,
      );
    });

    it('a claim that finds a task succeeds even if the queue of waiting claims is full', async () => {
      const full = await makePlace(service, ada);
      const gone = new AbortController();
      const waiting = [1, 2].map(() =>
        service.claimTask(ada, full.projectId, { wait: 30 }, { signal: gone.signal }),
      );
      await eventually(
        () => bench.port.waiters.size,
        (size) => size === 2,
      );
      const { projectId, sessionId } = await makePlace(service, ada);
      const [task] = await makeTasks(service, ada, sessionId, 1);
      expect((await service.claimTask(ada, projectId, { wait: 30 }))?.task.id).toBe(task!.id);
      await refused(service.claimTask(ada, projectId, { wait: 30 }), 'overloaded');
      gone.abort();
      expect(await Promise.all(waiting)).toEqual([null, null]);
    });
  });
}
