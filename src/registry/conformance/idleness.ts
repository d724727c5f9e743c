/** An agent without a sign of life becomes idle, then hibernates. */
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { OneBench, type RegistryTarget, type RegistryBench, agentIn, alice, changesOf } from './bench.js';

const runningAgent = (bench: RegistryBench) => agentIn(bench, 'running');

export function idlenessTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`an inactive agent on ${name}`, () => {
    const refused = refusals(expect);
    const bench = new OneBench(runner, open);

    it('becomes idle, then hibernates; a sweep does not count as activity', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await runningAgent(opened);
      for (let sweep = 0; sweep < 299; sweep += 23) await opened.pass(23);
      await opened.pass(1);
      const idle = await registry.getAgent(alice, agent_id);
      expect(idle.status).toBe('idle');
      for (let sweep = 0; sweep < 1_799; sweep += 257) await opened.pass(257);
      await opened.pass(1);
      expect((await registry.getAgent(alice, agent_id)).status).toBe('hibernating');
      expect((await changesOf(opened)).at(-1)).toMatchObject({
        kind: 'agent.transitioned',
        facts: { from: 'idle', to: 'hibernating', reason: 'inactive' },
      });
    });

    it('stays running while it sends heartbeats or has a session, and never hibernates with one', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await runningAgent(opened);
      for (let beat = 0; beat < 20; beat += 1) {
        await registry.heartbeat(alice, agent_id);
        await opened.pass(50);
      }
      expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
      const session = await registry.openSession(alice, agent_id);
      await opened.pass(100_000);
      expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
      await refused(registry.hibernate(alice, agent_id), 'conflict', { details: { active_sessions: 1 } });
      await registry.updateAgentStatus(alice, agent_id, 'idle');
      await refused(registry.updateAgentStatus(alice, agent_id, 'hibernating'), 'conflict');
      await opened.pass(100_000);
      expect((await registry.getAgent(alice, agent_id)).status).toBe('idle');
      await registry.closeSession(alice, session.session_id);
      await opened.pass(0);
      expect((await registry.getAgent(alice, agent_id)).status).toBe('hibernating');
    });

    it('has the full time again after it returns to running', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await runningAgent(opened);
      await opened.pass(300);
      await registry.start(alice, agent_id);
      await opened.pass(299);
      expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
      await opened.pass(1);
      expect((await registry.getAgent(alice, agent_id)).status).toBe('idle');
    });

    it('stays in its state if the settings turn this off', async () => {
      const opened = await bench.open({ idleAfterSeconds: 0 });
      const { registry } = opened;
      const { agent_id } = await runningAgent(opened);
      await opened.pass(1_000_000);
      expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
    });
  });
}
