import { afterEach, describe, expect, it } from 'vitest';
import { registryFamilies } from '../../src/homes/directory/registry/registry.js';
import { userKey } from '../../src/identity/user-key.js';
import { countKinds } from '../../src/registry/keys.js';
import { type AgentState, agentStateBytes, agentStates } from '../../src/registry/model.js';
import {
  type TestRegistry,
  type TestRegistryOptions,
  openRegistry,
  operator,
  startMs,
  userCaller,
} from './open-registry.js';

const alice = userCaller('alice');
const bob = userCaller('bob');
const missing = 'f'.repeat(64);

let opened: TestRegistry;
afterEach(() => opened.close());

async function open(options: TestRegistryOptions = {}) {
  opened = await openRegistry(options);
  return opened;
}

/** The shortest way from a new agent to each state. */
const waysTo: Record<AgentState, AgentState[]> = {
  provisioning: [],
  running: ['running'],
  idle: ['running', 'idle'],
  hibernating: ['running', 'hibernating'],
  stopping: ['running', 'stopping'],
  stopped: ['running', 'stopping', 'stopped'],
  error: ['error'],
};

async function agentIn(status: AgentState, caller = alice) {
  let agent = await opened.registry.createAgent(caller, { name: `agent-${status}` });
  for (const step of waysTo[status])
    agent = await opened.registry.updateAgentStatus(caller, agent.agent_id, step);
  expect(agent.status).toBe(status);
  return agent;
}

function statusEntries(): string[] {
  return opened.kernel.stores.flatMap((store) =>
    Array.from(store.range(registryFamilies.agentsByStatus, {}), ({ key }) => key.toString('hex')),
  );
}

