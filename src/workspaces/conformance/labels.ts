/** Labels of tasks, claims by label, and the list of tasks over all projects, on every backend. */
import { type Caller, operatorCaller } from '../../core/caller.js';
import { type TestRunner, eventually, refusals } from '../../core/test-runner.js';
import type { Task } from '../model.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, ada, makePlace, userCaller } from './bench.js';

export function labelTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`labels and lists of tasks on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;

    beforeAll(async () => {
      bench = await open({ taskLabelsMax: 3, taskLabelBytesMax: 8, claimLabelsMax: 4 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    function create(sessionId: string, labels: string[], more: object = {}): Promise<Task> {
      return service.createTask(ada, sessionId, { command: 'x', labels, ...more });
    }

    async function claimedId(projectId: string, filter: object): Promise<string | undefined> {
      return (await service.claimTask(ada, projectId, filter))?.task.id;
    }

    async function allIds(caller: Caller, query: object, limit = 100): Promise<string[]> {
      const ids: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await service.listTasks(caller, { ...query, limit, cursor });
        ids.push(...page.items.map(({ id }) => id));
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      return ids;
    }

    it('a task keeps each label once, in one order', async () => {
      const { sessionId } = await makePlace(service, ada);
      const task = await create(sessionId, ['gpu', 'a=b', 'gpu']);
      expect(task.labels).toEqual(['a=b', 'gpu']);
      expect((await service.getTask(ada, task.id)).labels).toEqual(['a=b', 'gpu']);
      expect((await service.updateTask(ada, task.id, { priority: 2 })).labels).toEqual(['a=b', 'gpu']);
      expect((await service.updateTask(ada, task.id, { labels: [] })).labels).toEqual([]);
    });

    it('too many, too long and misspelt labels are refused', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      for (const labels of [['a', 'b', 'c', 'd'], ['ninebytes'], ['a b'], ['a,b'], ['']])
        await refused(create(sessionId, labels), 'invalid_request');
      await refused(
        service.claimTask(ada, projectId, { skills: ['a', 'b', 'c', 'd', 'e'] }),
        'invalid_request',
      );
    });

    it('a claim takes the first task that has the labels, lacks others and needs only its skills', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const both = await create(sessionId, ['gpu', 'slow'], { priority: 9 });
      const slow = await create(sessionId, ['slow'], { priority: 5 });
      const gpu = await create(sessionId, ['gpu']);
      const plain = await create(sessionId, []);
      expect(await claimedId(projectId, { labels: ['gpu'], without_labels: ['slow'] })).toBe(gpu.id);
      expect(await claimedId(projectId, { labels: ['none'] })).toBeUndefined();
      expect(await claimedId(projectId, { skills: ['slow'], labels: ['slow'] })).toBe(slow.id);
      expect(await claimedId(projectId, { skills: ['other'] })).toBe(plain.id);
      expect(await claimedId(projectId, { skills: [] })).toBeUndefined();
      expect(await claimedId(projectId, { labels: ['slow', 'gpu'] })).toBe(both.id);
    });

    it('a claim with skills finds a task behind many that it cannot do', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await Promise.all(Array.from({ length: 30 }, () => create(sessionId, ['gpu'], { priority: 1 })));
      expect(await claimedId(projectId, { skills: [] })).toBeUndefined();
      const plain = await create(sessionId, []);
      expect(await claimedId(projectId, { skills: [] })).toBe(plain.id);
      expect(await claimedId(projectId, { without_labels: ['gpu'] })).toBeUndefined();
    });

    it('changed labels decide the next claim', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const task = await create(sessionId, ['gpu']);
      expect(await claimedId(projectId, { skills: [] })).toBeUndefined();
      await service.updateTask(ada, task.id, { labels: ['cpu'] });
      expect(await claimedId(projectId, { labels: ['gpu'] })).toBeUndefined();
      expect(await claimedId(projectId, { labels: ['cpu'] })).toBe(task.id);
    });

    it('a new task wakes the waiting claim that can take it, not the one before it', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const waits = async (filter: object, claims: number): Promise<Promise<string | undefined>[]> => {
        const claim = claimedId(projectId, { ...filter, wait: 30 });
        await eventually(
          () => bench.port.waiters.size,
          (size) => size === claims,
        );
        return [claim];
      };
      const [cpu] = await waits({ labels: ['cpu'] }, 1);
      const [gpu] = await waits({ skills: ['gpu'] }, 2);
      const first = await create(sessionId, ['gpu']);
      expect(await gpu).toBe(first.id);
      const second = await create(sessionId, ['cpu']);
      expect(await cpu).toBe(second.id);
    });

    it('the list has the tasks of all projects of the user, by every filter, in pages', async () => {
      const user = userCaller('lister', { agent: 'worker-1' });
      const [here, there] = [await makePlace(service, user), await makePlace(service, user)];
      const made: Task[] = [];
      for (const [place, labels] of [
        [here, ['gpu']],
        [there, ['gpu']],
        [here, []],
        [there, ['slow']],
        [here, ['gpu']],
      ] as const)
        made.push(await service.createTask(user, place.sessionId, { command: 'x', labels: [...labels] }));
      const at = (...indexes: number[]): string[] => indexes.map((index) => made[index]!.id);
      const claim = await service.claimTask({ ...user, agent: 'holder-1' }, here.projectId);
      await service.cancelTask(user, made[3]!.id);
      expect(claim?.task.id).toBe(made[0]!.id);
      for (const limit of [1, 2, 100]) {
        expect(await allIds(user, {}, limit)).toEqual(at(0, 1, 2, 3, 4));
        expect(await allIds(user, { status: 'pending' }, limit)).toEqual(at(1, 2, 4));
        expect(await allIds(user, { project: there.projectId }, limit)).toEqual(at(1, 3));
        expect(await allIds(user, { project: here.projectId, status: 'pending' }, limit)).toEqual(at(2, 4));
        expect(await allIds(user, { label: 'gpu' }, limit)).toEqual(at(0, 1, 4));
        expect(await allIds(user, { label: 'gpu', status: 'pending' }, limit)).toEqual(at(1, 4));
        expect(await allIds(user, { label: 'gpu', project: here.projectId }, limit)).toEqual(at(0, 4));
        expect(await allIds(user, { holder: 'holder-1' }, limit)).toEqual(at(0));
        expect(await allIds(user, { holder: 'holder-1', label: 'slow' }, limit)).toEqual([]);
        expect(await allIds(user, { holder: 'nobody' }, limit)).toEqual([]);
      }
      const { items } = await service.listTasks(user, { limit: 1 });
      expect(items[0]?.project_id).toBe(here.projectId);
      await service.completeTask({ ...user, agent: 'holder-1' }, made[0]!.id, { fence: claim!.lease.fence });
      expect(await allIds(user, { holder: 'holder-1' })).toEqual([]);
      expect(await allIds(user, { label: 'gpu', status: 'completed' })).toEqual(at(0));
    });

    it('the list hides other users and deleted projects; the operator sees all users', async () => {
      const [eve, mallory] = [userCaller('eve'), userCaller('mallory')];
      const place = await makePlace(service, eve);
      const task = await service.createTask(eve, place.sessionId, { command: 'x', labels: ['mine'] });
      expect(await allIds(mallory, {})).toEqual([]);
      expect(await allIds(mallory, { label: 'mine' })).toEqual([]);
      await refused(service.listTasks(mallory, { project: place.projectId }), 'not_found');
      const operator = operatorCaller();
      expect(await allIds(operator, {}, 3)).toContain(task.id);
      expect(await allIds(operator, { label: 'mine' }, 1)).toEqual([task.id]);
      expect(await allIds(operator, { project: place.projectId })).toEqual([task.id]);
      await service.deleteProject(eve, place.projectId);
      expect(await allIds(eve, {})).toEqual([]);
      expect(await allIds(eve, { label: 'mine' })).toEqual([]);
      expect(await allIds(operator, { label: 'mine' })).toEqual([]);
      await service.restoreProject(eve, place.projectId);
      expect(await allIds(eve, {})).toEqual([task.id]);
      await service.deleteTask(eve, task.id);
      expect(await allIds(eve, { label: 'mine' })).toEqual([]);
    });

    it('a cursor of another list is refused', async () => {
      const { sessionId } = await makePlace(service, ada);
      await create(sessionId, []);
      await create(sessionId, []);
      const { next_cursor: cursor } = await service.listTasks(ada, { limit: 1 });
      await refused(service.listTasks(ada, { cursor, status: 'pending' }), 'invalid_cursor');
    });
  });
}
