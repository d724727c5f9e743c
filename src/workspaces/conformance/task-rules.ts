/** What each verb leaves in a task and in its lease, and what it refuses, on every backend. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { type Bench, type OpenBench, ada, makePlace, readyTasks, userCaller } from './bench.js';
import type { WorkspacesService } from '../service.js';

export function taskRuleTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`rules of task verbs on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    const person = userCaller('ada', { agent: 'person' });
    const { claimOne, readyIds } = readyTasks(() => service, ada);

    beforeAll(async () => {
      bench = await open({
        taskErrorCharactersMax: 100,
        taskOutputBytesMax: 100,
        taskQuestionCharactersMax: 100,
      });
      service = bench.service;
    });
    afterAll(() => bench.close());

    /** A task that was just claimed. */
    async function claimed(settings: object = {}) {
      const { projectId, sessionId } = await makePlace(service, ada);
      await service.createTask(ada, sessionId, { command: 'work', ...settings });
      const { task, lease } = await claimOne(projectId);
      return { id: task.id, fence: lease.fence, projectId, sessionId, task };
    }

    async function leaseEndOf(projectId: string): Promise<string | null | undefined> {
      return (await service.listTasks(ada, { project: projectId })).items[0]?.lease_expires_at;
    }

    async function pass(seconds: number): Promise<void> {
      bench.pass(seconds);
      await bench.sweep();
    }

    it('a new task has priority 0, and names each dependency once', async () => {
      const { sessionId } = await makePlace(service, ada);
      const first = await service.createTask(ada, sessionId, { command: 'x' });
      expect(first.priority).toBe(0);
      const next = await service.createTask(ada, sessionId, {
        command: 'x',
        depends_on: [first.id, first.id],
      });
      expect(next.depends_on).toEqual([first.id]);
    });

    it('a change normalises what a creation does, and leaves the rest', async () => {
      const { sessionId } = await makePlace(service, ada);
      const made = await service.createTask(ada, sessionId, { command: 'x', priority: 4, labels: ['old'] });
      bench.pass(5);
      const changed = await service.updateTask(ada, made.id, {
        priority: undefined,
        labels: ['b', 'a', 'b'],
        run_at: '2001-01-01T00:00:00Z',
        retry: { base_seconds: 5 },
      });
      expect(changed).toMatchObject({
        priority: 4,
        labels: ['a', 'b'],
        run_at: null,
        retry: { base_seconds: 5, max_seconds: 3_600 },
        version: 2,
      });
      expect(Date.parse(changed.updated_at) - Date.parse(made.updated_at)).toBeGreaterThanOrEqual(5_000);
      expect((await service.updateTask(ada, made.id, { retry: null })).retry).toBeNull();
    });

    it('a heartbeat renews a lease for as long as the claim asked', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await service.createTask(ada, sessionId, { command: 'x' });
      const claim = await service.claimTask(ada, projectId, { lease_seconds: 300 });
      const { task, lease } = claim!;
      bench.pass(10);
      const renewed = await service.heartbeatTask(ada, task.id, { fence: lease.fence });
      expect(Date.parse(renewed.lease.expires_at) - Date.parse(lease.expires_at)).toBeGreaterThanOrEqual(
        10_000,
      );
    });

    it('a failure keeps error and output for the next attempt, and a success removes the error', async () => {
      const { id, fence, projectId } = await claimed();
      const report = { fence, error: 'flaky', output: 'half', retry: true };
      expect(await service.failTask(ada, id, report)).toMatchObject({ error: 'flaky', output: 'half' });
      const again = await claimOne(projectId);
      const done = await service.completeTask(ada, id, {
        fence: again.lease.fence,
        bytes_in: 7,
        bytes_out: 9,
      });
      expect(done).toMatchObject({ output: 'half', error: null, bytes_in: 7, bytes_out: 9 });
      expect(await leaseEndOf(projectId)).toBeNull();
    });

    it('a task that fails when its last lease expires keeps the error of the last report', async () => {
      const { id, fence, projectId } = await claimed({ max_attempts: 2 });
      await service.failTask(ada, id, { fence, error: 'flaky', retry: true });
      await claimOne(projectId);
      await pass(61);
      expect(await service.getTask(ada, id)).toMatchObject({ status: 'failed', error: 'flaky' });
    });

    it('a failure without an error says who reported it, and ends the lease', async () => {
      const { id, fence, projectId } = await claimed();
      const reported = 'The holder reported a failure.';
      expect(await service.failTask(ada, id, { fence })).toMatchObject({
        status: 'failed',
        error: reported,
        reason: reported,
      });
      expect(await leaseEndOf(projectId)).toBeNull();
    });

    it('a cancellation and a release have a reason, and end the lease', async () => {
      const cancelled = await claimed();
      expect((await service.cancelTask(ada, cancelled.id)).reason).toBe('Cancelled.');
      expect(await leaseEndOf(cancelled.projectId)).toBeNull();
      const released = await claimed();
      expect(await service.releaseTask(ada, released.id)).toMatchObject({
        reason: 'It was taken from worker-1.',
        started_at: null,
      });
      expect(await leaseEndOf(released.projectId)).toBeNull();
    });

    it('a change of status says in the feed what the task was, and who held it', async () => {
      const { id, fence } = await claimed();
      await service.completeTask(ada, id, { fence });
      const facts = (await bench.changes()).filter((change) => change.id === id).at(-1)?.facts;
      expect(facts).toMatchObject({ from: 'running', holder: 'worker-1' });
    });

    it('a dependency that was completed and deleted is done', async () => {
      const { projectId, sessionId, id, fence } = await claimed();
      const second = await service.createTask(ada, sessionId, { command: 'second', priority: 1 });
      const third = await service.createTask(ada, sessionId, {
        command: 'third',
        depends_on: [id, second.id],
      });
      await service.completeTask(ada, id, { fence });
      await service.deleteTask(ada, id);
      const claim = await claimOne(projectId);
      await service.completeTask(ada, second.id, { fence: claim.lease.fence });
      expect(await readyIds(projectId)).toEqual([third.id]);
    });

    it('a question whose holder is lost has the reason, and no lease', async () => {
      const { id, fence, projectId } = await claimed();
      await service.askQuestion(ada, id, { fence, question: 'Now?' });
      await pass(61);
      const waiting = await service.getTask(ada, id);
      expect(waiting.reason).toContain('worker-1');
      expect(await leaseEndOf(projectId)).toBeNull();
      const back = await service.answerQuestion(person, id, { answer: 'Yes' });
      expect(back).toMatchObject({ status: 'pending', started_at: null });
      expect(back.reason).toContain('person answered');
    });

    it('an answer after the lease has ended leaves no holder, also before the sweep', async () => {
      const { id, fence } = await claimed();
      await service.askQuestion(ada, id, { fence, question: 'Now?' });
      bench.pass(61);
      const back = await service.answerQuestion(person, id, { answer: 'Yes' });
      expect(back).toMatchObject({ status: 'pending', claimed_by: null, started_at: null });
      await bench.sweep();
    });

    it('only the holder asks, and only the current claim asks again', async () => {
      const { id, fence } = await claimed();
      const question = { fence, question: 'Now?', release: true };
      await refused(service.askQuestion(person, id, question), 'forbidden');
      await service.askQuestion(ada, id, question);
      await refused(service.askQuestion(ada, id, { ...question, fence: fence + 1 }), 'fenced');
    });

    it('a question that expires is a failed attempt with an error, and a retry forgets its end', async () => {
      const { id, fence, projectId } = await claimed();
      await service.askQuestion(ada, id, { fence, question: 'Now?', expires_seconds: 30 });
      await pass(31);
      const failed = await service.getTask(ada, id);
      expect(failed).toMatchObject({ status: 'failed', attempts: 1, error: failed.reason });
      expect(await leaseEndOf(projectId)).toBeNull();
      expect((await service.retryTask(ada, id)).question_expires_at).toBeNull();
      await pass(61);
      expect((await service.getTask(ada, id)).status).toBe('pending');
    });

    it('a retry starts at once and from nothing', async () => {
      const { id, fence } = await claimed({ retry: { base_seconds: 600 } });
      await service.failTask(ada, id, { fence, output: 'half', bytes_in: 3 });
      await service.cancelTask(ada, id);
      expect(await service.retryTask(ada, id)).toMatchObject({
        run_at: null,
        bytes_in: 0,
        bytes_out: 0,
        duration: null,
        reason: 'It was retried after it had been cancelled.',
      });
    });

    it('texts that are too long are refused by every verb, and change nothing', async () => {
      const { id, fence } = await claimed();
      const long = 'x'.repeat(101);
      const before = await service.getTask(ada, id);
      for (const call of [
        () => service.completeTask(ada, id, { fence, output: long }),
        () => service.failTask(ada, id, { fence, error: long }),
        () => service.askQuestion(ada, id, { fence, question: long }),
        () => service.cancelTask(ada, id, { reason: long }),
        () => service.releaseTask(ada, id, { reason: long }),
        () => service.retryTask(ada, id, { reason: long }),
      ])
        await refused(call(), 'invalid_request');
      expect(await service.getTask(ada, id)).toEqual(before);
      await service.askQuestion(ada, id, { fence, question: 'Now?' });
      await refused(service.answerQuestion(person, id, { answer: long }), 'invalid_request');
    });

    it('a caller without the right to write, and another user, can do nothing', async () => {
      const { id, fence, projectId, sessionId } = await claimed();
      const pending = await service.createTask(ada, sessionId, { command: 'x' });
      const reader = userCaller('ada', { agent: 'worker-1', scopes: { write: false, namespaces: null } });
      const eve = userCaller('eve', { agent: 'worker-1' });
      for (const [caller, code] of [
        [reader, 'forbidden'],
        [eve, 'not_found'],
      ] as const)
        for (const call of [
          () => service.createTask(caller, sessionId, { command: 'x' }),
          () => service.claimTask(caller, projectId),
          () => service.updateTask(caller, pending.id, { priority: 1 }),
          () => service.heartbeatTask(caller, id, { fence }),
          () => service.askQuestion(caller, id, { fence, question: 'Now?' }),
          () => service.answerQuestion(caller, id, { answer: 'Yes' }),
          () => service.releaseTask(caller, id),
          () => service.cancelTask(caller, id),
          () => service.retryTask(caller, id),
          () => service.failTask(caller, id, { fence }),
          () => service.completeTask(caller, id, { fence }),
          () => service.deleteTask(caller, pending.id),
        ])
          await refused(call(), code);
      expect(await service.completeTask(ada, id, { fence })).toMatchObject({ status: 'completed' });
    });
  });
}