describe.each([
  { engine: 'memory', shards: 1 },
  { engine: 'lmdb', shards: 1 },
  { engine: 'memory', shards: 4 },
  { engine: 'lmdb', shards: 4 },
  { engine: 'rocksdb', shards: 1 },
] as const)('agents on $engine with $shards shard(s)', (options) => {
  it('are created with the defaults and read back', async () => {
    const { registry } = await open(options);
    const agent = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
    expect(agent).toMatchObject({
      user: 'alice',
      user_id: userKey('alice').toString('hex'),
      name: 'scout',
      status: 'provisioning',
      spec: { cpu_millicores: 500, memory_mb: 512, runtime_version: 'latest' },
      labels: { team: 'red' },
      error_message: null,
      created_at: startMs,
      updated_at: startMs,
      last_heartbeat_at: null,
      version: 1,
      presence: 'none',
      lease: null,
      active_sessions: 0,
    });
    expect(await registry.getAgent(alice, agent.agent_id.toUpperCase())).toEqual(agent);
    expect(await registry.getAgent(operator, agent.agent_id)).toEqual(agent);
    expect(await registry.countAgents(alice)).toBe(1);
    expect(opened.changes().map(({ kind, user }) => [kind, user])).toEqual([
      ['user.created', 'alice'],
      ['agent.created', 'alice'],
    ]);
  });

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

  it('of another user are not found, for reads and writes', async () => {
    const { registry } = await open(options);
    const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
    const gone = { code: 'not_found' };
    await expect(registry.getAgent(bob, agent_id)).rejects.toMatchObject(gone);
    await expect(registry.updateAgent(bob, agent_id, { name: 'mine' })).rejects.toMatchObject(gone);
    await expect(registry.putAgent(bob, { agent_id, name: 'mine' })).rejects.toMatchObject(gone);
    await expect(registry.deleteAgent(bob, agent_id)).rejects.toMatchObject(gone);
    await expect(registry.heartbeat(bob, agent_id)).rejects.toMatchObject(gone);
    await expect(registry.openSession(bob, agent_id)).rejects.toMatchObject(gone);
    await expect(registry.listSessions(bob, agent_id)).rejects.toMatchObject(gone);
    await expect(registry.updateAgentStatus(alice, missing, 'running')).rejects.toMatchObject(gone);
    await expect(registry.deleteAgent(operator, missing)).rejects.toMatchObject(gone);
    expect((await registry.listAgents(bob)).items).toEqual([]);
    expect((await registry.getAgent(operator, agent_id)).user).toBe('alice');
  });

  it("cannot be reached through the hash of their owner's id", async () => {
    const { registry } = await open(options);
    const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
    await registry.getAgent(alice, agent_id);
    const disguised = userCaller(userKey('alice').toString('hex'));
    const refused = { code: 'conflict', status: 409 };
    await expect(registry.getAgent(disguised, agent_id)).rejects.toMatchObject(refused);
    await expect(registry.listAgents(disguised)).rejects.toMatchObject(refused);
    await expect(registry.countAgents(disguised)).rejects.toMatchObject(refused);
    await expect(registry.createAgent(disguised, { name: 'spy' })).rejects.toMatchObject(refused);
    await expect(registry.putAgent(disguised, { agent_id, name: 'spy' })).rejects.toMatchObject(refused);
    await expect(registry.updateAgent(disguised, agent_id, { name: 'spy' })).rejects.toMatchObject(refused);
    await expect(registry.heartbeat(disguised, agent_id)).rejects.toMatchObject(refused);
    await expect(registry.openSession(disguised, agent_id)).rejects.toMatchObject(refused);
    await expect(registry.listSessions(disguised, agent_id)).rejects.toMatchObject(refused);
    await expect(registry.deleteAgent(disguised, agent_id)).rejects.toMatchObject(refused);
  });

  it('are deleted with sessions, lease, links and index entries, and only when stopped or in error', async () => {
    const { registry, kernel } = await open(options);
    for (const status of agentStates) {
      const { agent_id } = await agentIn(status);
      if (status === 'stopped' || status === 'error') continue;
      await expect(registry.deleteAgent(alice, agent_id)).rejects.toMatchObject({
        code: 'conflict',
        details: { status },
      });
      if (status === 'provisioning') {
        await registry.updateAgentStatus(alice, agent_id, 'running');
        await registry.openSession(alice, agent_id);
        const closed = await registry.openSession(alice, agent_id);
        await registry.closeSession(alice, closed.session_id);
        await registry.heartbeat(alice, agent_id);
        await registry.linkIdentity(alice, agent_id, 'identity-1');
        await registry.updateAgent(alice, agent_id, { labels: { team: 'red' } });
      }
    }
    for (const agent of (await registry.listAgents(alice)).items) {
      if (agent.status !== 'stopped' && agent.status !== 'error')
        await registry.updateAgentStatus(alice, agent.agent_id, 'error');
      await registry.deleteAgent(alice, agent.agent_id);
    }
    const userFamilies: string[] = [registryFamilies.users, registryFamilies.userNames];
    for (const store of kernel.stores) {
      for (const family of Object.values(registryFamilies)) {
        if (userFamilies.includes(family)) continue;
        // The user keeps the highest number of its deleted agents, so that no number is used again.
        const left = [...store.range(family, {})].filter(
          ({ key }) => !(family === registryFamilies.counts && key[0] === countKinds.fenceOfDeleted),
        );
        expect([family, ...left]).toEqual([family]);
      }
      expect([...store.range('kernel/timers', {})]).toEqual([]);
    }
    expect(await registry.countAgents(alice)).toBe(0);
  });

  it('read after a write show that write', async () => {
    const { registry } = await open(options);
    const { agent_id } = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
    const read = () => registry.getAgent(alice, agent_id);
    expect((await read()).status).toBe('provisioning');
    await registry.start(alice, agent_id);
    expect((await read()).status).toBe('running');
    await registry.updateAgent(alice, agent_id, { labels: { team: 'blue' } });
    expect((await read()).labels).toEqual({ team: 'blue' });
    const { session_id } = await registry.openSession(alice, agent_id);
    expect((await read()).active_sessions).toBe(1);
    await registry.closeSession(alice, session_id);
    expect((await read()).active_sessions).toBe(0);
    await registry.heartbeat(alice, agent_id, { holder: 'node-1' });
    expect((await read()).lease?.holder).toBe('node-1');
    await registry.releaseLease(alice, agent_id);
    expect((await read()).lease).toBeNull();
    await expect(registry.getAgent(userCaller('mallory'), agent_id)).rejects.toMatchObject({
      code: 'not_found',
    });
    for (const verb of ['stop', 'stop'] as const) await registry[verb](alice, agent_id);
    await registry.deleteAgent(alice, agent_id);
    await expect(read()).rejects.toMatchObject({ code: 'not_found' });
  });

  it('are copies: a reader cannot change what the next reader sees', async () => {
    const { registry } = await open(options);
    const { agent_id } = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
    for (let reads = 0; reads < 2; reads += 1) {
      const agent = await registry.getAgent(alice, agent_id);
      expect(agent).toMatchObject({ labels: { team: 'red' }, spec: { memory_mb: 512 } });
      agent.labels['team'] = 'spoilt';
      agent.spec.memory_mb = 0;
    }
  });

  it('with concurrent changes of state: one succeeds, and the index has one entry', async () => {
    const { registry } = await open(options);
    const { agent_id, version } = await agentIn('running');
    const attempts = ['idle', 'hibernating', 'stopping', 'error'] as const;
    const outcomes = await Promise.allSettled(
      attempts.map((status) => registry.updateAgentStatus(alice, agent_id, status, { ifVersion: version })),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'version_conflict' });
    const unversioned = await Promise.allSettled(
      Array.from({ length: 8 }, () => registry.updateAgentStatus(alice, agent_id, 'running')),
    );
    expect(unversioned.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(statusEntries()).toHaveLength(1);
    expect(statusEntries()[0]?.slice(0, 2)).toBe('02');
  });

  it('stay within the quota under fifty creations at once', async () => {
    const { registry } = await open(options);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, (_, index) => registry.createAgent(alice, { name: `a${index}` })),
    );
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        expect(outcome.reason).toMatchObject({ code: 'quota_exceeded', status: 409 });
    expect(await registry.countAgents(alice)).toBe(10);
    await expect(registry.putAgent(alice, { agent_id: missing, name: 'one more' })).rejects.toMatchObject({
      code: 'quota_exceeded',
    });
    await registry.putUser(operator, 'alice', { agents_max: 11 });
    await registry.putAgent(alice, { agent_id: missing, name: 'one more' });
    expect((await registry.getUser(operator, 'alice')).agents).toBe(11);
  });

  it('are made once under one Idempotency-Key, however often it is sent', async () => {
    const { registry } = await open(options);
    const idempotency = { scope: 'alice', key: 'k', fingerprint: 'f', seconds: 60 };
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => registry.createAgent(alice, { name: 'scout' }, idempotency)),
    );
    expect(new Set(answers.map(({ agent_id }) => agent_id)).size).toBe(1);
    expect(await registry.countAgents(alice)).toBe(1);
    await expect(
      registry.createAgent(alice, { name: 'other' }, { ...idempotency, fingerprint: 'g' }),
    ).rejects.toMatchObject({ code: 'idempotency_mismatch' });
  });
});

