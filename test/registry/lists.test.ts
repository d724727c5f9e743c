import { afterEach, describe, expect, it } from 'vitest';
import { userKey } from '../../src/identity/user-key.js';
import { encodeCursor } from '../../src/core/paging.js';
import type { ListAgentsInput } from '../../src/registry/schemas.js';
import type { Caller } from '../../src/core/caller.js';
import { type TestRegistry, openRegistry, operator, userCaller } from './open-registry.js';

let opened: TestRegistry;
afterEach(() => opened.close());

async function listAll(
  caller: Caller,
  input: ListAgentsInput = {},
  between: () => Promise<unknown> = async () => undefined,
) {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await opened.registry.listAgents(caller, { ...input, cursor });
    ids.push(...page.items.map(({ agent_id }) => agent_id));
    cursor = page.next_cursor ?? undefined;
    await between();
  } while (cursor !== undefined);
  return ids;
}

describe.each([
  { engine: 'memory', shards: 1 },
  { engine: 'lmdb', shards: 4 },
] as const)('lists on $engine with $shards shard(s)', (options) => {
  it('page over all users without gaps or repeats during writes', async () => {
    opened = await openRegistry({ ...options, limits: { agentsPerUserMax: 1_000 } });
    const { registry } = opened;
    const users = Array.from({ length: 8 }, (_, index) => userCaller(`user-${index}`));
    const made = await Promise.all(
      users.flatMap((user) =>
        Array.from({ length: 12 }, (_, index) => registry.createAgent(user, { name: `agent-${index}` })),
      ),
    );
    let written = 0;
    const seen = await listAll(operator, { limit: 7 }, async () => {
      written += 1;
      const user = users[written % users.length] as Caller;
      await registry.createAgent(user, { name: `late-${written}` });
      await registry.updateAgent(
        user,
        (await registry.listAgents(user, { limit: 1 })).items[0]?.agent_id as string,
        { labels: { round: String(written) } },
      );
    });
    expect(new Set(seen).size).toBe(seen.length);
    for (const { agent_id } of made) expect(seen).toContain(agent_id);
    const keys = await Promise.all(
      seen.map(async (id) => (await registry.getAgent(operator, id)).user_id + id),
    );
    expect(keys).toEqual(keys.toSorted());
    expect((await registry.listAllAgents(operator, { limit: 1_000 })).items).toHaveLength(96 + written);
    await expect(registry.listAllAgents(users[0] as Caller)).rejects.toMatchObject({ code: 'forbidden' });
  });

  it.each([1, 4, 10_000])(
    'hold every filter at once, of one user or of all, with %i lookups a page',
    async (listSeeksMax) => {
      opened = await openRegistry({ ...options, limits: { agentsPerUserMax: 1_000, listSeeksMax } });
      const { registry } = opened;
      const alice = userCaller('alice');
      const bob = userCaller('bob');
      const rows: { id: string; user: string; name: string; team: string; running: boolean }[] = [];
      for (let index = 0; index < 60; index += 1) {
        const user = index % 3 === 0 ? bob : alice;
        const row = {
          user: user.user,
          name: `name-${index % 4}`,
          team: `team-${index % 5}`,
          running: index % 2 === 0,
        };
        const { agent_id } = await registry.createAgent(user, {
          name: row.name,
          labels: { team: row.team, ...(index % 7 === 0 && { rare: '' }) },
        });
        if (row.running) await registry.start(user, agent_id);
        rows.push({ ...row, id: agent_id });
      }
      const cases: [Caller, ListAgentsInput, (row: (typeof rows)[number], index: number) => boolean][] = [
        [alice, {}, (row) => row.user === 'alice'],
        [operator, { status: 'running' }, (row) => row.running],
        [alice, { status: 'running' }, (row) => row.user === 'alice' && row.running],
        [alice, { name: 'name-1' }, (row) => row.user === 'alice' && row.name === 'name-1'],
        [operator, { label: 'team=team-2' }, (row) => row.team === 'team-2'],
        [bob, { label: 'team' }, (row) => row.user === 'bob'],
        [operator, { label: 'rare' }, (_row, index) => index % 7 === 0],
        [operator, { label: 'rare=' }, (_row, index) => index % 7 === 0],
        [
          operator,
          { label: 'team=team-1', name: 'name-1', status: 'provisioning' },
          (row) => row.team === 'team-1' && row.name === 'name-1' && !row.running,
        ],
        [
          alice,
          { label: 'team=team-1', status: 'running' },
          (row) => row.user === 'alice' && row.team === 'team-1' && row.running,
        ],
        [alice, { name: 'name' }, () => false],
        [alice, { label: 'tea' }, () => false],
      ];
      for (const [caller, input, passes] of cases) {
        const expected = rows.filter(passes).map(({ id }) => id);
        for (const limit of [1, 3, 100]) {
          const listed = await listAll(caller, { ...input, limit });
          expect(listed.toSorted()).toEqual(expected.toSorted());
        }
      }
      expect((await registry.listAgentsByStatus(alice, 'running', { limit: 5 })).items).toHaveLength(5);
    },
  );

  it('refuse cursors of other lists, and a forged one does not reach other users', async () => {
    opened = await openRegistry(options);
    const { registry } = opened;
    const [low, high] = ['alice', 'bob']
      .toSorted((a, b) => Buffer.compare(userKey(a), userKey(b)))
      .map((user) => userCaller(user)) as [Caller, Caller];
    for (const user of [low, high])
      for (let index = 0; index < 3; index += 1) await registry.createAgent(user, { name: 'scout' });
    const page = await registry.listAgents(low, { limit: 1 });
    const cursor = page.next_cursor as string;
    for (const attempt of [
      () => registry.listAgents(high, { cursor }),
      () => registry.listAgents(low, { cursor, status: 'running' }),
      () => registry.listAgents(low, { cursor: 'x' }),
      () => registry.listAgents(low, { cursor: `${cursor}AAAA` }),
      () => registry.listUsers(operator, { cursor }),
    ]) {
      await expect(attempt()).rejects.toMatchObject({ code: 'invalid_cursor' });
    }
    const forged = encodeCursor(JSON.stringify(['agents', high.user, null, null, null]), Buffer.alloc(64));
    const { items } = await registry.listAgents(high, { cursor: forged });
    expect(items.map(({ user }) => user)).toEqual([high.user, high.user, high.user]);
    await expect(registry.listAgents(low, { limit: 0 })).rejects.toMatchObject({ code: 'invalid_request' });
    expect((await registry.listAgents(low, { limit: 1_000_000 })).items).toHaveLength(3);
  });
});

