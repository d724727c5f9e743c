import { afterEach, describe, expect, it } from 'vitest';
import { registryChecks } from '../../../../src/homes/directory/doctor/registry/registry.js';
import { registryFamilies } from '../../../../src/homes/directory/registry/families.js';
import { decodeEntry } from '../../../../src/homes/directory/inspect.js';
import type { Caller } from '../../../../src/core/caller.js';
import { userKey } from '../../../../src/identity/user-key.js';
import { sessionIdOf } from '../../../../src/registry/ids.js';
import { examineAll } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import type { Finding } from '../../../../src/operations/model.js';
import {
  agentCountKey,
  agentKey,
  deletedFenceKey,
  labelKey,
  linkByAgentKey,
  linkByIdentityKey,
  nameKey,
  sessionByAgentKey,
  sessionByStatusKey,
  statusKey,
} from '../../../../src/registry/layout/keys.js';
import { timerKey } from '../../../../src/homes/directory/kernel/timers/timers.js';
import type { Store } from '../../../../src/homes/directory/kernel/store.js';
import type { Transaction } from '../../../../src/homes/directory/kernel/transaction.js';
import { linkIdentity, operator, userCaller } from '../../../../src/registry/conformance/bench.js';
import { type TestRegistry, openRegistry } from '../registry/open-registry.js';

const f = registryFamilies;
const alice = userCaller('alice');
const none = Buffer.alloc(0);
const user = userKey('alice');
const stranger = Buffer.alloc(32, 9);
const strangerSession = Buffer.alloc(16, 9);

let opened: TestRegistry;
afterEach(() => opened.close());

async function findings(repair = false): Promise<(Finding & { repaired: boolean })[]> {
  const found: (Finding & { repaired: boolean })[] = [];
  for await (const { shard: _, ...finding } of examineAll(
    opened.kernel.stores,
    registryChecks(opened.kernel),
    { repair, pageEntries: 2 },
  ))
    found.push(finding);
  return found;
}

function dump(store: Store): Record<string, string[]> {
  const families = [...Object.values(f), 'kernel/timers'];
  return Object.fromEntries(
    families.map((family) => [
      family,
      Array.from(
        store.range(family, {}),
        ({ key, value }) => `${key.toString('hex')}=${value.toString('hex')}`,
      ),
    ]),
  );
}

/** An agent of alice with everything that an agent can have. */
async function populate() {
  const { registry, kernel } = opened;
  const made = await registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
  await registry.createAgent(alice, { name: 'second' });
  await registry.putUser(operator, 'alice', { email: 'alice@example.com', agents_max: 20 });
  await registry.start(alice, made.agent_id);
  const open = await registry.openSession(alice, made.agent_id);
  const closed = await registry.openSession(alice, made.agent_id);
  await registry.closeSession(alice, closed.session_id);
  await registry.heartbeat(alice, made.agent_id, { holder: 'node-1' });
  await linkIdentity(opened, alice, made.agent_id, 'key-1');
  const store = kernel.storeOf(user);
  const session = Buffer.from(open.session_id.replaceAll('-', ''), 'hex');
  return { store, agent: Buffer.from(made.agent_id, 'hex'), session };
}

type Damaged = { store: Store; agent: Buffer; session: Buffer };

/** Rows that can be lost and restored exactly. */
const losses: [string, (at: Damaged) => [string, Buffer]][] = [
  ['the status of an agent', ({ agent }) => [f.agentsByStatus, statusKey('running', user, agent)]],
  ['the name of an agent', ({ agent }) => [f.agentsByName, nameKey('scout', user, agent)]],
  ['a label', ({ agent }) => [f.agentsByLabel, labelKey('team', null, user, agent)]],
  ['a label with its value', ({ agent }) => [f.agentsByLabel, labelKey('team', 'red', user, agent)]],
  ['the owner of an agent', ({ agent }) => [f.agentsById, agent]],
  ['a session of an agent', ({ agent, session }) => [f.sessionsByAgent, sessionByAgentKey(agent, session)]],
  [
    'the status of a session',
    ({ agent, session }) => [f.sessionsByStatus, sessionByStatusKey('active', agent, session)],
  ],
  ['the count of agents', () => [f.counts, agentCountKey(user)]],
  ['the readable id of a user', () => [f.userNames, user]],
  ['the link from the identity', () => [f.identityLinks, linkByIdentityKey('key-1')]],
  ['the link from the agent', ({ agent }) => [f.identityLinks, linkByAgentKey(agent, 'key-1')]],
  [
    'the timer of a lease',
    ({ store, agent }) => [
      'kernel/timers',
      timerKey({
        atMs: (
          decodeEntry(
            f.leases,
            agentKey(user, agent),
            store.get(f.leases, agentKey(user, agent)) as Buffer,
          ) as { timerAtMs: number }
        ).timerAtMs,
        kind: 'registry.lease',
        reference: agent,
      }),
    ],
  ],
];

