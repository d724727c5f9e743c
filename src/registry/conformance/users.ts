/** Users, and the identities that speak for their agents. */
import { userKey } from '../../identity/user-key.js';
import { isoTime } from '../../core/text/iso-time.js';
import { type TestRunner, refusals } from '../../core/test-runner.js';
import {
  OneBench,
  type RegistryTarget,
  alice,
  bob,
  linkIdentity,
  operator,
  unlinkIdentity,
  userCaller,
} from './bench.js';

export function userTests(runner: TestRunner, { name, open }: RegistryTarget): void {
  const { describe, it, expect } = runner;
  const refused = refusals(expect);

  describe(`users on ${name}`, () => {
    const bench = new OneBench(runner, open);

    it('have one spelling: upper-case hex and UUIDs become lower case, invalid ids are refused', async () => {
      const { registry } = await bench.open();
      const id = 'AB'.repeat(32);
      const { agent_id, user } = await registry.createAgent(userCaller(id), { name: 'scout' });
      expect(user).toBe(id.toLowerCase());
      expect((await registry.getAgent(userCaller(id.toLowerCase()), agent_id)).user).toBe(user);
      for (const nonsense of ['', 'a\nb', 'x'.repeat(257)]) {
        await refused(registry.createAgent(userCaller(nonsense), { name: 'scout' }), 'invalid_request');
        await refused(registry.listAgents(userCaller(nonsense)), 'invalid_request');
      }
    });

    it('exist after their first write, under the readable id', async () => {
      const { registry } = await bench.open();
      await refused(registry.getUser(operator, 'alice'), 'not_found');
      await registry.createAgent(userCaller('alice'), { name: 'scout' });
      expect(await registry.getUser(operator, 'alice')).toMatchObject({
        user: 'alice',
        email: '',
        agents: 1,
        agents_max: 10,
        user_id: userKey('alice').toString('hex'),
      });
      await registry.putUser(operator, 'bob', { email: 'bob@example.com' });
      expect((await registry.listUsers(operator)).items.map(({ user }) => user).toSorted()).toEqual([
        'alice',
        'bob',
      ]);
      const first = await registry.listUsers(operator, { limit: 1 });
      const second = await registry.listUsers(operator, { limit: 1, cursor: first.next_cursor as string });
      expect([...first.items, ...second.items]).toHaveLength(2);
      expect(second.next_cursor).toBeNull();
      await refused(registry.listUsers(userCaller('alice')), 'forbidden');
      await refused(registry.getUser(userCaller('alice'), 'bob'), 'not_found');
      await refused(registry.putUser(userCaller('alice'), 'alice', { agents_max: 1_000 }), 'forbidden');
      await refused(registry.putUser(operator, 'alice', { email: 'nonsense' }), 'invalid_request');
    });

    it('with a readable id cannot be reached by its hash, nor the other way round', async () => {
      const { registry } = await bench.open();
      await registry.createAgent(userCaller('alice'), { name: 'scout' });
      const twin = userCaller(userKey('alice').toString('hex'));
      await refused(registry.createAgent(twin, { name: 'x' }), 'conflict');
      await refused(registry.listAgents(twin), 'conflict');
      await refused(registry.putUser(operator, twin.user), 'conflict');
      await registry.createAgent(userCaller(userKey('bob').toString('hex')), { name: 'scout' });
      await refused(registry.createAgent(userCaller('bob'), { name: 'x' }), 'conflict');
    });

    it('update `last seen` only once in a while', async () => {
      const opened = await bench.open();
      const { registry, clock } = opened;
      await registry.recordUserCall(alice);
      await refused(registry.getUser(operator, 'alice'), 'not_found');
      const { last_seen_at } = await registry.putUser(operator, 'alice');
      clock.nowMs += 59_000;
      await registry.recordUserCall(alice);
      expect((await registry.getUser(operator, 'alice')).last_seen_at).toBe(last_seen_at);
      clock.nowMs += 1_000;
      await registry.recordUserCall(alice);
      expect((await registry.getUser(operator, 'alice')).last_seen_at).toBe(isoTime(clock.nowMs));
    });
  });

  describe(`identity links on ${name}`, () => {
    const bench = new OneBench(runner, open);

    it('connect an identity to one agent, and are deleted with the agent', async () => {
      const opened = await bench.open();
      const { registry } = opened;
      const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
      const other = await registry.createAgent(bob, { name: 'spy' });
      await linkIdentity(opened, alice, agent_id, 'key-1');
      await linkIdentity(opened, alice, agent_id, 'key-1');
      expect((await registry.linkedAgent('key-1'))?.agent_id).toBe(agent_id);
      await refused(linkIdentity(opened, bob, other.agent_id, 'key-1'), 'already_exists');
      await refused(linkIdentity(opened, bob, agent_id, 'key-2'), 'not_found');
      await refused(unlinkIdentity(opened, bob, 'key-1'), 'not_found');
      await unlinkIdentity(opened, alice, 'key-1');
      expect(await registry.linkedAgent('key-1')).toBeNull();
      await linkIdentity(opened, bob, other.agent_id, 'key-1');
      await registry.updateAgentStatus(bob, other.agent_id, 'error');
      await registry.deleteAgent(bob, other.agent_id);
      expect(await registry.linkedAgent('key-1')).toBeNull();
    });
  });
}
