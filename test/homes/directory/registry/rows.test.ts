/** What the registry keeps in a data directory, and what only a data directory does. */
import { afterEach, describe, expect, it } from 'vitest';
import { registryFamilies } from '../../../../src/homes/directory/registry/families.js';
import { userKey } from '../../../../src/identity/user-key.js';
import { decodeAgent } from '../../../../src/registry/layout/codec.js';
import {
  agentIn,
  alice,
  changesOf,
  operator,
  startMs,
  userCaller,
} from '../../../../src/registry/conformance/bench.js';
import { type TestRegistry, type TestRegistryOptions, openRegistry } from './open-registry.js';

let opened: TestRegistry;
afterEach(() => opened.close());

async function open(options: TestRegistryOptions = {}) {
  opened = await openRegistry(options);
  return opened;
}

const runningAgent = () => agentIn(opened, 'running');
const users = ['alice', 'bob', 'cleo', 'dan', 'eve', 'fay'].map((name) => userCaller(name));

describe.each([
  { engine: 'memory', shards: 1 },
  { engine: 'lmdb', shards: 4 },
  { engine: 'rocksdb', shards: 1 },
] as const)('agents and leases on $engine with $shards shard(s)', (options) => {
  it('are stored under the keys of the seed', async () => {
    const { registry, kernel } = await open(options);
    const agent = await registry.createAgent(alice, { name: 'scout' });
    const user = userKey('alice');
    const store = kernel.storeOf(user);
    const key = Buffer.concat([user, Buffer.from(agent.agent_id, 'hex')]);
    expect(store.get(registryFamilies.agents, key)?.[0]).toBe(0xa8);
    expect(store.get(registryFamilies.agentsByStatus, Buffer.concat([Buffer.of(1), key]))?.length).toBe(0);
    const session = await registry
      .updateAgentStatus(alice, agent.agent_id, 'running')
      .then(() => registry.openSession(alice, agent.agent_id));
    const sessionKey = Buffer.from(session.session_id.replaceAll('-', ''), 'hex');
    expect(store.get(registryFamilies.sessions, sessionKey)?.[0]).toBe(0xa6);
    expect(
      store.get(
        registryFamilies.sessionsByAgent,
        Buffer.concat([Buffer.from(agent.agent_id, 'hex'), sessionKey]),
      )?.length,
    ).toBe(0);
    expect(store.get(registryFamilies.users, user)?.[0]).toBe(0xa4);
  });

  it('are noted in the record itself once in a while', async () => {
    const { registry, kernel } = await open(options);
    const { agent_id, user_id } = await runningAgent();
    const noted: (number | null)[] = [];
    for (const seconds of [0, 20, 39, 1, 20]) {
      await opened.pass(seconds);
      await registry.heartbeat(alice, agent_id);
      const stored = kernel
        .storeOf(Buffer.from(user_id, 'hex'))
        .get(registryFamilies.agents, Buffer.from(user_id + agent_id, 'hex'));
      noted.push(decodeAgent(stored as Buffer).last_heartbeat_at);
    }
    expect(noted.map((atMs) => (atMs ?? 0) - startMs)).toEqual([0, 0, 0, 60_000, 60_000]);
  });

  it('have one timer each, however often they are renewed', async () => {
    const { registry, kernel } = await open(options);
    const { agent_id } = await runningAgent();
    for (let beat = 0; beat < 20; beat += 1) {
      await registry.heartbeat(alice, agent_id);
      await opened.pass(10);
    }
    const timers = kernel.stores.flatMap((store) =>
      Array.from(store.range('kernel/timers', {}), ({ key }) => key.toString('latin1')),
    );
    expect(timers.filter((key) => key.includes('registry.lease'))).toHaveLength(1);
    expect((await registry.getAgent(alice, agent_id)).presence).toBe('live');
  });

  it('are followed lazily in the stored record', async () => {
    const { registry, kernel } = await open(options);
    const { agent_id } = await runningAgent();
    const recorded = () =>
      kernel.stores.flatMap((store) =>
        Array.from(store.range(registryFamilies.agents, {}), ({ value }) =>
          value.toString('hex').includes('f6', value.length * 2 - 2),
        ),
      );
    expect(recorded()).toEqual([true]);
    await registry.heartbeat(alice, agent_id);
    expect(recorded()).toEqual([false]);
  });
});

describe('an agent with many sessions', () => {
  it.each([1, 4])('is deleted in several writes with %i shard(s)', async (shards) => {
    const { registry, kernel } = await open({ shards, limits: { sessionsDeletedAtOnceMax: 3 } });
    const { agent_id } = await runningAgent();
    for (let index = 0; index < 10; index += 1) {
      await registry.openSession(alice, agent_id);
      await registry.closeSession(alice, (await registry.openSession(alice, agent_id)).session_id);
    }
    await registry.updateAgentStatus(alice, agent_id, 'error');
    const deletedAtOnce: number[] = [];
    for (const store of kernel.stores)
      store.onWritten((operations) =>
        deletedAtOnce.push(operations.filter(({ family }) => family === 'registry/sessions').length),
      );
    await registry.deleteAgent(alice, agent_id);
    expect(Math.max(...deletedAtOnce)).toBeLessThanOrEqual(4);
    expect(deletedAtOnce.reduce((sum, count) => sum + count, 0)).toBe(20);
  });
});

describe('a restart', () => {
  it('puts off the end of live leases by the time the server was down', async () => {
    const { registry } = await open({ engine: 'lmdb' });
    const { agent_id } = await runningAgent();
    await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
    await opened.pass(50);
    await opened.restart(3_600);
    await opened.pass(0);
    const agent = await opened.registry.getAgent(alice, agent_id);
    expect(agent).toMatchObject({
      presence: 'live',
      status: 'running',
      lease: { holder: 'node-1', fence: 1, expires_at: new Date(startMs + 60_000 + 3_600_000).toISOString() },
    });
    await opened.pass(10);
    expect((await opened.registry.getAgent(alice, agent_id)).presence).toBe('lapsed');
    await opened.restart(3_600);
    await opened.pass(29);
    expect((await opened.registry.getAgent(alice, agent_id)).presence).toBe('lapsed');
    await opened.pass(1);
    expect((await opened.registry.getAgent(alice, agent_id)).presence).toBe('lost');
    expect((await changesOf(opened)).map(({ kind }) => kind)).toContain('agent.lost');
  });

  it('does not revive a lease that had lapsed before', async () => {
    const { registry } = await open({ engine: 'lmdb' });
    const { agent_id } = await runningAgent();
    await registry.heartbeat(alice, agent_id);
    opened.clock.nowMs += 100_000;
    await opened.restart(10);
    expect((await opened.registry.getAgent(alice, agent_id)).presence).toBe('lost');
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