/** Rows that do not belong there. */
const surpluses: [string, Finding['kind'], (at: Damaged) => [string, Buffer, Buffer]][] = [
  [
    'an agent that is not there, by status',
    'dangling',
    () => [f.agentsByStatus, statusKey('idle', user, stranger), none],
  ],
  [
    'a second status of an agent',
    'duplicate',
    ({ agent }) => [f.agentsByStatus, statusKey('idle', user, agent), none],
  ],
  [
    'an old name of an agent',
    'duplicate',
    ({ agent }) => [f.agentsByName, nameKey('old', user, agent), none],
  ],
  ['a name of nobody', 'dangling', () => [f.agentsByName, nameKey('ghost', user, stranger), none]],
  [
    'a label that was taken off',
    'duplicate',
    ({ agent }) => [f.agentsByLabel, labelKey('team', 'blue', user, agent), none],
  ],
  ['a label of nobody', 'dangling', () => [f.agentsByLabel, labelKey('team', 'blue', user, stranger), none]],
  ['the owner of nobody', 'dangling', () => [f.agentsById, stranger, user]],
  [
    'the meta of nobody',
    'dangling',
    () => [f.agentMeta, agentKey(user, stranger), Buffer.from('{"user":"alice"}')],
  ],
  [
    'the lease of nobody',
    'dangling',
    () => [f.leases, agentKey(user, stranger), Buffer.from('{"holder":null}')],
  ],
  [
    'a session that is not there',
    'dangling',
    ({ agent }) => [f.sessionsByAgent, sessionByAgentKey(agent, strangerSession), none],
  ],
  [
    'a session under another agent',
    'duplicate',
    ({ session }) => [f.sessionsByAgent, sessionByAgentKey(stranger, session), none],
  ],
  [
    'a second status of a session',
    'duplicate',
    ({ agent, session }) => [f.sessionsByStatus, sessionByStatusKey('closed', agent, session), none],
  ],
  [
    "a count of nobody's agents",
    'wrong',
    () => [f.counts, agentCountKey(stranger), Buffer.from('0000000000000003', 'hex')],
  ],
  [
    "the fence of nobody's deleted agents",
    'dangling',
    () => [f.counts, deletedFenceKey(stranger), Buffer.from('0000000000000003', 'hex')],
  ],
  [
    'a count of something unknown',
    'wrong',
    () => [f.counts, Buffer.from('ff01', 'hex'), Buffer.from('0000000000000003', 'hex')],
  ],
  ['a readable id of other bytes', 'wrong', () => [f.userNames, stranger, Buffer.from('mallory')]],
  ['the settings of nobody', 'dangling', () => [f.userSettings, stranger, Buffer.from('{"agentsMax":1}')]],
  ['a link of nobody', 'dangling', () => [f.identityLinks, linkByIdentityKey('key-9'), stranger]],
];

/** Damages a store, repairs it, and returns the findings. */
async function damage(store: Store, body: (tx: Transaction) => void) {
  await store.transact(body);
  const found = await findings();
  const repaired = await findings(true);
  expect(repaired.length).toBeGreaterThan(0);
  expect(repaired.every((finding) => finding.repaired)).toBe(true);
  expect(await findings()).toEqual([]);
  return found;
}

