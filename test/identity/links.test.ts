import { randomBytes, randomUUID } from 'node:crypto';
import { kernelOf } from '../kernel-of.js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { userKey } from '../../src/identity/user-key.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { writtenPort } from '../../src/messaging/conformance/kit/written-port.js';

const operator = operatorCaller();
const users = ['ada', 'bob', 'cleo', 'dan'];
const open = { write: true, namespaces: null };

describe.each([1, 4])('a link of an identity with %i shard(s)', (shards) => {
  let stoa: Stoa;
  beforeEach(async () => {
    stoa = await openStoa({ data: '', engine: 'memory', shards });
  });
  afterEach(() => stoa.close());

  async function newIdentity(): Promise<string> {
    const publicKey = randomBytes(32).toString('base64');
    const { identity } = await writtenPort(stoa.messaging).register({
      publicKey,
      name: null,
      email: null,
      proven: true,
    });
    return identity.id;
  }

  async function newAgent(user: string): Promise<string> {
    return (
      await stoa.registry.createAgent(operatorCaller(user), { name: `scout ${randomUUID().slice(0, 8)}` })
    ).agent_id;
  }

  /** The link as the registry and messaging have it. */
  async function sidesOf(identity: string) {
    return {
      registry: (await stoa.registry.linkedAgent(identity))?.agent_id ?? null,
      messaging: (await stoa.messaging.identities.linkOf(identity))?.agentId ?? null,
    };
  }

  /**
   * The kinds of change in each commit that the call makes. Commits of different shards have no fixed order.
   */
  async function commitsOf(call: () => Promise<unknown>): Promise<string[][]> {
    const since = kernelOf(stoa).feed.newest();
    await call();
    const { commits } = kernelOf(stoa).feed.read({ since });
    return commits.map(({ changes }) => changes.map(({ kind }) => kind));
  }

  it('is created and removed in one commit of registry and messaging', async () => {
    for (const user of users) {
      const [identity, agent_id] = [await newIdentity(), await newAgent(user)];
      const linked = await commitsOf(() => stoa.links.link(operator, identity, { agent_id, ...open }));
      expect(linked).toEqual([['agent.linked', 'identity.linked']]);
      expect(await sidesOf(identity)).toEqual({ registry: agent_id, messaging: agent_id });
      expect(await stoa.registry.speaksFor(identity, user, agent_id)).toBe(true);
      const unlinked = await commitsOf(() => stoa.links.unlink(operator, identity));
      expect(unlinked).toEqual([['agent.unlinked', 'identity.unlinked']]);
      expect(await sidesOf(identity)).toEqual({ registry: null, messaging: null });
    }
  });

  it('moves to another agent and to another user, each in one commit', async () => {
    const identity = await newIdentity();
    const [first, second, other] = [await newAgent('ada'), await newAgent('ada'), await newAgent('bob')];
    await stoa.links.link(operator, identity, { agent_id: first, ...open });
    const moved = await commitsOf(() => stoa.links.link(operator, identity, { agent_id: second, ...open }));
    expect(moved).toEqual([['agent.unlinked', 'agent.linked', 'identity.linked']]);
    expect(await sidesOf(identity)).toEqual({ registry: second, messaging: second });
    const given = await commitsOf(() => stoa.links.link(operator, identity, { agent_id: other, ...open }));
    expect(given).toEqual([['agent.unlinked', 'agent.linked', 'identity.linked']]);
    expect(await sidesOf(identity)).toEqual({ registry: other, messaging: other });
    expect((await stoa.registry.listIdentities(operatorCaller('ada'), second)).items).toEqual([]);
  });

  const itSharded = shards > 1 ? it : () => undefined;

  itSharded('is not given to a user in another shard, and stays as it was', async () => {
    const kernel = kernelOf(stoa);
    const stores = users.map((user) => kernel.storeOf(userKey(user)));
    const places = stores.flatMap((store, index) => (store === kernel.root ? [] : [{ store, index }]));
    const [from, to] = [places[0], places.find(({ store }) => store !== places[0]?.store)];
    const [mine, theirs] = [
      await newAgent(users[from?.index ?? 0] as string),
      await newAgent(users[to?.index ?? 0] as string),
    ];
    const identity = await newIdentity();
    await stoa.links.link(operator, identity, { agent_id: mine, ...open });
    await expect(stoa.links.link(operator, identity, { agent_id: theirs, ...open })).rejects.toMatchObject({
      code: 'unsupported',
    });
    expect(await sidesOf(identity)).toEqual({ registry: mine, messaging: mine });
    await stoa.links.unlink(operator, identity);
    await stoa.links.link(operator, identity, { agent_id: theirs, ...open });
    expect(await sidesOf(identity)).toEqual({ registry: theirs, messaging: theirs });
  });

  it('is equal in registry and messaging after many concurrent changes', async () => {
    const identity = await newIdentity();
    const agents = await Promise.all(Array.from({ length: 4 }, () => newAgent('ada')));
    await Promise.allSettled(
      agents.map((agent_id) => stoa.links.link(operator, identity, { agent_id, ...open })),
    );
    const { registry, messaging } = await sidesOf(identity);
    expect(agents).toContain(registry);
    expect(messaging).toBe(registry);
  });
});