describe('the table of states', () => {
  const allowed: Record<AgentState, AgentState[]> = {
    provisioning: ['running', 'error'],
    running: ['idle', 'hibernating', 'stopping', 'error'],
    idle: ['running', 'hibernating', 'stopping', 'error'],
    hibernating: ['running', 'provisioning', 'stopping', 'error'],
    stopping: ['stopped', 'error'],
    stopped: ['provisioning'],
    error: ['stopped', 'provisioning'],
  };
  const pairs = agentStates.flatMap((from) => agentStates.map((to) => ({ from, to })));

  it.each(pairs)('from $from to $to', async ({ from, to }) => {
    const { registry } = await open();
    const before = await agentIn(from);
    opened.clock.nowMs += 1_000;
    const attempt = registry.updateAgentStatus(alice, before.agent_id, to);
    if (!allowed[from].includes(to)) {
      await expect(attempt).rejects.toMatchObject({
        code: 'invalid_transition',
        status: 409,
        details: { from, to },
      });
      expect(await registry.getAgent(alice, before.agent_id)).toEqual(before);
      return;
    }
    expect(await attempt).toMatchObject({
      status: to,
      version: before.version + 1,
      updated_at: opened.clock.nowMs,
    });
    expect(statusEntries()).toEqual([`0${agentStateBytes[to]}${before.user_id}${before.agent_id}`]);
    expect(opened.changes().at(-1)).toMatchObject({ kind: 'agent.transitioned', facts: { from, to } });
  });

  it('is followed by the verbs', async () => {
    const { registry } = await open();
    const walk: [AgentState, 'start' | 'stop' | 'restart' | 'hibernate' | 'wake', AgentState | null][] = [
      ['provisioning', 'start', 'running'],
      ['provisioning', 'stop', null],
      ['provisioning', 'restart', null],
      ['running', 'start', null],
      ['running', 'stop', 'stopping'],
      ['running', 'restart', 'provisioning'],
      ['running', 'hibernate', 'hibernating'],
      ['idle', 'wake', 'running'],
      ['hibernating', 'wake', 'provisioning'],
      ['hibernating', 'hibernate', null],
      ['stopping', 'stop', 'stopped'],
      ['stopped', 'start', 'provisioning'],
      ['stopped', 'stop', null],
      ['stopped', 'wake', 'provisioning'],
      ['error', 'stop', 'stopped'],
      ['error', 'restart', 'provisioning'],
    ];
    await registry.putUser(operator, 'alice', { agents_max: 100 });
    for (const [from, verb, to] of walk) {
      const { agent_id } = await agentIn(from);
      if (to === null)
        await expect(registry[verb](alice, agent_id)).rejects.toMatchObject({ code: 'invalid_transition' });
      else expect((await registry[verb](alice, agent_id)).status).toBe(to);
    }
  });

  it('restarts through every step, in one commit', async () => {
    const { registry, kernel } = await open();
    const { agent_id, version } = await agentIn('running');
    expect((await registry.restart(alice, agent_id)).version).toBe(version + 3);
    expect(
      kernel.feed
        .read()
        .commits.at(-1)
        ?.changes.map(({ facts }) => facts?.['to']),
    ).toEqual(['stopping', 'stopped', 'provisioning']);
  });
});

