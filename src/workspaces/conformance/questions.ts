/** Questions of tasks to a person, on every backend: one of answer, expiry and cancellation happens. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import type { Claim } from '../model.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, ada, makePlace, userCaller } from './bench.js';

export function questionTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`questions of tasks on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    const person = userCaller('ada', { agent: 'person' });

    beforeAll(async () => {
      bench = await open({ taskQuestionCharactersMax: 100 });
      service = bench.service;
    });
    afterAll(() => bench.close());

    interface Asked extends Claim {
      projectId: string;
      workspaceId: string;
      sessionId: string;
    }

    /** A claimed task that waits for an answer. */
    async function ask(more: object = {}): Promise<Asked> {
      const place = await makePlace(service, ada);
      await service.createTask(ada, place.sessionId, { command: 'deploy' });
      const claim = await service.claimTask(ada, place.projectId);
      if (claim === null) throw new Error('nothing was ready');
      const { fence } = claim.lease;
      const task = await service.askQuestion(ada, claim.task.id, { fence, question: 'Now?', ...more });
      return { ...claim, task, ...place };
    }

    it('the text "null" is a question, an answer, an output and the name of an agent', async () => {
      const named = userCaller('ada', { agent: 'null' });
      const { projectId, sessionId } = await makePlace(service, ada);
      const task = await service.createTask(ada, sessionId, { command: 'null' });
      const claim = await service.claimTask(named, projectId);
      expect(await service.getTask(ada, task.id)).toMatchObject({ claimed_by: 'null' });
      const fence = claim!.lease.fence;
      await service.askQuestion(named, task.id, { fence, question: 'null' });
      expect(await service.getTask(ada, task.id)).toMatchObject({ question: 'null' });
      await service.answerQuestion(person, task.id, { answer: 'null' });
      expect(await service.getTask(ada, task.id)).toMatchObject({ answer: 'null' });
      await service.completeTask(named, task.id, { fence, output: 'null' });
      expect(await service.getTask(ada, task.id)).toMatchObject({ status: 'completed', output: 'null' });
    });

    it('the text "null" is the reason of a cancellation and the error of a task', async () => {
      const cancelled = await ask();
      await service.cancelTask(ada, cancelled.task.id, { reason: 'null' });
      expect(await service.getTask(ada, cancelled.task.id)).toMatchObject({ reason: 'null' });
      const { task, lease } = await ask();
      await service.answerQuestion(person, task.id, { answer: 'No' });
      await service.failTask(ada, task.id, { fence: lease.fence, error: 'null', retry: false });
      expect(await service.getTask(ada, task.id)).toMatchObject({ error: 'null' });
    });

    async function pass(seconds: number): Promise<void> {
      bench.pass(seconds);
      await bench.sweep();
    }

    it('an answer returns the task to a living holder, which continues with the same fence', async () => {
      const { task, lease, projectId, workspaceId } = await ask();
      expect(task).toMatchObject({ status: 'input_required', question: 'Now?', claimed_by: 'worker-1' });
      expect(Date.parse(task.question_expires_at!) - Date.parse(task.asked_at!)).toBe(24 * 3600 * 1_000);
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(1);
      expect(await service.claimTask(ada, projectId)).toBeNull();
      expect((await service.listTasks(ada, { holder: 'worker-1', project: projectId })).items).toHaveLength(
        1,
      );
      for (let beats = 0; beats < 3; beats += 1) {
        await pass(40);
        await service.heartbeatTask(ada, task.id, { fence: lease.fence });
      }
      const answered = await service.answerQuestion(person, task.id, { answer: 'Yes' });
      expect(answered).toMatchObject({
        status: 'running',
        claimed_by: 'worker-1',
        attempts: 0,
        answer: 'Yes',
        answered_by: 'person',
        question: 'Now?',
        question_expires_at: null,
      });
      await pass(50);
      expect(await service.completeTask(ada, task.id, { fence: lease.fence })).toMatchObject({
        status: 'completed',
        answer: 'Yes',
      });
      const kinds = (await bench.changes()).filter(({ id }) => id === task.id).map(({ kind }) => kind);
      expect(kinds.slice(2)).toEqual(['task.input_required', 'task.answered', 'task.completed']);
    });

    it('an answer puts the task of a lost holder into the line, without a failed attempt', async () => {
      const { task, lease, projectId } = await ask();
      await pass(61);
      expect(await service.getTask(ada, task.id)).toMatchObject({
        status: 'input_required',
        attempts: 0,
        claimed_by: null,
      });
      await refused(service.heartbeatTask(ada, task.id, { fence: lease.fence }), 'fenced');
      const waiting = service.claimTask({ ...ada, agent: 'worker-2' }, projectId, { wait: 30 });
      expect(await service.answerQuestion(person, task.id, { answer: 'Yes' })).toMatchObject({
        status: 'pending',
        attempts: 0,
      });
      const claim = await waiting;
      expect(claim).toMatchObject({
        task: { id: task.id, question: 'Now?', answer: 'Yes' },
        lease: { fence: 2 },
      });
      await refused(service.completeTask(ada, task.id, { fence: lease.fence }), 'fenced');
    });

    it('a holder can give up its claim with the question, or with the same question again', async () => {
      for (const question of ['Now?', 'Later?']) {
        const { task, lease, projectId } = await ask();
        const release = { fence: lease.fence, question, release: true };
        if (question !== task.question) await service.answerQuestion(person, task.id, { answer: 'No' });
        for (let times = 0; times < 2; times += 1)
          expect(await service.askQuestion(ada, task.id, release)).toMatchObject({
            status: 'input_required',
            claimed_by: null,
          });
        await refused(service.heartbeatTask(ada, task.id, { fence: lease.fence }), 'fenced');
        expect(await service.answerQuestion(person, task.id, { answer: 'Yes' })).toMatchObject({
          status: 'pending',
          attempts: 0,
        });
        expect((await service.claimTask(ada, projectId))?.task.id).toBe(task.id);
      }
    });

    it('a question without an answer fails the task, and what depends on it is cancelled', async () => {
      const { task, workspaceId, sessionId } = await ask({ expires_seconds: 600 });
      const next = await service.createTask(ada, sessionId, { command: 'x', depends_on: [task.id] });
      await pass(590);
      expect((await service.getTask(ada, task.id)).status).toBe('input_required');
      await pass(11);
      const failed = await service.getTask(ada, task.id);
      expect(failed.status).toBe('failed');
      expect(failed.reason).toMatch(/expired without an answer: Now\?/);
      expect((await service.getTask(ada, next.id)).status).toBe('cancelled');
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
      await refused(service.answerQuestion(person, task.id, { answer: 'Late' }), 'conflict');
    });

    it('of many answers and cancellations at once exactly one happens', async () => {
      for (let round = 0; round < 5; round += 1) {
        const { task } = await ask();
        const outcomes = await Promise.allSettled([
          ...['a', 'b', 'c'].map((answer) => service.answerQuestion(person, task.id, { answer })),
          service.cancelTask(ada, task.id),
        ]);
        const answers = outcomes.slice(0, 3).filter(({ status }) => status === 'fulfilled');
        const after = await service.getTask(ada, task.id);
        // A task may also be cancelled after its answer.
        expect(answers.length).toBe(after.answer === null ? 0 : 1);
        expect(after.status).toBe('cancelled');
      }
    });

    it('a cancelled question takes no answer, and an answered one does not expire', async () => {
      const cancelled = await ask({ expires_seconds: 100 });
      await service.cancelTask(ada, cancelled.task.id);
      await refused(service.answerQuestion(person, cancelled.task.id, { answer: 'Yes' }), 'conflict');
      const answered = await ask({ expires_seconds: 100 });
      await service.answerQuestion(person, answered.task.id, { answer: 'Yes' });
      await service.completeTask(ada, answered.task.id, { fence: answered.lease.fence });
      await pass(101);
      expect((await service.getTask(ada, cancelled.task.id)).status).toBe('cancelled');
      expect((await service.getTask(ada, answered.task.id)).status).toBe('completed');
    });

    it('the same question and the same answer can be sent again', async () => {
      const { task, lease } = await ask();
      const repeat = { fence: lease.fence, question: 'Now?' };
      expect((await service.askQuestion(ada, task.id, repeat)).version).toBe(task.version);
      const first = await service.answerQuestion(person, task.id, { answer: 'Yes' });
      const again = await service.answerQuestion(person, task.id, { answer: 'Yes' });
      expect(again.version).toBe(first.version);
      await refused(service.answerQuestion(person, task.id, { answer: 'No' }), 'conflict');
      const second = await service.askQuestion(ada, task.id, { fence: lease.fence, question: 'Sure?' });
      expect(second).toMatchObject({ question: 'Sure?', answer: null, answered_by: null });
    });

    it('only the holder asks, it reports nothing before the answer, and does not answer itself', async () => {
      const { task, lease, sessionId } = await ask();
      const { fence } = lease;
      for (const report of [
        () => service.completeTask(ada, task.id, { fence }),
        () => service.failTask(ada, task.id, { fence }),
      ])
        await refused(report(), 'conflict');
      const signed = userCaller('ada', { kind: 'agent', agent: 'worker-1' });
      await refused(service.answerQuestion(signed, task.id, { answer: 'Yes' }), 'forbidden');
      const readOnly = userCaller('ada', { scopes: { write: false, namespaces: null } });
      await refused(service.answerQuestion(readOnly, task.id, { answer: 'Yes' }), 'forbidden');
      await refused(service.answerQuestion(userCaller('eve'), task.id, { answer: 'Yes' }), 'not_found');
      const other = await service.createTask(ada, sessionId, { command: 'x' });
      await refused(service.askQuestion(ada, other.id, { fence: 1, question: 'Now?' }), 'fenced');
      await refused(
        service.askQuestion(ada, task.id, { fence, question: 'x'.repeat(101) }),
        'invalid_request',
      );
    });

    it('a deleted session takes its open questions with it', async () => {
      const { task, sessionId, workspaceId } = await ask({ expires_seconds: 100 });
      await service.deleteSession(ada, sessionId);
      await pass(101);
      await refused(service.getTask(ada, task.id), 'not_found');
      expect((await service.getWorkspace(ada, workspaceId)).active_tasks).toBe(0);
    });
  });
}
