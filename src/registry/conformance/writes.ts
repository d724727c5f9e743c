/** Several steps of the registry in one write, and writes at the same time. */
import { randomUUID } from 'node:crypto';
import type { Caller } from '../../core/caller.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import {
  OneBench,
  type RegistryBench,
  type RegistryTarget,
  alice,
  bob,
  changesOf,
  linkIdentity,
  nextName,
  operator,
  userCaller,
} from './bench.js';

const users = ['alice', 'bob', 'cleo', 'dan', 'eve', 'fay'].map((name) => userCaller(name));

async function runningAgent({ registry }: RegistryBench, caller: Caller): Promise<string> {
  const { agent_id } = await registry.createAgent(caller, { name: nextName() });
  await registry.start(caller, agent_id);
  return agent_id;
}

export function writeTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`a write of the registry on ${name}`, () => {
    const refused = refusals(expect);
    const bench = new OneBench(runner, open);

    it('is all or nothing: a refused step undoes the steps before it', async () => {
      const opened = await bench.open();
      const { registry, writer } = opened;
      const { steps } = registry;
      const kept = await runningAgent(opened, alice);
      const changesBefore = await changesOf(opened);
      const written = writer.write({ caller: alice }, [
        steps.createAgent(alice, { name: 'second' }),
        steps.openSession(alice, kept),
        steps.linkIdentity(alice, kept, randomUUID()),
        steps.updateAgent(alice, 'ab'.repeat(32), { name: 'missing' }),
      ]);
      await refused(written, 'not_found');
      expect((await registry.listAgents(alice)).items.map(({ agent_id }) => agent_id)).toEqual([kept]);
      expect((await registry.listSessions(alice, kept)).items).toEqual([]);
      expect((await registry.listIdentities(alice, kept)).items).toEqual([]);
      expect(await changesOf(opened)).toEqual(changesBefore);
    });

    it('happens only if its checks hold', async () => {
      const opened = await bench.open();
      const { registry, writer } = opened;
      const { steps } = registry;
      const { agent_id, version } = await registry.createAgent(alice, { name: 'scout' });
      const { lease } = await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
      const rename = (name: string, checks: ReturnType<typeof steps.requireLease>[]) =>
        writer.write({ caller: alice, checks }, [steps.updateAgent(alice, agent_id, { name })]);
      await rename('first', [
        steps.requireAgentVersion(alice, agent_id, version),
        steps.requireLease(alice, agent_id, lease.fence),
      ]);
      await refused(
        rename('second', [steps.requireAgentVersion(alice, agent_id, version)]),
        'version_conflict',
      );
      await refused(rename('third', [steps.requireLease(alice, agent_id, lease.fence + 1)]), 'fenced');
      await refused(
        rename('fourth', [steps.requireAgentVersion(bob, agent_id, version + 1)]),
        expect.any(String),
      );
      expect((await registry.getAgent(alice, agent_id)).name).toBe('first');
    });

    it('gives an id that several users request at the same time to one of them', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agentId = 'cd'.repeat(32);
      const puts = await Promise.allSettled(
        users.map((caller) => registry.putAgent(caller, { agent_id: agentId, name: 'wanted' })),
      );
      expect(puts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect((await registry.listAgents(operator)).items).toHaveLength(1);

      const own = await Promise.all(users.map((caller) => runningAgent(opened, caller)));
      const sessionId = randomUUID();
      const opens = await Promise.allSettled(
        users.map((caller, index) =>
          registry.openSession(caller, own[index] as string, { session_id: sessionId }),
        ),
      );
      expect(opens.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      for (const outcome of opens)
        if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'already_exists' });

      const identity = randomUUID();
      const links = await Promise.allSettled(
        users.map((caller, index) => linkIdentity(opened, caller, own[index] as string, identity)),
      );
      expect(links.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    });

    it('deletes everything of a deleted agent', async () => {
      const opened = await bench.open({ sessionsDeletedAtOnceMax: 2 });
      const { registry } = opened;
      for (const caller of users) {
        const agentId = await runningAgent(opened, caller);
        for (let count = 0; count < 7; count += 1) {
          const { session_id } = await registry.openSession(caller, agentId);
          await registry.closeSession(caller, session_id);
        }
        await linkIdentity(opened, caller, agentId, randomUUID());
        await registry.updateAgentStatus(caller, agentId, 'error');
        await registry.deleteAgent(caller, agentId);
      }
      expect(await opened.agentRows()).toEqual([]);
    });
  });
}
