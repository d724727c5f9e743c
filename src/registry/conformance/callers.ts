/** Agents that their first write makes, their presence, their quota, and how they are forgotten. */
import type { Caller } from '../../core/caller.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import { writeOne } from '../../core/write.js';
import {
  OneBench,
  type RegistryBench,
  type RegistryTarget,
  alice,
  bob,
  changesOf,
  userCaller,
} from './bench.js';

const daySeconds = 86_400;
const scout = userCaller('alice', { agent: 'scout' });

/** A write of the caller that has nothing to do with agents. */
async function write({ registry }: RegistryBench, caller: Caller): Promise<void> {
  await registry.putUser(caller, caller.user, { email: `${caller.agent ?? 'nobody'}@example.org` });
}

function named(agent: string): Caller {
  return userCaller('alice', { agent });
}

export function callerTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;

  describe(`agents that write on ${name}`, () => {
    const refused = refusals(expect);
    const bench = new OneBench(runner, open);

    it('are made by their first write, as running and present, in the same commit', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      const agent = await registry.getAgent(alice, 'scout');
      expect(agent).toMatchObject({ name: 'scout', status: 'running', presence: 'live', version: 1 });
      expect(agent.lease).toMatchObject({ holder: 'scout', fence: 1 });
      const commit = (await opened.commits()).find((changes) =>
        changes.some(({ kind }) => kind === 'agent.created'),
      );
      expect(commit?.map(({ kind }) => kind)).toContain('user.updated');
      expect(commit?.every((change) => change.agent === 'scout')).toBe(true);
      expect(await opened.findings()).toEqual([]);
    });

    it('are not made by a read, by a caller without an agent, or by a refused write', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await registry.listAgents(scout);
      await registry.recordAgentCall(scout);
      await write(opened, alice);
      await refused(registry.start(scout, 'ghost'), 'not_found');
      await refused(
        writeOne(
          opened.writer,
          { caller: scout },
          registry.port.requireAgentVersion('alice', 'f'.repeat(64), 9),
        ),
        'version_conflict',
      );
      expect((await registry.listAgents(alice)).items).toEqual([]);
      expect(await opened.findings()).toEqual([]);
    });

    it('are one agent, also when many first writes come at once', async () => {
      const opened = await bench.open();
      await Promise.all(Array.from({ length: 20 }, () => write(opened, scout)));
      const { items } = await opened.registry.listAgents(alice);
      expect(items.map((agent) => agent.name)).toEqual(['scout']);
      const created = (await changesOf(opened)).filter(({ kind }) => kind === 'agent.created');
      expect(created).toHaveLength(1);
      expect(await opened.findings()).toEqual([]);
    });

    it('are the same agent for one user only', async () => {
      const opened = await bench.open();
      await write(opened, scout);
      await write(opened, userCaller('bob', { agent: 'scout' }));
      const mine = await opened.registry.getAgent(alice, 'scout');
      const other = await opened.registry.getAgent(bob, 'scout');
      expect(mine.agent_id).not.toBe(other.agent_id);
      await refused(opened.registry.getAgent(bob, mine.agent_id), 'not_found');
    });

    it('can register themselves with their first write', async () => {
      const opened = await bench.open();
      const made = await opened.registry.createAgent(scout, { name: 'scout', labels: { team: 'red' } });
      const found = await opened.registry.getAgent(alice, 'scout');
      expect(found).toMatchObject({ agent_id: made.agent_id, labels: { team: 'red' }, presence: 'live' });
      expect((await opened.registry.listAgents(alice)).items).toHaveLength(1);
    });

    it('keep their names to themselves: a second agent of a user cannot have one', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      const { agent_id } = await registry.getAgent(alice, 'scout');
      await refused(registry.createAgent(alice, { name: 'scout' }), 'already_exists', {
        details: { agent_id },
      });
      const ranger = await registry.createAgent(alice, { name: 'ranger' });
      await refused(registry.updateAgent(alice, 'ranger', { name: 'scout' }), 'already_exists');
      await refused(registry.putAgent(alice, { agent_id: 'a'.repeat(64), name: 'scout' }), 'already_exists');
      const raced = await Promise.allSettled([
        registry.createAgent(alice, { name: 'twin' }),
        registry.createAgent(alice, { name: 'twin' }),
        registry.updateAgent(alice, ranger.agent_id, { name: 'twin' }),
      ]);
      expect(raced.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect(await opened.findings()).toEqual([]);
    });

    it('cannot have a name in the form of an id', async () => {
      const opened = await bench.open();
      for (const form of ['a'.repeat(64), 'A'.repeat(64), '0190cafe-0000-7000-8000-000000000000']) {
        await refused(opened.registry.createAgent(alice, { name: form }), 'invalid_request');
        await refused(write(opened, named(form)), 'invalid_request');
      }
      expect((await opened.registry.listAgents(alice)).items).toEqual([]);
    });

    it('are found by name or id, and an unknown name is refused with a similar one', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      const { agent_id } = await registry.getAgent(alice, 'scout');
      expect((await registry.getAgent(alice, agent_id.toUpperCase())).name).toBe('scout');
      expect((await registry.heartbeat(alice, 'scout', { holder: 'host' })).lease.holder).toBe('host');
      const session = await registry.openSession(alice, 'scout');
      expect((await registry.listSessions(alice, 'scout')).items).toHaveLength(1);
      await registry.closeSession(alice, session.session_id, 'scout');
      for (const attempt of [
        () => registry.getAgent(alice, 'scuot'),
        () => registry.heartbeat(alice, 'scuot'),
        () => registry.stop(alice, 'scuot'),
        () => registry.openSession(alice, 'scuot'),
        () => registry.forgetAgent(alice, 'scuot'),
      ])
        await refused(attempt(), 'not_found', { message: 'Unknown agent "scuot". Did you mean "scout"?' });
      await expect(registry.getAgent(bob, 'scuot')).rejects.toMatchObject({
        message: 'Unknown agent "scuot".',
      });
    });

    it('stay present through their calls, and are lost without them', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      for (let minute = 0; minute < 60; minute += 10) {
        await opened.pass(600);
        expect((await registry.getAgent(alice, 'scout')).presence).toBe('live');
        if (minute % 20 === 0) await write(opened, scout);
        else await registry.recordAgentCall(scout);
      }
      expect(opened.lost).toEqual([]);
      const { version, agent_id } = await registry.getAgent(alice, 'scout');
      await opened.pass(900 + 31);
      expect(await registry.getAgent(alice, 'scout')).toMatchObject({ presence: 'lost', lease: null });
      expect(opened.lost).toEqual([agent_id]);
      await write(opened, scout);
      const back = await registry.getAgent(alice, 'scout');
      expect(back).toMatchObject({ agent_id, status: 'running', presence: 'live', lease: { fence: 2 } });
      expect(back.version).toBeGreaterThanOrEqual(version);
      expect(await opened.findings()).toEqual([]);
    });

    it('wake from idleness by a call, and stay stopped when they were stopped', async () => {
      const opened = await bench.open({ idleAfterSeconds: 300, hibernateAfterSeconds: 1_800 });
      const { registry } = opened;
      await write(opened, scout);
      await opened.pass(301);
      expect((await registry.getAgent(alice, 'scout')).status).toBe('idle');
      await write(opened, scout);
      expect((await registry.getAgent(alice, 'scout')).status).toBe('running');
      await registry.stop(alice, 'scout');
      await registry.stop(alice, 'scout');
      await opened.pass(60);
      await write(opened, scout);
      expect((await registry.getAgent(alice, 'scout')).status).toBe('stopped');
      expect(await opened.findings()).toEqual([]);
    });

    it('keep their lease when a heartbeat names no holder, also under another name', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      const own = { holder: 'scout', fence: 1 };
      expect((await registry.heartbeat(alice, 'scout')).lease).toMatchObject(own);
      expect((await registry.heartbeat({ ...alice, agent: 'scout' }, 'scout')).lease).toMatchObject(own);
      await registry.updateAgent(alice, 'scout', { name: 'ranger' });
      expect((await registry.getAgent(alice, 'ranger')).lease).toMatchObject({ holder: 'ranger', fence: 1 });
      expect((await registry.heartbeat(alice, 'ranger')).lease).toMatchObject({ holder: 'ranger', fence: 1 });
    });

    it('are present no shorter after a heartbeat than before it', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      const before = (await registry.getAgent(alice, 'scout')).lease;
      for (const caller of [alice, scout]) {
        await opened.pass(1);
        expect((await registry.heartbeat(caller, 'scout')).lease).toEqual(before);
      }
      await opened.pass(880);
      expect(await registry.getAgent(alice, 'scout')).toMatchObject({ presence: 'live', lease: before });
      // A heartbeat near the end moves it.
      expect((await registry.heartbeat(scout, 'scout')).lease.expires_at > (before?.expires_at ?? '')).toBe(
        true,
      );
      expect(await opened.findings()).toEqual([]);
    });

    it('give their lease to a holder that sends heartbeats, and then live by these', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      const { lease } = await registry.heartbeat(alice, 'scout', { holder: 'host-1' });
      expect(lease).toMatchObject({ holder: 'host-1', fence: 2 });
      await refused(registry.heartbeat(alice, 'scout', { holder: 'host-2' }), 'conflict');
      await opened.pass(50);
      await write(opened, scout);
      await opened.pass(50);
      expect((await registry.getAgent(alice, 'scout')).lease).toMatchObject({ holder: 'host-1', fence: 2 });
      await opened.pass(91);
      expect((await registry.getAgent(alice, 'scout')).presence).toBe('lost');
      expect(await opened.findings()).toEqual([]);
    });

    it('over the quota are refused with the write that would make them; lost ones do not count', async () => {
      const opened = await bench.open({ agentsPerUserMax: 2 });
      const { registry } = opened;
      await write(opened, named('one'));
      await write(opened, named('two'));
      await refused(write(opened, named('three')), 'quota_exceeded');
      await refused(registry.createAgent(alice, { name: 'three' }), 'quota_exceeded');
      expect((await registry.getUser(alice, 'alice')).email).toBe('two@example.org');
      await registry.stop(alice, 'one');
      await registry.stop(alice, 'one');
      await opened.pass(931);
      // `two` is lost and does not count. `one` is stopped and does.
      await write(opened, named('three'));
      await refused(write(opened, named('four')), 'quota_exceeded');
      // A lost agent that comes back is not a new one.
      await write(opened, named('two'));
      expect(await registry.countAgents(alice)).toBe(3);
      expect(await opened.findings()).toEqual([]);
    });

    it('that are lost are limited too', async () => {
      const opened = await bench.open({ agentsPerUserMax: 1, agentsLostMax: 1 });
      for (const agent of ['one', 'two']) {
        await write(opened, named(agent));
        await opened.pass(931);
      }
      await refused(write(opened, named('three')), 'quota_exceeded', { details: { lost: 2, lost_max: 1 } });
    });

    it('that are lost are forgotten after a time, unless they hold something or come back', async () => {
      const opened = await bench.open({ agentLostDays: 30 });
      const { registry } = opened;
      for (const agent of ['gone', 'busy', 'stopped', 'back']) await write(opened, named(agent));
      await registry.openSession(alice, 'busy');
      for (let step = 0; step < 2; step += 1) await registry.stop(alice, 'stopped');
      await opened.pass(931);
      await opened.pass(20 * daySeconds);
      await write(opened, named('back'));
      await opened.pass(11 * daySeconds);
      const names = async (): Promise<string[]> =>
        (await registry.listAgents(alice)).items.map((agent) => agent.name).toSorted();
      expect(await names()).toEqual(['back', 'busy', 'stopped']);
      expect((await changesOf(opened)).map(({ kind }) => kind)).toContain('agent.deleted');
      await opened.pass(31 * daySeconds);
      expect(await names()).toEqual(['busy', 'stopped']);
      expect(await opened.findings()).toEqual([]);
    });

    it('are forgotten by hand in any status, but not while they are present', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      await write(opened, scout);
      await refused(registry.forgetAgent(alice, 'scout'), 'conflict');
      await refused(registry.deleteAgent(alice, 'scout'), 'conflict');
      await registry.releaseLease(alice, 'scout');
      await refused(registry.forgetAgent(bob, 'scout'), 'not_found');
      await registry.forgetAgent(alice, 'scout');
      await refused(registry.getAgent(alice, 'scout'), 'not_found');
      // Its name is free at once.
      await write(opened, scout);
      expect((await registry.getAgent(alice, 'scout')).presence).toBe('live');
      expect(await opened.findings()).toEqual([]);
    });
  });
}
