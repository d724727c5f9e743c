/** Agents: made, read, changed, deleted; one of several racers wins. */
import { userKey } from '../../identity/user-key.js';
import { isoTime } from '../../core/text/iso-time.js';
import { agentStates } from '../model.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import {
  listedByStatus,
  OneBench,
  type RegistryTarget,
  agentIn,
  alice,
  bob,
  changesOf,
  linkIdentity,
  missing,
  operator,
  startMs,
  userCaller,
} from './bench.js';

export function agentTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`agents on ${name}`, () => {
    const refused = refusals(expect);
    const bench = new OneBench(runner, open);

    it('are created with the defaults and read back', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const agent = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
      expect(agent).toMatchObject({
        user: 'alice',
        user_id: userKey('alice').toString('hex'),
        name: 'scout',
        status: 'provisioning',
        spec: { cpu_millicores: 500, memory_mb: 512, runtime_version: 'latest' },
        labels: { team: 'red' },
        error_message: null,
        created_at: isoTime(startMs),
        updated_at: isoTime(startMs),
        last_heartbeat_at: null,
        version: 1,
        presence: 'none',
        lease: null,
        active_sessions: 0,
      });
      expect(await registry.getAgent(alice, agent.agent_id.toUpperCase())).toEqual(agent);
      expect(await registry.getAgent(operator, agent.agent_id)).toEqual(agent);
      expect(await registry.countAgents(alice)).toBe(1);
      expect((await changesOf(opened)).map(({ kind, user }) => [kind, user])).toEqual([
        ['user.created', 'alice'],
        ['agent.created', 'alice'],
      ]);
    });

    it('of another user are not found, for reads and for writes', async () => {
      const { registry } = await bench.open();
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

    it("are not reached by the hash of their owner's id, which is a second spelling of it", async () => {
      const { registry } = await bench.open();
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

    it('are deleted with sessions, lease, links and index entries, and only if stopped or in error', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      for (const status of agentStates) {
        const { agent_id } = await agentIn(opened, status);
        if (status === 'stopped' || status === 'error') continue;
        await refused(registry.deleteAgent(alice, agent_id), 'conflict', { details: { status } });
        if (status === 'provisioning') {
          await registry.updateAgentStatus(alice, agent_id, 'running');
          await registry.openSession(alice, agent_id);
          const closed = await registry.openSession(alice, agent_id);
          await registry.closeSession(alice, closed.session_id);
          await registry.heartbeat(alice, agent_id);
          await linkIdentity(opened, alice, agent_id, 'identity-1');
          await registry.updateAgent(alice, agent_id, { labels: { team: 'red' } });
        }
      }
      for (const agent of (await registry.listAgents(alice)).items) {
        if (agent.status !== 'stopped' && agent.status !== 'error')
          await registry.updateAgentStatus(alice, agent.agent_id, 'error');
        await registry.deleteAgent(alice, agent.agent_id);
      }
      expect(await opened.agentRows()).toEqual([]);
      expect(await opened.findings()).toEqual([]);
      expect(await registry.countAgents(alice)).toBe(0);
    });

    it('show the last write when they are read again', async () => {
      const { registry } = await bench.open();
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
      await refused(registry.getAgent(userCaller('mallory'), agent_id), 'not_found');
      for (const verb of ['stop', 'stop'] as const) await registry[verb](alice, agent_id);
      await registry.deleteAgent(alice, agent_id);
      await refused(read(), 'not_found');
    });

    it('are returned as copies: a change by one reader is not visible to the next', async () => {
      const { registry } = await bench.open();
      const { agent_id } = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
      for (let reads = 0; reads < 2; reads += 1) {
        const agent = await registry.getAgent(alice, agent_id);
        expect(agent).toMatchObject({ labels: { team: 'red' }, spec: { memory_mb: 512 } });
        agent.labels['team'] = 'spoilt';
        agent.spec.memory_mb = 0;
      }
    });

    it('that change state concurrently: one change succeeds, and the index has one entry', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id, version } = await agentIn(opened, 'running');
      const attempts = ['idle', 'hibernating', 'idle', 'hibernating'] as const;
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
      expect(await listedByStatus(opened)).toEqual([['running', agent_id]]);
    });

    it('stay within the quota during fifty concurrent creations', async () => {
      const { registry } = await bench.open();
      const outcomes = await Promise.allSettled(
        Array.from({ length: 50 }, (_, index) => registry.createAgent(alice, { name: `a${index}` })),
      );
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
      for (const outcome of outcomes)
        if (outcome.status === 'rejected')
          expect(outcome.reason).toMatchObject({ code: 'quota_exceeded', status: 409 });
      expect(await registry.countAgents(alice)).toBe(10);
      await refused(registry.putAgent(alice, { agent_id: missing, name: 'one more' }), 'quota_exceeded');
      await registry.putUser(operator, 'alice', { agents_max: 11 });
      await registry.putAgent(alice, { agent_id: missing, name: 'one more' });
      expect((await registry.getUser(operator, 'alice')).agents).toBe(11);
    });

    it('are created once for an Idempotency-Key, however often it is sent', async () => {
      const { registry } = await bench.open();
      const idempotency = { scope: 'alice', key: 'k', fingerprint: 'f', seconds: 60 };
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => registry.createAgent(alice, { name: 'scout' }, idempotency)),
      );
      expect(new Set(answers.map(({ agent_id }) => agent_id)).size).toBe(1);
      expect(await registry.countAgents(alice)).toBe(1);
      await refused(
        registry.createAgent(alice, { name: 'other' }, { ...idempotency, fingerprint: 'g' }),
        'idempotency_mismatch',
      );
    });
  });
}