describe('a change of an agent', () => {
  it('raises the version once, replaces labels, and announces nothing if nothing changed', async () => {
    const { registry } = await open();
    const { agent_id } = await registry.createAgent(alice, { name: 'scout', labels: { a: '1' } });
    opened.clock.nowMs += 5;
    const changed = await registry.updateAgent(
      alice,
      agent_id,
      { name: 'ranger', labels: { b: '2' }, spec: { memory_mb: 1024 } },
      { ifVersion: 1 },
    );
    expect(changed).toMatchObject({
      name: 'ranger',
      labels: { b: '2' },
      spec: { cpu_millicores: 500, memory_mb: 1024 },
      version: 2,
      updated_at: startMs + 5,
    });
    const announced = opened.changes().length;
    expect(await registry.updateAgent(alice, agent_id, { name: 'ranger' })).toEqual(changed);
    expect(opened.changes()).toHaveLength(announced);
    await expect(
      registry.updateAgent(alice, agent_id, { name: 'x' }, { ifVersion: 1 }),
    ).rejects.toMatchObject({ code: 'version_conflict', status: 412 });
    expect((await registry.listAgents(alice, { label: 'a' })).items).toEqual([]);
    expect((await registry.listAgents(alice, { name: 'scout' })).items).toEqual([]);
    expect(
      (await registry.listAgents(alice, { label: 'b=2', name: 'ranger', status: 'provisioning' })).items,
    ).toEqual([changed]);
  });

  it('never has an older time than the one before, also after the clock was set back', async () => {
    const { registry } = await open();
    const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
    opened.clock.nowMs -= 60_000;
    expect(await registry.updateAgent(alice, agent_id, { name: 'ranger' })).toMatchObject({
      version: 2,
      updated_at: startMs,
    });
  });

  it('keeps an error message only while the agent is in error', async () => {
    const { registry } = await open();
    const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
    await expect(registry.updateAgent(alice, agent_id, { error_message: 'no' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
    expect(
      (await registry.updateAgent(alice, agent_id, { status: 'error', error_message: 'out of memory' }))
        .error_message,
    ).toBe('out of memory');
    expect((await registry.start(alice, agent_id)).error_message).toBeNull();
  });

  it('put respects the table and the version, and creates a missing agent', async () => {
    const { registry } = await open();
    await expect(
      registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'running' }),
    ).rejects.toMatchObject({ code: 'invalid_transition' });
    await expect(
      registry.putAgent(alice, { agent_id: missing, name: 'scout' }, { ifVersion: 3 }),
    ).rejects.toMatchObject({ code: 'not_found' });
    const made = await registry.putAgent(alice, { agent_id: missing, name: 'scout' }, { ifVersion: 0 });
    expect(made).toMatchObject({ version: 1, status: 'provisioning' });
    await expect(
      registry.putAgent(alice, { agent_id: missing, name: 'scout' }, { ifVersion: 0 }),
    ).rejects.toMatchObject({ code: 'version_conflict' });
    await expect(
      registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'idle' }),
    ).rejects.toMatchObject({ code: 'invalid_transition' });
    expect(
      await registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'running' }),
    ).toMatchObject({ version: 2, status: 'running' });
    expect(
      await registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'running' }),
    ).toMatchObject({ version: 2 });
  });
});

