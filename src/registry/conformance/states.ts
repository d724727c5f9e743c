/** The table of states, changes of an agent, and what is refused at the door. */
import { type AgentState, agentStates } from '../model.js';
import { isoTime } from '../../core/text/iso-time.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import {
  listedByStatus,
  OneBench,
  type RegistryTarget,
  agentIn,
  alice,
  changesOf,
  missing,
  operator,
  startMs,
  userCaller,
} from './bench.js';

const allowed: Record<AgentState, AgentState[]> = {
  provisioning: ['running', 'error'],
  running: ['idle', 'hibernating', 'stopping', 'error'],
  idle: ['running', 'hibernating', 'stopping', 'error'],
  hibernating: ['running', 'provisioning', 'stopping', 'error'],
  stopping: ['stopped', 'error'],
  stopped: ['provisioning'],
  error: ['stopped', 'provisioning'],
};

export function stateTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;
  const refused = refusals(expect);

  describe(`the table of states on ${name}`, () => {
    const bench = new OneBench(runner, open);

    for (const from of agentStates)
      it(`an agent that is ${from} can only become ${allowed[from].join(', ')}`, async () => {
        const opened = await bench.open();
        const { registry } = opened;
        for (const to of agentStates) {
          const before = await agentIn(opened, from);
          opened.clock.nowMs += 1_000;
          const attempt = registry.updateAgentStatus(alice, before.agent_id, to);
          if (!allowed[from].includes(to)) {
            await refused(attempt, 'invalid_transition', { status: 409, details: { from, to } });
            expect(await registry.getAgent(alice, before.agent_id)).toEqual(before);
            continue;
          }
          expect(await attempt).toMatchObject({
            status: to,
            version: before.version + 1,
            updated_at: isoTime(opened.clock.nowMs),
          });
          const listed = await listedByStatus(opened);
          expect(listed.filter(([, id]) => id === before.agent_id)).toEqual([[to, before.agent_id]]);
          expect((await changesOf(opened)).at(-1)).toMatchObject({
            kind: 'agent.transitioned',
            facts: { from, to },
          });
        }
      });

    it('is followed by the verbs start, stop, restart, hibernate and wake', async () => {
      const opened = await bench.open();
      const { registry } = opened;
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
        const { agent_id } = await agentIn(opened, from);
        if (to === null) await refused(registry[verb](alice, agent_id), 'invalid_transition');
        else expect((await registry[verb](alice, agent_id)).status).toBe(to);
      }
    });

    it('lets restart pass through every state in one commit', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id, version } = await agentIn(opened, 'running');
      expect((await registry.restart(alice, agent_id)).version).toBe(version + 3);
      expect((await opened.commits()).at(-1)?.map(({ facts }) => facts?.['to'])).toEqual([
        'stopping',
        'stopped',
        'provisioning',
      ]);
    });
  });

  describe(`a change of an agent on ${name}`, () => {
    const bench = new OneBench(runner, open);

    it('increases the version once, replaces labels, and is not announced if nothing changed', async () => {
      const opened = await bench.open();
      const { registry } = opened;
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
        updated_at: isoTime(startMs + 5),
      });
      const announced = (await changesOf(opened)).length;
      expect(await registry.updateAgent(alice, agent_id, { name: 'ranger' })).toEqual(changed);
      expect(await changesOf(opened)).toHaveLength(announced);
      await refused(
        registry.updateAgent(alice, agent_id, { name: 'x' }, { ifVersion: 1 }),
        'version_conflict',
        { status: 412 },
      );
      expect((await registry.listAgents(alice, { label: 'a' })).items).toEqual([]);
      expect((await registry.listAgents(alice, { name: 'scout' })).items).toEqual([]);
      expect(
        (await registry.listAgents(alice, { label: 'b=2', name: 'ranger', status: 'provisioning' })).items,
      ).toEqual([changed]);
    });

    it('never has an earlier time than the change before, also after the clock was set back', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
      opened.clock.nowMs -= 60_000;
      expect(await registry.updateAgent(alice, agent_id, { name: 'ranger' })).toMatchObject({
        version: 2,
        updated_at: isoTime(startMs),
      });
    });

    it('keeps an error message only while the agent is in error', async () => {
      const { registry } = await bench.open();
      const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
      await refused(registry.updateAgent(alice, agent_id, { error_message: 'no' }), 'invalid_request');
      expect(
        (await registry.updateAgent(alice, agent_id, { status: 'error', error_message: 'out of memory' }))
          .error_message,
      ).toBe('out of memory');
      expect((await registry.start(alice, agent_id)).error_message).toBeNull();
      for (const error_message of ['a\0b', 'a\ud800b'])
        await refused(
          registry.updateAgent(alice, agent_id, { status: 'error', error_message }),
          'invalid_request',
        );
      const lines = 'first line\n\tsecond line';
      expect(
        (await registry.updateAgent(alice, agent_id, { status: 'error', error_message: lines }))
          .error_message,
      ).toBe(lines);
    });

    it('by PUT follows the table and the version, and creates a missing agent', async () => {
      const { registry } = await bench.open();
      await refused(
        registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'running' }),
        'invalid_transition',
      );
      await refused(
        registry.putAgent(alice, { agent_id: missing, name: 'scout' }, { ifVersion: 3 }),
        'not_found',
      );
      const made = await registry.putAgent(alice, { agent_id: missing, name: 'scout' }, { ifVersion: 0 });
      expect(made).toMatchObject({ version: 1, status: 'provisioning' });
      await refused(
        registry.putAgent(alice, { agent_id: missing, name: 'scout' }, { ifVersion: 0 }),
        'version_conflict',
      );
      await refused(
        registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'idle' }),
        'invalid_transition',
      );
      expect(
        await registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'running' }),
      ).toMatchObject({ version: 2, status: 'running' });
      expect(
        await registry.putAgent(alice, { agent_id: missing, name: 'scout', status: 'running' }),
      ).toMatchObject({ version: 2 });
    });
  });

  describe(`input of the registry on ${name}`, () => {
    const bench = new OneBench(runner, open);

    it('is refused with the name of the field', async () => {
      const { registry } = await bench.open();
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
        {
          name: 'a',
          labels: Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`l${index}`, ''])),
        },
        null,
      ];
      for (const input of bad)
        await refused(registry.createAgent(alice, input as { name: string }), 'invalid_request');
      await expect(
        registry.createAgent(alice, { name: 'a', surplus: 1 } as { name: string }),
      ).rejects.toMatchObject({ details: { errors: [{ field: 'surplus' }] } });
      expect((await registry.createAgent(alice, { name: '🦉'.repeat(100) })).name).toBe('🦉'.repeat(100));
      for (const unknown of ['abc', 'z'.repeat(64), 'f'.repeat(64)])
        await refused(registry.getAgent(alice, unknown), 'not_found');
    });

    it('is refused from a caller that can only read', async () => {
      const { registry } = await bench.open();
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
        await refused(attempt(), 'forbidden');
      }
    });

    it('of a signed agent can change only its own record', async () => {
      const { registry } = await bench.open();
      const own = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
      const other = await registry.createAgent(alice, { name: 'ranger' });
      const signed = userCaller('alice', { kind: 'agent', agentId: own.agent_id, identity: 'identity-1' });
      expect((await registry.listAgents(signed)).items).toEqual([own]);
      expect((await registry.listAgents(signed, { label: 'team=blue' })).items).toEqual([]);
      expect((await registry.heartbeat(signed, own.agent_id)).lease).toMatchObject({
        holder: 'identity-1',
        fence: 1,
      });
      await refused(registry.getAgent(signed, other.agent_id), 'not_found');
      await refused(registry.createAgent(signed, { name: 'x' }), 'forbidden');
    });
  });
}
