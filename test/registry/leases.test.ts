import { afterEach, describe, expect, it } from 'vitest';
import { registryFamilies } from '../../src/homes/directory/registry/registry.js';
import { decodeAgent } from '../../src/registry/codec.js';
import type { StoredAgent } from '../../src/registry/model.js';
import {
  type TestRegistry,
  type TestRegistryOptions,
  openRegistry,
  startMs,
  userCaller,
} from './open-registry.js';

const alice = userCaller('alice');

let opened: TestRegistry;
afterEach(() => opened.close());

async function open(options: TestRegistryOptions = {}) {
  opened = await openRegistry(options);
  return opened;
}

async function runningAgent() {
  const { agent_id } = await opened.registry.createAgent(alice, { name: 'scout' });
  return opened.registry.start(alice, agent_id);
}

function kinds(): string[] {
  return opened.changes().map(({ kind }) => kind);
}

describe.each([
  { engine: 'memory', shards: 1 },
  { engine: 'lmdb', shards: 4 },
] as const)('leases on $engine with $shards shard(s)', (options) => {
  it('are taken and renewed by heartbeats, which touch neither status, version nor updated_at', async () => {
    const { registry } = await open(options);
    const before = await runningAgent();
    expect(await registry.heartbeat(alice, before.agent_id, { holder: 'node-1' })).toEqual({
      lease: { holder: 'node-1', fence: 1, expires_at: startMs + 60_000 },
    });
    const announced = kinds().length;
    await opened.pass(20);
    expect(await registry.heartbeat(alice, before.agent_id, { holder: 'node-1' })).toEqual({
      lease: { holder: 'node-1', fence: 1, expires_at: startMs + 80_000 },
    });
    const after = await registry.getAgent(alice, before.agent_id);
    expect(after).toMatchObject({
      status: 'running',
      version: before.version,
      updated_at: before.updated_at,
      presence: 'live',
      last_heartbeat_at: startMs + 20_000,
    });
    expect(kinds()).toHaveLength(announced);
  });

  it('are written to the record now and then', async () => {
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

  it('are current in the cached JSON of an agent', async () => {
    const { registry } = await open(options);
    const { agent_id } = await runningAgent();
    await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
    const seen: string[] = [];
    for (const seconds of [0, 59, 1, 29, 1, 5]) {
      await opened.pass(seconds);
      const agent = await registry.getAgent(alice, agent_id);
      expect(JSON.parse((await registry.agentText(alice, agent_id)).json)).toEqual(agent);
      seen.push(agent.presence);
    }
    expect(seen).toEqual(['live', 'live', 'lapsed', 'lapsed', 'lost', 'lost']);
    await registry.updateAgent(alice, agent_id, { labels: { team: 'b' } });
    expect(JSON.parse((await registry.agentText(alice, agent_id)).json)).toEqual(
      await registry.getAgent(alice, agent_id),
    );
  });

  it('refuse a second holder until their time and grace are over', async () => {
    const { registry } = await open(options);
    const { agent_id } = await runningAgent();
    await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
    await expect(registry.heartbeat(alice, agent_id, { holder: 'node-2' })).rejects.toMatchObject({
      code: 'conflict',
      details: { holder: 'node-1' },
    });
    await opened.pass(60);
    expect((await registry.getAgent(alice, agent_id)).presence).toBe('lapsed');
    await expect(registry.heartbeat(alice, agent_id, { holder: 'node-2' })).rejects.toMatchObject({
      code: 'conflict',
    });
    expect((await registry.heartbeat(alice, agent_id, { holder: 'node-1' })).lease.fence).toBe(1);
    await opened.pass(90);
    expect((await registry.heartbeat(alice, agent_id, { holder: 'node-2' })).lease.fence).toBe(2);
  });

  it('continue their numbers when the id of a deleted agent is used again', async () => {
    const { registry } = await open(options);
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
    await expect(
      registry.updateAgent(userCaller('alice', { fence }), agent_id, { name: 'late' }),
    ).rejects.toMatchObject({ code: 'fenced' });
    expect((await registry.heartbeat(alice, agent_id, { holder: 'node-3' })).lease.fence).toBeGreaterThan(
      fence,
    );
    const fresh = await registry.createAgent(alice, { name: 'under an id of its own' });
    expect((await registry.heartbeat(alice, fresh.agent_id)).lease.fence).toBe(1);
  });

  it('end the presence of a silent holder: the feed announces it, hooks run in the same commit, late writes are refused', async () => {
    const { registry, port } = await open(options);
    const { agent_id } = await runningAgent();
    const lost: string[] = [];
    port.verbs.leases.onPresenceLost.push((tx, agent: StoredAgent) => {
      lost.push(agent.record.agent_id);
      tx.change({
        domain: 'workspaces',
        kind: 'task.returned',
        id: 'task',
        user: agent.meta.user,
        version: 1,
      });
    });
    await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
    await opened.pass(89);
    expect(lost).toEqual([]);
    await opened.pass(1);
    expect(lost).toEqual([agent_id]);
    expect(
      opened.kernel.feed
        .read()
        .commits.at(-1)
        ?.changes.map(({ kind }) => kind),
    ).toEqual(['agent.lost', 'task.returned']);
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
      await expect(write()).rejects.toMatchObject({ code: 'fenced', status: 409 });
    }
    await opened.pass(1_000);
    expect(lost).toEqual([agent_id]);
    expect((await registry.heartbeat(alice, agent_id, { holder: 'node-1' })).lease.fence).toBe(2);
    expect(
      (await registry.updateAgent(userCaller('alice', { fence: 2 }), agent_id, { name: 'back' })).name,
    ).toBe('back');
  });

  it('refuse late writes and run the hooks once, also before the sweeper runs', async () => {
    const { registry, port } = await open(options);
    const { agent_id } = await runningAgent();
    let lost = 0;
    port.verbs.leases.onPresenceLost.push(() => (lost += 1));
    await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
    opened.clock.nowMs += 90_000;
    await expect(
      registry.updateAgent(userCaller('alice', { fence: 1 }), agent_id, { name: 'late' }),
    ).rejects.toMatchObject({ code: 'fenced' });
    expect((await registry.getAgent(alice, agent_id)).presence).toBe('lost');
    expect((await registry.heartbeat(alice, agent_id, { holder: 'node-2' })).lease).toMatchObject({
      holder: 'node-2',
      fence: 2,
    });
    await opened.pass(0);
    expect(lost).toBe(1);
    expect(kinds().filter((kind) => kind === 'agent.lost')).toHaveLength(1);
  });

  it('that are given back can be taken at once, with a higher number', async () => {
    const { registry } = await open(options);
    const { agent_id } = await runningAgent();
    await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
    await expect(registry.releaseLease(alice, agent_id, { holder: 'node-2' })).rejects.toMatchObject({
      code: 'conflict',
    });
    await registry.releaseLease(alice, agent_id, { holder: 'node-1' });
    await registry.releaseLease(alice, agent_id, { holder: 'node-1' });
    expect((await registry.getAgent(alice, agent_id)).presence).toBe('none');
    await expect(registry.stop(userCaller('alice', { fence: 1 }), agent_id)).rejects.toMatchObject({
      code: 'fenced',
    });
    expect((await registry.heartbeat(alice, agent_id, { holder: 'node-2' })).lease.fence).toBe(2);
    await opened.pass(0);
    expect(kinds()).not.toContain('agent.lost');
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

  it('update the stored record lazily', async () => {
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

describe('a restart', () => {
  it('delays the end of live leases by the time the server was down', async () => {
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
      lease: { holder: 'node-1', fence: 1, expires_at: startMs + 60_000 + 3_600_000 },
    });
    await opened.pass(10);
    expect((await opened.registry.getAgent(alice, agent_id)).presence).toBe('lapsed');
    await opened.restart(3_600);
    await opened.pass(29);
    expect((await opened.registry.getAgent(alice, agent_id)).presence).toBe('lapsed');
    await opened.pass(1);
    expect((await opened.registry.getAgent(alice, agent_id)).presence).toBe('lost');
    expect(kinds()).toContain('agent.lost');
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

describe('an agent without heartbeats', () => {
  it('becomes idle, then hibernates, and sweeps do not count as activity', async () => {
    const { registry } = await open();
    const { agent_id } = await runningAgent();
    for (let sweep = 0; sweep < 299; sweep += 23) await opened.pass(23);
    await opened.pass(1);
    const idle = await registry.getAgent(alice, agent_id);
    expect(idle.status).toBe('idle');
    for (let sweep = 0; sweep < 1_799; sweep += 257) await opened.pass(257);
    await opened.pass(1);
    expect((await registry.getAgent(alice, agent_id)).status).toBe('hibernating');
    expect(opened.changes().at(-1)).toMatchObject({
      kind: 'agent.transitioned',
      facts: { from: 'idle', to: 'hibernating', reason: 'inactive' },
    });
  });

  it('stays running while it sends heartbeats or has a session, and never hibernates with one', async () => {
    const { registry } = await open();
    const { agent_id } = await runningAgent();
    for (let beat = 0; beat < 20; beat += 1) {
      await registry.heartbeat(alice, agent_id);
      await opened.pass(50);
    }
    expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
    const session = await registry.openSession(alice, agent_id);
    await opened.pass(100_000);
    expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
    await expect(registry.hibernate(alice, agent_id)).rejects.toMatchObject({
      code: 'conflict',
      details: { active_sessions: 1 },
    });
    await registry.updateAgentStatus(alice, agent_id, 'idle');
    await expect(registry.updateAgentStatus(alice, agent_id, 'hibernating')).rejects.toMatchObject({
      code: 'conflict',
    });
    await opened.pass(100_000);
    expect((await registry.getAgent(alice, agent_id)).status).toBe('idle');
    await registry.closeSession(alice, session.session_id);
    await opened.pass(0);
    expect((await registry.getAgent(alice, agent_id)).status).toBe('hibernating');
  });

  it('has the full time again after it returns to running', async () => {
    const { registry } = await open();
    const { agent_id } = await runningAgent();
    await opened.pass(300);
    await registry.start(alice, agent_id);
    await opened.pass(299);
    expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
    await opened.pass(1);
    expect((await registry.getAgent(alice, agent_id)).status).toBe('idle');
  });

  it('keeps its state if the settings are 0', async () => {
    const { registry } = await open({ limits: { idleAfterSeconds: 0 } });
    const { agent_id } = await runningAgent();
    await opened.pass(1_000_000);
    expect((await registry.getAgent(alice, agent_id)).status).toBe('running');
  });
});
