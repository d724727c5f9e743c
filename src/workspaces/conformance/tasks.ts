/** Tasks on every backend: their fields, their states, and lists of them. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { operatorCaller } from '../../core/caller.js';
import { encodeCursor } from '../../core/paging.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, ada, makePlace, makeTasks, readyTasks, userCaller } from './bench.js';

export function taskTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`tasks on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;

    beforeAll(async () => {
      // Small steps, so that bulk work needs several of them.
      bench = await open({ workspaceStepRowsMax: 10, workspacePageBytesMax: 20_000 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    const { claimOne, readyIds } = readyTasks(() => service, ada);

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
        labels: [],
        run_at: null,
        retry: null,
        question: null,
        asked_at: null,
        question_expires_at: null,
        answer: null,
        answered_at: null,
        answered_by: null,
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
        await refused(service.createTask(ada, sessionId, body), 'invalid_request');
      });

    it('ready tasks are listed in pages', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made = await makeTasks(service, ada, sessionId, 7);
      const first = await service.listReadyTasks(ada, projectId, { limit: 4 });
      const second = await service.listReadyTasks(ada, projectId, { limit: 4, cursor: first.next_cursor });
      expect([...first.items, ...second.items].map(({ id }) => id).toSorted()).toEqual(
        made.map(({ id }) => id).toSorted(),
      );
      expect(second.next_cursor).toBeNull();
    });

    it('a page of tasks with long outputs ends early, and the next page continues after it', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 5);
      for (let done = 0; done < 5; done += 1) {
        const { task, lease } = await claimOne(projectId);
        await service.completeTask(ada, task.id, { fence: lease.fence, output: 'x'.repeat(8_000) });
      }
      for (const list of [
        (query: object) => service.listSessionTasks(ada, sessionId, query),
        (query: object) => service.listTasks(ada, { ...query, project: projectId }),
      ]) {
        const first = await list({});
        const second = await list({ cursor: first.next_cursor });
        expect([first.items.length, second.items.length]).toEqual([3, 2]);
        expect(new Set([...first.items, ...second.items].map(({ id }) => id)).size).toBe(5);
        expect(second.next_cursor).toBeNull();
      }
    });

    it('complete stores the result, and a repeated complete is not an error', async () => {
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
      await refused(service.completeTask(ada, task.id, { fence: lease.fence, output: 'other' }), 'fenced');
      await refused(service.failTask(ada, task.id, { fence: lease.fence }), 'fenced');
      await refused(service.heartbeatTask(ada, task.id, { fence: lease.fence }), 'fenced');
      await refused(service.cancelTask(ada, task.id), 'invalid_transition', {
        details: { from: 'completed', to: 'cancelled' },
      });
    });

    it('fail is final unless a retry is requested and an attempt is left', async () => {
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

    it('cancel ends a running task and refuses its holder', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [waiting] = await makeTasks(service, ada, sessionId, 2);
      const { task, lease } = await claimOne(projectId);
      expect(task.id).toBe(waiting!.id);
      const cancelled = await service.cancelTask(ada, task.id, { reason: 'not needed' });
      expect(cancelled).toMatchObject({ status: 'cancelled', reason: 'not needed' });
      expect(await service.cancelTask(ada, task.id)).toEqual(cancelled);
      await refused(service.completeTask(ada, task.id, { fence: lease.fence }), 'fenced');
      bench.pass(61);
      await bench.sweep();
      expect(await service.getTask(ada, task.id)).toEqual(cancelled);
    });

    it('release takes a task from its holder, refuses the holder, and counts no attempt', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const { task, lease } = await claimOne(projectId);
      const released = await service.releaseTask(ada, task.id, { reason: 'it hangs' });
      expect(released).toMatchObject({
        status: 'pending',
        claimed_by: null,
        attempts: 0,
        reason: 'it hangs',
      });
      await refused(service.completeTask(ada, task.id, { fence: lease.fence }), 'fenced');
      await refused(service.releaseTask(ada, task.id), 'conflict');
      const again = await claimOne(projectId);
      expect(again.task.id).toBe(task.id);
      expect(again.lease.fence).toBeGreaterThan(lease.fence);
      await service.askQuestion(ada, task.id, { fence: again.lease.fence, question: 'Which?' });
      const unasked = await service.releaseTask(ada, task.id);
      expect(unasked).toMatchObject({ status: 'pending', question_expires_at: null });
      await expect(service.answerQuestion(ada, task.id, { answer: 'late' })).rejects.toThrow();
    });

    it('retry returns a failed task with all its attempts, and refuses its former holder', async () => {
      const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
      const [made] = await makeTasks(service, ada, sessionId, 1);
      await refused(service.retryTask(ada, made!.id), 'conflict');
      const { task, lease } = await claimOne(projectId);
      const report = { fence: lease.fence, error: 'no network', output: 'half' };
      await service.failTask(ada, task.id, report);
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
      const retried = await service.retryTask(ada, task.id, { reason: 'the network is back' });
      expect(retried).toMatchObject({
        id: task.id,
        status: 'pending',
        claimed_by: null,
        attempts: 0,
        error: null,
        output: null,
        started_at: null,
        completed_at: null,
        duration: null,
        reason: 'the network is back',
      });
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(1);
      await refused(service.completeTask(ada, task.id, { fence: lease.fence }), 'fenced');
      await refused(service.retryTask(ada, task.id), 'conflict');
      await refused(service.retryTask(userCaller('bob'), task.id), 'not_found');
      const again = await claimOne(projectId);
      expect(again.task.id).toBe(task.id);
      expect(again.lease.fence).toBeGreaterThan(lease.fence);
      await service.completeTask(ada, task.id, { fence: again.lease.fence });
      await refused(service.retryTask(ada, task.id), 'conflict');
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
    });

    it('a retried task waits for its dependencies, which must be retried first', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const first = await service.createTask(ada, sessionId, { command: 'first' });
      const second = await service.createTask(ada, sessionId, { command: 'second', depends_on: [first.id] });
      await service.cancelTask(ada, first.id);
      await refused(service.retryTask(ada, second.id), 'conflict', { details: { depends_on: first.id } });
      await service.retryTask(ada, first.id);
      expect((await service.getTask(ada, second.id)).status).toBe('cancelled');
      await service.retryTask(ada, second.id);
      const claim = await claimOne(projectId);
      expect(claim.task.id).toBe(first.id);
      expect(await service.claimTask(ada, projectId)).toBeNull();
      await service.completeTask(ada, first.id, { fence: claim.lease.fence });
      expect((await claimOne(projectId)).task.id).toBe(second.id);
    });

    it('a list says when the lease of each held task ends', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 2);
      const { task, lease } = await claimOne(projectId);
      const ends = async (): Promise<Map<string, string | null>> => {
        const { items } = await service.listTasks(ada, { project: projectId });
        return new Map(items.map(({ id, lease_expires_at }) => [id, lease_expires_at]));
      };
      expect((await ends()).get(task.id)).toBe(lease.expires_at);
      bench.pass(20);
      const renewed = await service.heartbeatTask(ada, task.id, { fence: lease.fence });
      expect((await ends()).get(task.id)).toBe(renewed.lease.expires_at);
      await service.releaseTask(ada, task.id);
      expect([...(await ends()).values()]).toEqual([null, null]);
    });

    it('only a pending task can be changed, and a new priority changes the claim order', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const [first, second] = await makeTasks(service, ada, sessionId, 2);
      await service.updateTask(ada, second!.id, { priority: 9, command: 'sooner' }, { ifVersion: 1 });
      await refused(
        service.updateTask(ada, second!.id, { priority: 1 }, { ifVersion: 1 }),
        'version_conflict',
      );
      expect(await readyIds(projectId)).toEqual([second!.id, first!.id]);
      expect((await claimOne(projectId)).task).toMatchObject({
        id: second!.id,
        command: 'sooner',
        priority: 9,
      });
      await refused(service.updateTask(ada, second!.id, { priority: 1 }), 'conflict');
    });

    it('tasks are listed by status, in the order of creation', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const made = await makeTasks(service, ada, sessionId, 3);
      await claimOne(projectId);
      expect((await service.listSessionTasks(ada, sessionId)).items.map(({ id }) => id)).toEqual(
        made.map(({ id }) => id),
      );
      expect(
        (await service.listSessionTasks(ada, sessionId, { status: 'running' })).items.map(({ id }) => id),
      ).toEqual([made[0]!.id]);
      expect((await service.listSessionTasks(ada, sessionId, { status: 'pending' })).items).toHaveLength(2);
    });

    it('a forged cursor is refused or shows no data of others', async () => {
      const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 3);
      await makePlace(service, userCaller('bob'));
      const { next_cursor: real } = await service.listReadyTasks(ada, projectId, { limit: 1 });
      const lists = [
        (cursor: string) => service.listReadyTasks(ada, projectId, { cursor }),
        (cursor: string) => service.listSessionTasks(ada, sessionId, { cursor }),
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

    it('counters of a session stop at the largest exact integer', async () => {
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

    it('deleting a task ends its claim', async () => {
      const { projectId, sessionId, workspaceId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      const { task, lease } = await claimOne(projectId);
      await service.deleteTask(ada, task.id);
      await refused(service.completeTask(ada, task.id, { fence: lease.fence }), 'not_found');
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
      bench.pass(61);
      await bench.sweep();
      expect(await bench.dump()).not.toContain(task.id);
    });
  });
}