describe('input', () => {
  it('is refused with the field named', async () => {
    const { registry } = await open();
    const bad: unknown[] = [
      {},
      { name: '' },
      { name: 'x'.repeat(101) },
      { name: 'a\nb' },
      { name: 'a\ud800' },
      { name: 'a', surplus: 1 },
      { name: 'a', spec: { cpu_millicores: -1 } },
      { name: 'a', spec: { memory_mb: 2 ** 32 } },
      { name: 'a', spec: { runtime_version: '' } },
      { name: 'a', labels: { 'x=y': '1' } },
      { name: 'a', labels: { '': '1' } },
      { name: 'a', labels: { x: 1 } },
      { name: 'a', labels: Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`l${index}`, ''])) },
      null,
    ];
    for (const input of bad)
      await expect(registry.createAgent(alice, input as { name: string })).rejects.toMatchObject({
        code: 'invalid_request',
      });
    await expect(
      registry.createAgent(alice, { name: 'a', surplus: 1 } as { name: string }),
    ).rejects.toMatchObject({ details: { errors: [{ field: 'surplus' }] } });
    expect((await registry.createAgent(alice, { name: '🦉'.repeat(100) })).name).toBe('🦉'.repeat(100));
    await expect(registry.getAgent(alice, 'abc')).rejects.toMatchObject({ code: 'invalid_id_length' });
    await expect(registry.getAgent(alice, 'z'.repeat(64))).rejects.toMatchObject({
      code: 'invalid_id_digits',
    });
  });

  it('is refused from a caller that can only read', async () => {
    const { registry } = await open();
    const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
    const reader = userCaller('alice', { scopes: { write: false, namespaces: null } });
    expect((await registry.getAgent(reader, agent_id)).name).toBe('scout');
    for (const attempt of [
      () => registry.createAgent(reader, { name: 'x' }),
      () => registry.updateAgent(reader, agent_id, { name: 'x' }),
      () => registry.start(reader, agent_id),
      () => registry.heartbeat(reader, agent_id),
      () => registry.openSession(reader, agent_id),
      () => registry.putUser(reader, 'alice', { email: 'a@b' }),
      () => registry.deleteAgent(reader, agent_id),
    ]) {
      await expect(attempt()).rejects.toMatchObject({ code: 'forbidden' });
    }
  });

  it('of a signed agent reaches only its own record', async () => {
    const { registry } = await open();
    const own = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
    const other = await registry.createAgent(alice, { name: 'ranger' });
    const signed = userCaller('alice', { kind: 'agent', agentId: own.agent_id, identity: 'identity-1' });
    expect((await registry.listAgents(signed)).items).toEqual([own]);
    expect((await registry.listAgents(signed, { label: 'team=blue' })).items).toEqual([]);
    expect((await registry.heartbeat(signed, own.agent_id)).lease).toMatchObject({
      holder: 'identity-1',
      fence: 1,
    });
    await expect(registry.getAgent(signed, other.agent_id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(registry.createAgent(signed, { name: 'x' })).rejects.toMatchObject({ code: 'forbidden' });
  });
});
