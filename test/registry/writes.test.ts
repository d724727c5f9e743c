import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it } from 'vitest';
import { kernelFamilies } from '../../src/homes/directory/kernel/families.js';
import { type TestRegistry, openRegistry, operator, userCaller } from './open-registry.js';

let opened: TestRegistry;
afterEach(() => opened.close());

const users = ['alice', 'bob', 'cleo', 'dan', 'eve', 'fay'].map((name) => userCaller(name));
const [alice, bob] = users as [ReturnType<typeof userCaller>, ReturnType<typeof userCaller>];

/** The ids that the directory of ids knows. */
function idsEntered(): string[] {
  return Array.from(opened.kernel.root.range(kernelFamilies.directory, {}), ({ key }) => key.toString());
}

async function runningAgent(caller: ReturnType<typeof userCaller>): Promise<string> {
  const { agent_id } = await opened.registry.createAgent(caller, { name: 'scout' });
  await opened.registry.start(caller, agent_id);
  return agent_id;
}

describe.each([1, 4])('a write of the registry with %i shard(s)', (shards) => {
  it('is complete or not made: a refused step undoes the steps before it', async () => {
    opened = await openRegistry({ shards });
    const { registry, writer } = opened;
    const { steps } = registry;
    const kept = await runningAgent(alice);
    const changesBefore = opened.changes();
    const written = writer.write({ caller: alice }, [
      steps.createAgent(alice, { name: 'second' }),
      steps.openSession(alice, kept),
      steps.linkIdentity(alice, kept, randomUUID()),
      steps.updateAgent(alice, 'ab'.repeat(32), { name: 'missing' }),
    ]);
    await expect(written).rejects.toMatchObject({ code: 'not_found' });
    expect((await registry.listAgents(alice)).items.map(({ agent_id }) => agent_id)).toEqual([kept]);
    expect((await registry.listSessions(alice, kept)).items).toEqual([]);
    expect((await registry.listIdentities(alice, kept)).items).toEqual([]);
    expect(opened.changes()).toEqual(changesBefore);
    expect(idsEntered()).toEqual(shards === 1 ? [] : [kept]);
  });

  it('runs only if its checks hold', async () => {
    opened = await openRegistry({ shards });
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
    await expect(
      rename('second', [steps.requireAgentVersion(alice, agent_id, version)]),
    ).rejects.toMatchObject({ code: 'version_conflict' });
    await expect(
      rename('third', [steps.requireLease(alice, agent_id, lease.fence + 1)]),
    ).rejects.toMatchObject({ code: 'fenced' });
    await expect(
      rename('fourth', [steps.requireAgentVersion(bob, agent_id, version + 1)]),
    ).rejects.toMatchObject({ code: expect.any(String) });
    expect((await registry.getAgent(alice, agent_id)).name).toBe('first');
  });

  it('gives an id to one of several users that request it at once', async () => {
    opened = await openRegistry({ shards });
    const { registry } = opened;
    const agentId = 'cd'.repeat(32);
    const puts = await Promise.allSettled(
      users.map((caller) => registry.putAgent(caller, { agent_id: agentId, name: 'wanted' })),
    );
    expect(puts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect((await registry.listAgents(operator)).items).toHaveLength(1);

    const own = await Promise.all(users.map(runningAgent));
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
      users.map((caller, index) => registry.linkIdentity(caller, own[index] as string, identity)),
    );
    expect(links.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('removes every id of a deleted agent from the directory of ids', async () => {
    opened = await openRegistry({ shards, limits: { sessionsDeletedAtOnceMax: 2 } });
    const { registry } = opened;
    for (const caller of users) {
      const agentId = await runningAgent(caller);
      for (let count = 0; count < 7; count += 1) {
        const { session_id } = await registry.openSession(caller, agentId);
        await registry.closeSession(caller, session_id);
      }
      await registry.linkIdentity(caller, agentId, randomUUID());
      await registry.updateAgentStatus(caller, agentId, 'error');
      await registry.deleteAgent(caller, agentId);
    }
    expect(idsEntered()).toEqual([]);
  });
});

describe('a write over two users with several shards', () => {
  it('is refused before anything happens', async () => {
    opened = await openRegistry({ shards: 4 });
    const { registry, writer, kernel } = opened;
    const homes = await Promise.all(
      users.map(async (caller) => ({
        caller,
        store: kernel.locate((await registry.createAgent(caller, { name: 'scout' })).agent_id),
      })),
    );
    const outside = homes.filter(({ store }) => store !== kernel.root);
    const first = outside[0];
    const second = outside.find(({ store }) => store !== first?.store);
    if (first === undefined || second === undefined) throw new Error('All users are in one shard.');
    const written = writer.write({ caller: operator }, [
      registry.steps.createAgent(first.caller, { name: 'one' }),
      registry.steps.createAgent(second.caller, { name: 'two' }),
    ]);
    await expect(written).rejects.toMatchObject({ code: 'unsupported' });
    expect((await registry.listAgents(operator)).items).toHaveLength(users.length);
  });
});
