/** Sessions, and what opening and closing them does to their agent. */
import type { AgentState } from '../model.js';
import { isoTime } from '../../core/text/iso-time.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import {
  OneBench,
  type RegistryBench,
  type RegistryTarget,
  alice,
  bob,
  changesOf,
  nextName,
  operator,
  startMs,
  userCaller,
} from './bench.js';

async function agentThrough({ registry }: RegistryBench, ...steps: AgentState[]): Promise<string> {
  const { agent_id } = await registry.createAgent(alice, { name: nextName() });
  for (const step of steps) await registry.updateAgentStatus(alice, agent_id, step);
  return agent_id;
}

export function sessionTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`sessions on ${name}`, () => {
    const refused = refusals(expect);
    const bench = new OneBench(runner, open);

    it('make an idle agent running, and the last closed session makes it idle again', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running', 'idle');
      const first = await registry.openSession(alice, agentId);
      expect(first).toMatchObject({
        agent_id: agentId,
        status: 'active',
        created_at: isoTime(startMs),
        closed_at: null,
      });
      const second = await registry.openSession(alice, agentId);
      expect(await registry.getAgent(alice, agentId)).toMatchObject({
        status: 'running',
        active_sessions: 2,
      });
      opened.clock.nowMs += 7;
      expect(await registry.closeSession(alice, first.session_id)).toMatchObject({
        status: 'closed',
        closed_at: isoTime(startMs + 7),
      });
      expect((await registry.getAgent(alice, agentId)).status).toBe('running');
      await registry.closeSession(alice, second.session_id);
      expect(await registry.getAgent(alice, agentId)).toMatchObject({ status: 'idle', active_sessions: 0 });
    });

    it('request a wake of a hibernating or stopped agent in the feed', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      for (const steps of [
        ['running', 'hibernating'],
        ['running', 'stopping', 'stopped'],
      ] as const) {
        const agentId = await agentThrough(opened, ...steps);
        const { session_id } = await registry.openSession(alice, agentId);
        expect((await registry.getAgent(alice, agentId)).status).toBe('provisioning');
        expect((await changesOf(opened)).at(-1)).toMatchObject({
          kind: 'agent.wake_requested',
          id: agentId,
          facts: { session: session_id },
        });
      }
    });

    it('are refused on an agent that is provisioning, stopping or in error', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      for (const steps of [[], ['running', 'stopping'], ['error']] as const) {
        const agentId = await agentThrough(opened, ...steps);
        await refused(registry.openSession(alice, agentId), 'conflict', { status: 409 });
        expect((await registry.listSessions(alice, agentId)).items).toEqual([]);
      }
    });

    it('can be closed twice, and never open again', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      const { session_id } = await registry.openSession(alice, agentId);
      const closed = await registry.closeSession(alice, session_id);
      opened.clock.nowMs += 1_000;
      expect(await registry.closeSession(alice, session_id)).toEqual(closed);
      await refused(registry.updateSessionStatus(alice, session_id, 'active'), 'conflict');
      await refused(registry.openSession(alice, agentId, { session_id }), 'already_exists');
      await refused(
        registry.putSession(alice, { session_id, agent_id: agentId, status: 'active' }),
        'conflict',
      );
    });

    it("can be created under the caller's id, and closed by a second PUT", async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      const session_id = '550e8400-e29b-41d4-a716-446655440000';
      await refused(
        registry.putSession(alice, { session_id, agent_id: agentId, status: 'closed' }),
        'conflict',
      );
      expect(await registry.putSession(alice, { session_id, agent_id: agentId })).toMatchObject({
        session_id,
        status: 'active',
      });
      expect(await registry.putSession(alice, { session_id, agent_id: agentId })).toMatchObject({
        status: 'active',
      });
      expect(
        await registry.putSession(alice, { session_id, agent_id: agentId, status: 'closed' }),
      ).toMatchObject({ status: 'closed' });
      expect(await registry.getSession(operator, session_id.toUpperCase())).toMatchObject({ session_id });
    });

    it('of another user, or of another agent, are not found', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      const otherId = await agentThrough(opened, 'running');
      const { session_id } = await registry.openSession(alice, agentId);
      const gone = { code: 'not_found' };
      await expect(registry.getSession(bob, session_id)).rejects.toMatchObject(gone);
      await expect(registry.closeSession(bob, session_id)).rejects.toMatchObject(gone);
      await expect(registry.getSession(alice, session_id, otherId)).rejects.toMatchObject(gone);
      await expect(registry.closeSession(alice, session_id, otherId)).rejects.toMatchObject(gone);
      await expect(
        registry.getSession(userCaller('alice', { kind: 'agent', agentId: otherId }), session_id),
      ).rejects.toMatchObject(gone);
      expect(await registry.getSession(alice, session_id, agentId)).toMatchObject({ session_id });
    });

    it('are listed in the order in which they were opened, page by page, and by status', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      const ids: string[] = [];
      for (let index = 0; index < 25; index += 1) {
        opened.clock.nowMs += 1;
        ids.push((await registry.openSession(alice, agentId)).session_id);
      }
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await registry.listSessions(alice, agentId, { limit: 10, cursor });
        seen.push(...page.items.map(({ session_id }) => session_id));
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      expect(seen).toEqual(ids);
      await registry.closeSession(alice, ids[3] as string);
      expect(
        (await registry.listSessions(alice, agentId, { status: 'closed' })).items.map(
          ({ session_id }) => session_id,
        ),
      ).toEqual([ids[3]]);
      expect((await registry.listSessions(alice, agentId, { status: 'active' })).items).toHaveLength(24);
    });

    it('are created once for an Idempotency-Key', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      const idempotency = { scope: 'alice', key: 'k', fingerprint: 'f', seconds: 60 };
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => registry.openSession(alice, agentId, {}, idempotency)),
      );
      expect(new Set(answers.map(({ session_id }) => session_id)).size).toBe(1);
      expect((await registry.getAgent(alice, agentId)).active_sessions).toBe(1);
    });

    it('are limited per agent', async () => {
      const opened = await bench.open({ sessionsPerAgentMax: 2 });
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      const outcomes = await Promise.allSettled(
        Array.from({ length: 5 }, () => registry.openSession(alice, agentId)),
      );
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
    });

    it('are not limited if the limit is 0', async () => {
      const opened = await bench.open({ sessionsPerAgentMax: 0 });
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      for (let index = 0; index < 3; index += 1) await registry.openSession(alice, agentId);
      expect((await registry.getAgent(alice, agentId)).active_sessions).toBe(3);
    });

    it('are deleted with their agent, however many there are', async () => {
      const opened = await bench.open({ sessionsDeletedAtOnceMax: 3 });
      const { registry } = opened;
      const agentId = await agentThrough(opened, 'running');
      for (let index = 0; index < 10; index += 1) {
        await registry.openSession(alice, agentId);
        await registry.closeSession(alice, (await registry.openSession(alice, agentId)).session_id);
      }
      await refused(registry.deleteAgent(alice, agentId), 'conflict');
      expect((await registry.listSessions(alice, agentId)).items).toHaveLength(20);
      await registry.updateAgentStatus(alice, agentId, 'error');
      await registry.deleteAgent(alice, agentId);
      expect(await opened.agentRows()).toEqual([]);
    });
  });
}