describe.each([
  { engine: 'memory', shards: 1 },
  { engine: 'memory', shards: 4 },
  { engine: 'lmdb', shards: 1 },
] as const)('the doctor on $engine with $shards shard(s)', (options) => {
  async function prepared() {
    opened = await openRegistry(options);
    const at = await populate();
    expect(await findings()).toEqual([]);
    return at;
  }

  it.each(losses)('finds and restores %s', async (_what, rowOf) => {
    const at = await prepared();
    const before = dump(at.store);
    const [family, key] = rowOf(at);
    expect(at.store.get(family, key)).toBeDefined();
    const found = await damage(at.store, (tx) => tx.delete(family, key));
    expect(found).toContainEqual(expect.objectContaining({ family, key: key.toString('hex') }));
    expect(dump(at.store)).toEqual(before);
  });

  it.each(surpluses)('finds and deletes %s', async (_what, kind, rowOf) => {
    const at = await prepared();
    const before = dump(at.store);
    const [family, key, value] = rowOf(at);
    expect(at.store.get(family, key)).toBeUndefined();
    const found = await damage(at.store, (tx) => tx.put(family, key, value));
    expect(found).toEqual([
      expect.objectContaining({ family, key: key.toString('hex'), kind, repaired: false }),
    ]);
    expect(dump(at.store)).toEqual(before);
  });

  it('deletes the sessions of a deleted agent', async () => {
    const at = await prepared();
    await damage(at.store, (tx) => {
      tx.delete(f.agents, agentKey(user, at.agent));
    });
    expect([...at.store.range(f.sessions, {})]).toEqual([]);
    expect(await opened.registry.countAgents(alice)).toBe(1);
    expect((await opened.registry.listAgents(alice)).items).toHaveLength(1);
  });

  it('counts the sessions of an agent again', async () => {
    const at = await prepared();
    const before = dump(at.store);
    const key = agentKey(user, at.agent);
    const row = JSON.parse((at.store.get(f.agentMeta, key) as Buffer).toString()) as object;
    const found = await damage(at.store, (tx) =>
      tx.put(f.agentMeta, key, Buffer.from(JSON.stringify({ ...row, activeSessions: 7 }))),
    );
    expect(found).toEqual([expect.objectContaining({ family: f.agentMeta, kind: 'wrong' })]);
    expect(dump(at.store)).toEqual(before);
  });

  it('reports only the lost owner, not the links of the agent', async () => {
    const at = await prepared();
    const found = await damage(at.store, (tx) => tx.delete(f.agentsById, at.agent));
    expect(found.map(({ family, kind }) => [family, kind])).not.toContainEqual([f.identityLinks, 'dangling']);
  });

  it('gives an agent without metadata new metadata, with an unused version', async () => {
    const at = await prepared();
    const seen = await opened.registry.getAgent(alice, at.agent.toString('hex'));
    await damage(at.store, (tx) => tx.delete(f.agentMeta, agentKey(user, at.agent)));
    const mended = await opened.registry.getAgent(alice, at.agent.toString('hex'));
    expect(mended).toMatchObject({ name: 'scout', user: 'alice', labels: {}, status: 'running' });
    expect(mended.version).toBeGreaterThan(seen.version);
  });

  it('reports damage that needs a backup, and does not change it', async () => {
    const at = await prepared();
    const key = agentKey(user, at.agent);
    await at.store.transact((tx) => tx.put(f.agents, key, Buffer.from('junk')));
    for (const repair of [false, true, false]) {
      expect(await findings(repair)).toEqual([
        expect.objectContaining({
          family: f.agents,
          key: key.toString('hex'),
          kind: 'unreadable',
          repair: null,
          repaired: false,
        }),
      ]);
    }
    expect(at.store.get(f.agents, key)?.toString()).toBe('junk');
  });

  it('decodes every row of every family', async () => {
    const at = await prepared();
    for (const family of Object.values(f)) {
      const rows = [...at.store.range(family, {})];
      expect([family, rows.length > 0]).toEqual([family, true]);
      for (const { key, value } of rows)
        expect(Object.values(decodeEntry(family, key, value) as object)).not.toContain(undefined);
    }
    expect(decodeEntry('data/unknown', none, none)).toBeUndefined();
  });
});