describe('users', () => {
  it('have one spelling: hex and UUIDs in upper case are lowered, nonsense is refused', async () => {
    opened = await openRegistry();
    const { registry } = opened;
    const id = 'AB'.repeat(32);
    const { agent_id, user } = await registry.createAgent(userCaller(id), { name: 'scout' });
    expect(user).toBe(id.toLowerCase());
    expect((await registry.getAgent(userCaller(id.toLowerCase()), agent_id)).user).toBe(user);
    for (const nonsense of ['', 'a\nb', 'x'.repeat(257)]) {
      await expect(registry.createAgent(userCaller(nonsense), { name: 'scout' })).rejects.toMatchObject({
        code: 'invalid_request',
      });
      await expect(registry.listAgents(userCaller(nonsense))).rejects.toMatchObject({
        code: 'invalid_request',
      });
    }
  });

  it('exist from their first write, under the readable id', async () => {
    opened = await openRegistry({ shards: 4 });
    const { registry } = opened;
    await expect(registry.getUser(operator, 'alice')).rejects.toMatchObject({ code: 'not_found' });
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
    await expect(registry.listUsers(userCaller('alice'))).rejects.toMatchObject({ code: 'forbidden' });
    await expect(registry.getUser(userCaller('alice'), 'bob')).rejects.toMatchObject({ code: 'not_found' });
    await expect(registry.putUser(userCaller('alice'), 'alice', { agents_max: 1_000 })).rejects.toMatchObject(
      { code: 'forbidden' },
    );
    await expect(registry.putUser(operator, 'alice', { email: 'nonsense' })).rejects.toMatchObject({
      code: 'invalid_request',
    });
  });

  it('known by a readable id cannot be reached through its hash, and vice versa', async () => {
    opened = await openRegistry();
    const { registry } = opened;
    await registry.createAgent(userCaller('alice'), { name: 'scout' });
    const twin = userCaller(userKey('alice').toString('hex'));
    await expect(registry.createAgent(twin, { name: 'x' })).rejects.toMatchObject({ code: 'conflict' });
    await expect(registry.listAgents(twin)).rejects.toMatchObject({ code: 'conflict' });
    await expect(registry.putUser(operator, twin.user)).rejects.toMatchObject({ code: 'conflict' });
    await registry.createAgent(userCaller(userKey('bob').toString('hex')), { name: 'scout' });
    await expect(registry.createAgent(userCaller('bob'), { name: 'x' })).rejects.toMatchObject({
      code: 'conflict',
    });
  });

  it('have a last_seen_at that is written lazily', async () => {
    opened = await openRegistry();
    const { registry, clock } = opened;
    const alice = userCaller('alice');
    await registry.sawUser(alice);
    await expect(registry.getUser(operator, 'alice')).rejects.toMatchObject({ code: 'not_found' });
    const { last_seen_at } = await registry.putUser(operator, 'alice');
    clock.nowMs += 59_000;
    await registry.sawUser(alice);
    expect((await registry.getUser(operator, 'alice')).last_seen_at).toBe(last_seen_at);
    clock.nowMs += 1_000;
    await registry.sawUser(alice);
    expect((await registry.getUser(operator, 'alice')).last_seen_at).toBe(clock.nowMs);
  });
});

describe('identity links', () => {
  it('lead from an identity to one agent and are deleted with the agent', async () => {
    opened = await openRegistry({ shards: 4 });
    const { registry } = opened;
    const alice = userCaller('alice');
    const bob = userCaller('bob');
    const { agent_id } = await registry.createAgent(alice, { name: 'scout' });
    const other = await registry.createAgent(bob, { name: 'spy' });
    await registry.linkIdentity(alice, agent_id, 'key-1');
    await registry.linkIdentity(alice, agent_id, 'key-1');
    expect((await registry.linkedAgent('key-1'))?.agent_id).toBe(agent_id);
    await expect(registry.linkIdentity(bob, other.agent_id, 'key-1')).rejects.toMatchObject({
      code: 'already_exists',
    });
    await expect(registry.linkIdentity(bob, agent_id, 'key-2')).rejects.toMatchObject({ code: 'not_found' });
    await expect(registry.unlinkIdentity(bob, 'key-1')).rejects.toMatchObject({ code: 'not_found' });
    await registry.unlinkIdentity(alice, 'key-1');
    expect(await registry.linkedAgent('key-1')).toBeNull();
    await registry.linkIdentity(bob, other.agent_id, 'key-1');
    await registry.updateAgentStatus(bob, other.agent_id, 'error');
    await registry.deleteAgent(bob, other.agent_id);
    expect(await registry.linkedAgent('key-1')).toBeNull();
  });
});
