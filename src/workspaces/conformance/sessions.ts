/** What work sessions do on every backend. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { type SessionStatus, sessionStatuses } from '../model.js';
import type { WorkspacesService } from '../service.js';
import { type Bench, type OpenBench, makePlace, makeTasks, userCaller } from './bench.js';

/** How a fresh session gets to each status. */
const ways: Record<SessionStatus, SessionStatus[]> = {
  pending: [],
  active: ['active'],
  idle: ['active', 'idle'],
  ending: ['active', 'ending'],
  ended: ['active', 'ending', 'ended'],
  error: ['error'],
};

const table: Record<SessionStatus, SessionStatus[]> = {
  pending: ['active', 'error'],
  active: ['idle', 'ending', 'error'],
  idle: ['active', 'ending', 'error'],
  ending: ['ended', 'error'],
  ended: [],
  error: ['ended'],
};

export function sessionTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: string,
  open: OpenBench,
): void {
  describe(`work sessions on ${backend}`, () => {
    const refused = refusals(expect);
    let bench: Bench;
    let service: WorkspacesService;
    const ada = userCaller('ada');

    beforeAll(async () => {
      bench = await open();
      service = bench.service;
    });
    afterAll(() => bench.close());

    it('a new session is pending and holds no slot', async () => {
      const { projectId } = await makePlace(service, ada);
      const session = await service.createSession(ada, projectId, {
        agent_id: 'agent-1',
        process_id: 4711,
        metadata: { shell: 'zsh' },
      });
      expect(session).toMatchObject({
        project_id: projectId,
        agent_id: 'agent-1',
        process_id: 4711,
        status: 'pending',
        started_at: null,
        ended_at: null,
        metadata: { shell: 'zsh' },
        command_count: 0,
        max_idle_time: 1800,
        max_lifetime: 86400,
        version: 1,
      });
      expect(await service.activeSession(ada, projectId)).toBeNull();
      expect(await service.getSession(ada, session.id)).toEqual(session);
    });

    it("a signed agent has sessions in its own name or nobody's, and gives none to another", async () => {
      const { projectId } = await makePlace(service, ada);
      const signed = userCaller('ada', { kind: 'agent', agent: 'signed', agentId: 'a'.repeat(64) });
      const own = await service.createSession(signed, projectId);
      expect(own.agent_id).toBe('signed');
      expect((await service.createSession(signed, projectId, { agent_id: null })).agent_id).toBeNull();
      expect((await service.updateSession(signed, own.id, { agent_id: 'signed' })).agent_id).toBe('signed');
      await refused(service.createSession(signed, projectId, { agent_id: 'b'.repeat(64) }), 'forbidden');
      await refused(service.updateSession(signed, own.id, { agent_id: 'b'.repeat(64) }), 'forbidden');
      expect((await service.updateSession(ada, own.id, { agent_id: 'b'.repeat(64) })).agent_id).toBe(
        'b'.repeat(64),
      );
    });

    for (const from of sessionStatuses)
      it(`from ${from} only the table leads on`, async () => {
        for (const to of sessionStatuses) {
          const { sessionId } = await makePlace(service, ada);
          for (const status of ways[from]) await service.updateSession(ada, sessionId, { status });
          const move = service.updateSession(ada, sessionId, { status: to });
          if (table[from].includes(to)) expect((await move).status).toBe(to);
          else await refused(move, 'invalid_transition', { details: { from, to } });
        }
      });

    it('a second start is a conflict that names the holder, and takeover ends the first', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await service.updateSession(ada, sessionId, { status: 'active' });
      const second = await service.createSession(ada, projectId);
      await refused(service.updateSession(ada, second.id, { status: 'active' }), 'conflict', {
        details: { holder: sessionId },
      });
      await service.updateSession(ada, sessionId, { status: 'idle' });
      await refused(service.updateSession(ada, second.id, { status: 'active' }), 'conflict', {
        details: { holder: sessionId },
      });
      expect((await service.activeSession(ada, projectId))?.id).toBe(sessionId);
      await service.updateSession(ada, second.id, { status: 'active', takeover: true });
      expect(await service.getSession(ada, sessionId)).toMatchObject({
        status: 'ended',
        ended_at: expect.any(String),
      });
      expect((await service.activeSession(ada, projectId))?.id).toBe(second.id);
    });

    it('one of many concurrent starts gets the slot', async () => {
      const { projectId } = await makePlace(service, ada);
      const outcomes = await Promise.allSettled(
        Array.from({ length: 8 }, () => service.createSession(ada, projectId, { status: 'active' })),
      );
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect((await service.listSessions(ada, projectId, { status: 'active' })).items).toHaveLength(1);
    });

    for (const status of ['ending', 'error'] as const)
      it(`${status} frees the slot`, async () => {
        const { projectId, sessionId } = await makePlace(service, ada);
        await service.updateSession(ada, sessionId, { status: 'active' });
        await service.updateSession(ada, sessionId, { status });
        expect(await service.activeSession(ada, projectId)).toBeNull();
        expect((await service.createSession(ada, projectId, { status: 'active' })).status).toBe('active');
      });

    it('a session without activity ends after max_idle_time, and activity moves the end', async () => {
      const { projectId } = await makePlace(service, ada);
      const session = await service.createSession(ada, projectId, {
        status: 'active',
        max_idle_time: 100,
        max_lifetime: 0,
      });
      bench.pass(60);
      await makeTasks(service, ada, session.id, 1);
      bench.pass(60);
      await bench.sweep();
      expect((await service.getSession(ada, session.id)).status).toBe('active');
      bench.pass(41);
      await bench.sweep();
      expect(await service.getSession(ada, session.id)).toMatchObject({ status: 'ended' });
      expect(await service.activeSession(ada, projectId)).toBeNull();
    });

    it('a session ends after max_lifetime, however busy it is', async () => {
      const { projectId } = await makePlace(service, ada);
      const session = await service.createSession(ada, projectId, {
        status: 'active',
        max_idle_time: 0,
        max_lifetime: 50,
      });
      bench.pass(30);
      await service.updateSession(ada, session.id, { metadata: { busy: true } });
      bench.pass(21);
      await bench.sweep();
      expect((await service.getSession(ada, session.id)).status).toBe('ended');
    });

    it('the feed reports each session that ends by takeover, idleness or age, with the reason', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await service.updateSession(ada, sessionId, { status: 'active' });
      const idle = await service.createSession(ada, projectId, {
        status: 'active',
        takeover: true,
        max_idle_time: 10,
        max_lifetime: 0,
      });
      bench.pass(11);
      await bench.sweep();
      const old = await service.createSession(ada, projectId, {
        status: 'active',
        max_idle_time: 0,
        max_lifetime: 10,
      });
      bench.pass(11);
      await bench.sweep();
      const seen = (await bench.changes()).filter(({ kind }) => kind === 'session.status_changed');
      const endOf = (id: string): unknown[] =>
        seen
          .filter((change) => change.id === id && change.facts['to'] !== 'active')
          .map(({ facts }) => [facts['from'], facts['to'], facts['reason']]);
      for (const [id, reason] of [
        [sessionId, 'takeover'],
        [idle.id, 'idle'],
        [old.id, 'lifetime'],
      ] as const) {
        expect(endOf(id)).toEqual([
          ['active', 'ending', reason],
          ['ending', 'ended', reason],
        ]);
      }
    });

    it('a claim wakes an idle session', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 1);
      await service.updateSession(ada, sessionId, { status: 'active' });
      await service.updateSession(ada, sessionId, { status: 'idle' });
      await service.claimTask(ada, projectId);
      expect((await service.getSession(ada, sessionId)).status).toBe('active');
    });

    it('counts the results of its tasks without a new version', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await makeTasks(service, ada, sessionId, 2);
      const first = await service.claimTask(ada, projectId);
      await service.completeTask(ada, first!.task.id, {
        fence: first!.lease.fence,
        output: '한글',
        bytes_in: 10,
      });
      const second = await service.claimTask(ada, projectId);
      await service.failTask(ada, second!.task.id, { fence: second!.lease.fence, error: 'no' });
      expect(await service.getSession(ada, sessionId)).toMatchObject({
        command_count: 2,
        error_count: 1,
        bytes_in: 10,
        bytes_out: 6,
        version: 1,
      });
    });

    it('deleting a session deletes its tasks and frees the slot', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      await service.updateSession(ada, sessionId, { status: 'active' });
      const tasks = await makeTasks(service, ada, sessionId, 3);
      await refused(service.deleteSession(ada, sessionId, { ifVersion: 1 }), 'version_conflict');
      await service.deleteSession(ada, sessionId);
      expect(await service.activeSession(ada, projectId)).toBeNull();
      expect(await service.claimTask(ada, projectId)).toBeNull();
      expect((await service.listReadyTasks(ada, projectId)).items).toEqual([]);
      await refused(service.getTask(ada, tasks[0]!.id), 'not_found');
      await bench.sweep();
      const stored = await bench.dump();
      for (const id of [sessionId, ...tasks.map((task) => task.id)]) expect(stored).not.toContain(id);
    });

    it('an ended session refuses new tasks', async () => {
      const { sessionId } = await makePlace(service, ada);
      for (const status of ways.ended) await service.updateSession(ada, sessionId, { status });
      await refused(service.createTask(ada, sessionId, { command: 'late' }), 'conflict');
    });

    it('sessions are listed by status', async () => {
      const { projectId, sessionId } = await makePlace(service, ada);
      const second = await service.createSession(ada, projectId, { status: 'active' });
      expect((await service.listSessions(ada, projectId)).items.map(({ id }) => id)).toEqual([
        sessionId,
        second.id,
      ]);
      expect(
        (await service.listSessions(ada, projectId, { status: 'pending' })).items.map(({ id }) => id),
      ).toEqual([sessionId]);
      expect((await service.listSessions(ada, projectId, { status: 'ended' })).items).toEqual([]);
    });
  });
}
