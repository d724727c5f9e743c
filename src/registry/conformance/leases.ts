/** Leases: taken, renewed, lapsed, lost, given back. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { isoTime } from '../../core/text/iso-time.js';
import {
  changesOf,
  OneBench,
  type RegistryTarget,
  type RegistryBench,
  agentIn,
  alice,
  startMs,
  userCaller,
} from './bench.js';

const runningAgent = (bench: RegistryBench) => agentIn(bench, 'running');
const kinds = async (bench: RegistryBench) => (await changesOf(bench)).map(({ kind }) => kind);

export function leaseTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`leases on ${name}`, () => {
    const refused = refusals(expect);
    const bench = new OneBench(runner, open);

    it('are taken and renewed by heartbeats, which touch neither status, version nor updated_at', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const before = await runningAgent(opened);
      expect(await registry.heartbeat(alice, before.agent_id, { holder: 'node-1' })).toEqual({
        lease: { holder: 'node-1', fence: 1, expires_at: isoTime(startMs + 60_000) },
      });
      const announced = (await kinds(opened)).length;
      await opened.pass(20);
      expect(await registry.heartbeat(alice, before.agent_id, { holder: 'node-1' })).toEqual({
        lease: { holder: 'node-1', fence: 1, expires_at: isoTime(startMs + 80_000) },
      });
      const after = await registry.getAgent(alice, before.agent_id);
      expect(after).toMatchObject({
        status: 'running',
        version: before.version,
        updated_at: before.updated_at,
        presence: 'live',
        last_heartbeat_at: isoTime(startMs + 20_000),
      });
      expect(await kinds(opened)).toHaveLength(announced);
    });

    it('end with time and without a write', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await runningAgent(opened);
      await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
      const seen: string[] = [];
      for (const seconds of [0, 59, 1, 29, 1, 5]) {
        await opened.pass(seconds);
        seen.push((await registry.getAgent(alice, agent_id)).presence);
      }
      expect(seen).toEqual(['live', 'live', 'lapsed', 'lapsed', 'lost', 'lost']);
    });

    it('refuse a second holder until their time and the grace time have passed', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await runningAgent(opened);
      await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
      await refused(registry.heartbeat(alice, agent_id, { holder: 'node-2' }), 'conflict', {
        details: { holder: 'node-1' },
      });
      await opened.pass(60);
      expect((await registry.getAgent(alice, agent_id)).presence).toBe('lapsed');
      await refused(registry.heartbeat(alice, agent_id, { holder: 'node-2' }), 'conflict');
      expect((await registry.heartbeat(alice, agent_id, { holder: 'node-1' })).lease.fence).toBe(1);
      await opened.pass(90);
      expect((await registry.heartbeat(alice, agent_id, { holder: 'node-2' })).lease.fence).toBe(2);
    });

    it('continue their fencing numbers if the id of a deleted agent is used again', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agent_id = 'ab'.repeat(32);
      await registry.putAgent(alice, { agent_id, name: 'first' });
      await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
      await opened.pass(90);
      const { fence } = (await registry.heartbeat(alice, agent_id, { holder: 'node-2' })).lease;
      await registry.updateAgentStatus(alice, agent_id, 'error');
      await registry.deleteAgent(alice, agent_id);

      await registry.putAgent(alice, { agent_id, name: 'second' });
      expect(await registry.getAgent(alice, agent_id)).toMatchObject({
        lease: null,
        presence: 'none',
        last_heartbeat_at: null,
      });
      await refused(
        registry.updateAgent(userCaller('alice', { fence }), agent_id, { name: 'late' }),
        'fenced',
      );
      expect((await registry.heartbeat(alice, agent_id, { holder: 'node-3' })).lease.fence).toBeGreaterThan(
        fence,
      );
      const fresh = await registry.createAgent(alice, { name: 'under an id of its own' });
      expect((await registry.heartbeat(alice, fresh.agent_id)).lease.fence).toBe(1);
    });

    it('end for a silent holder: the feed reports it, hooks run in the same commit, late writes are refused', async () => {
      const opened = await bench.open();
      const { registry, lost } = opened;
      const { agent_id } = await runningAgent(opened);
      await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
      await opened.pass(89);
      expect(lost).toEqual([]);
      await opened.pass(1);
      expect(lost).toEqual([agent_id]);
      expect((await opened.commits()).at(-1)?.map(({ kind }) => kind)).toEqual([
        'agent.lost',
        'task.returned',
      ]);
      expect(await registry.getAgent(alice, agent_id)).toMatchObject({
        presence: 'lost',
        lease: null,
        status: 'running',
      });
      const late = userCaller('alice', { fence: 1 });
      for (const write of [
        () => registry.updateAgent(late, agent_id, { name: 'late' }),
        () => registry.stop(late, agent_id),
        () => registry.heartbeat(late, agent_id, { holder: 'node-1' }),
        () => registry.openSession(late, agent_id),
        () => registry.putAgent(late, { agent_id, name: 'late' }),
        () => registry.deleteAgent(late, agent_id),
      ]) {
        await refused(write(), 'fenced', { status: 409 });
      }
      await opened.pass(1_000);
      expect(lost).toEqual([agent_id]);
      expect((await registry.heartbeat(alice, agent_id, { holder: 'node-1' })).lease.fence).toBe(2);
      expect(
        (await registry.updateAgent(userCaller('alice', { fence: 2 }), agent_id, { name: 'back' })).name,
      ).toBe('back');
    });

    it('refuse late writes and run the hooks once, also before the sweeper runs', async () => {
      const opened = await bench.open();
      const { registry, lost } = opened;
      const { agent_id } = await runningAgent(opened);
      await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
      opened.clock.nowMs += 90_000;
      await refused(
        registry.updateAgent(userCaller('alice', { fence: 1 }), agent_id, { name: 'late' }),
        'fenced',
      );
      expect((await registry.getAgent(alice, agent_id)).presence).toBe('lost');
      expect((await registry.heartbeat(alice, agent_id, { holder: 'node-2' })).lease).toMatchObject({
        holder: 'node-2',
        fence: 2,
      });
      await opened.pass(0);
      expect(lost).toEqual([agent_id]);
      expect((await kinds(opened)).filter((kind) => kind === 'agent.lost')).toHaveLength(1);
    });

    it('that were released go to the next holder at once, with a higher fencing number', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await runningAgent(opened);
      await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
      await refused(registry.releaseLease(alice, agent_id, { holder: 'node-2' }), 'conflict');
      await registry.releaseLease(alice, agent_id, { holder: 'node-1' });
      await registry.releaseLease(alice, agent_id, { holder: 'node-1' });
      expect((await registry.getAgent(alice, agent_id)).presence).toBe('none');
      await refused(registry.stop(userCaller('alice', { fence: 1 }), agent_id), 'fenced');
      expect((await registry.heartbeat(alice, agent_id, { holder: 'node-2' })).lease.fence).toBe(2);
      await opened.pass(0);
      expect(await kinds(opened)).not.toContain('agent.lost');
    });
  });
}