describe('the doctor of the directory', () => {
  it('adds missing entries and deletes entries without a record', async () => {
    opened = await openRegistry({ shards: 4 });
    const { agent, session } = await populate();
    const { root } = opened.kernel;
    const ghost = Buffer.from('f'.repeat(64));
    await root.transact((tx) => {
      tx.delete('kernel/directory', Buffer.from(agent.toString('hex')));
      tx.put('kernel/directory', ghost, user);
      tx.put('kernel/directory', Buffer.from('task_01'), user);
    });
    await expect(opened.registry.getAgent(operator, agent.toString('hex'))).rejects.toMatchObject({
      code: 'not_found',
    });
    const found = await findings(true);
    expect(found.map(({ family, kind }) => [family, kind])).toContainEqual(['kernel/directory', 'missing']);
    expect(found).toContainEqual(expect.objectContaining({ key: ghost.toString('hex'), kind: 'dangling' }));
    expect((await opened.registry.getAgent(operator, agent.toString('hex'))).name).toBe('scout');
    expect(root.get('kernel/directory', Buffer.from('task_01'))).toBeDefined();
    expect(session).toHaveLength(16);
    expect(await findings()).toEqual([]);
  });

  it('finds nothing after creations were refused because their ids are in use', async () => {
    opened = await openRegistry({ shards: 2 });
    const { registry, kernel } = opened;
    const { agent, session } = await populate();
    const agent_id = agent.toString('hex');
    const session_id = sessionIdOf(session);
    const names = Array.from({ length: 20 }, (_, index) => `user-${index}`);
    for (const isNeighbour of [true, false]) {
      const other = userCaller(
        names.find(
          (name) => (kernel.storeOf(userKey(name)) === kernel.storeOf(user)) === isNeighbour,
        ) as string,
      );
      const own = await registry.createAgent(other, { name: 'own' });
      await registry.start(other, own.agent_id);
      await expect(registry.putAgent(other, { agent_id, name: 'taken' })).rejects.toMatchObject({
        code: 'not_found',
      });
      await expect(registry.openSession(other, own.agent_id, { session_id })).rejects.toMatchObject({
        code: 'already_exists',
      });
      await expect(registry.openSession(other, agent_id, { session_id })).rejects.toMatchObject({
        code: 'not_found',
      });
    }
    expect(await findings()).toEqual([]);
  });

  it('finds nothing after users of different shards requested the same id at once', async () => {
    opened = await openRegistry({ shards: 4 });
    const { registry, kernel } = opened;
    const names = Array.from({ length: 40 }, (_, index) => `user-${index}`);
    const callers = kernel.stores.map((store) =>
      userCaller(names.find((name) => kernel.storeOf(userKey(name)) === store) as string),
    );
    const own = await Promise.all(callers.map((caller) => registry.createAgent(caller, { name: 'own' })));
    await Promise.all(
      callers.map((caller, index) => registry.start(caller, (own[index] as { agent_id: string }).agent_id)),
    );
    for (let round = 0; round < 8; round += 1) {
      const agent_id = `${round}`.padStart(64, '0');
      const session_id = sessionIdOf(Buffer.alloc(16, round + 1));
      const put = await Promise.allSettled(
        callers.map((caller) => registry.putAgent(caller, { agent_id, name: 'wanted' })),
      );
      const opening = await Promise.allSettled(
        callers.map((caller, index) =>
          registry.openSession(caller, (own[index] as { agent_id: string }).agent_id, { session_id }),
        ),
      );
      for (const results of [put, opening])
        expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      const winner = callers[put.findIndex(({ status }) => status === 'fulfilled')] as Caller;
      expect((await registry.getAgent(operator, agent_id)).user).toBe(winner.user);
      await registry.updateAgentStatus(winner, agent_id, 'error');
      await Promise.all([
        registry.deleteAgent(winner, agent_id),
        registry.putAgent(winner, { agent_id, name: 'again' }),
      ]);
    }
    expect(await findings()).toEqual([]);
  });
});
