/** The doctor over the families of tokens, data and messaging. */
import { kernelOf } from '../../../kernel-of.js';
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { allChecks } from '../../../../src/homes/directory/doctor/doctor.js';
import {
  dataFamilies,
  decodeNamespace,
  encodeAccess,
  encodeNamespace,
  encodeUsage,
} from '../../../../src/homes/directory/datastore/rows.js';
import { tokenFamilies } from '../../../../src/homes/directory/identity/identity.js';
import { families as messaging } from '../../../../src/homes/directory/messaging/rows.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import { userKey } from '../../../../src/identity/user-key.js';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { examineAll } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import type { Finding } from '../../../../src/operations/model.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import type { Store } from '../../../../src/homes/directory/kernel/store.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { until } from '../../../until.js';

const ada = operatorCaller('ada', 'planner');
const families = [
  ...Object.values(tokenFamilies),
  ...Object.values(dataFamilies).filter((family) => family !== dataFamilies.settings),
  messaging.agents,
  messaging.agentsByKey,
  messaging.agentKeys,
  messaging.keptAgents,
  messaging.rooms,
  messaging.roomKeys,
  messaging.roomsByActivity,
  kernelFamilies.timers,
];
const nobody = Buffer.alloc(32, 9);
const none = Buffer.alloc(0);
const document = (name: string) => Buffer.concat([userKey('ada'), Buffer.from(name.replace('/', '\0'))]);
let stoa: Stoa;
let store: Store;

beforeEach(async () => {
  stoa = await openStoa({ data: 'unused', engine: 'memory' });
  store = kernelOf(stoa).root;
  const { token } = await stoa.identity.createToken(operatorCaller(), 'ada', { expires_in: 3600 }, null);
  await stoa.identity.authenticate(token);
  await stoa.identity.flush();
  for (const [namespace, key, value] of [
    ['notes', 'a', 1],
    ['notes', 'b', 'x'.repeat(20_000)],
    ['notes', 'c', 3],
    ['plans', 'a', 1],
  ] as const)
    await stoa.data.set(ada, namespace, key, value);
  await stoa.data.set(ada, 'notes', 'brief', 1, { ttl: 3600 });
  // Reads are counted a moment after they happen; here at once.
  await store.transact((tx) =>
    tx.put(
      dataFamilies.access,
      document('notes/a'),
      encodeAccess({ count: 1, agent: 'planner', at: '2026-01-31T12:00:00.000000Z' }),
    ),
  );
  await stoa.messaging.rooms.post(ada, { room: 'global' }, () => ({ body: 'hello', pid: '' }), null);
  await stoa.messaging.rooms.create(
    ada,
    { name: 'den', is_private: true, key: 'a key of sixteen or more', owner: null },
    null,
  );
});
afterEach(() => stoa.close());

async function findings(
  repair = false,
  kernel = kernelOf(stoa),
): Promise<(Finding & { repaired: boolean })[]> {
  const found: (Finding & { repaired: boolean })[] = [];
  for await (const { shard: _, ...finding } of examineAll(kernel.stores, allChecks(kernel), {
    repair,
    pageEntries: 2,
  }))
    found.push(finding);
  return found;
}

function dump(): string[] {
  return families.flatMap((family) =>
    Array.from(
      store.range(family, {}),
      ({ key, value }) => `${family} ${key.toString('hex')} ${value.toString('hex')}`,
    ),
  );
}

const keysIn = (family: string) => Array.from(store.range(family, {}), ({ key }) => key);

it('an undamaged store has no findings', async () => {
  for (const family of families) expect(keysIn(family), family).not.toEqual([]);
  expect(await findings()).toEqual([]);
});

describe('every row that is lost and follows from others is found and written again', () => {
  it.each([
    tokenFamilies.tokensByUser,
    dataFamilies.namespaces,
    dataFamilies.usage,
    messaging.agentsByKey,
    messaging.agentKeys,
    messaging.roomsByActivity,
  ])('in %s', async (family) => {
    const before = dump();
    for (const key of keysIn(family)) {
      await store.transact((tx) => tx.delete(family, key));
      expect(await findings()).toContainEqual(
        expect.objectContaining({ family, key: key.toString('hex'), kind: 'missing', repaired: false }),
      );
      expect((await findings(true)).every(({ repaired }) => repaired)).toBe(true);
      expect(await findings()).toEqual([]);
      expect(dump()).toEqual(before);
    }
  });

  it('in the timers of tokens and documents', async () => {
    const before = dump();
    for (const key of keysIn(kernelFamilies.timers).filter((each) =>
      /identity\.token|data\.expiry/.test(each.toString('latin1')),
    )) {
      await store.transact((tx) => tx.delete(kernelFamilies.timers, key));
      expect(await findings(true)).toMatchObject([
        { family: kernelFamilies.timers, kind: 'missing', repaired: true },
      ]);
      expect(dump()).toEqual(before);
    }
  });
});

describe('every surplus row is found and deleted', () => {
  it.each([
    ['dangling', tokenFamilies.tokensByUser, Buffer.concat([nobody, nobody.subarray(0, 10)]), none],
    ['dangling', tokenFamilies.tokenUses, nobody.subarray(0, 10), Buffer.from('1')],
    ['dangling', dataFamilies.values, document('notes/gone'), Buffer.from('1')],
    ['duplicate', dataFamilies.values, document('notes/a'), Buffer.from('1')],
    ['dangling', dataFamilies.access, document('notes/gone'), Buffer.from('{}')],
    ['dangling', messaging.agentsByKey, nobody, nobody.subarray(0, 16)],
    ['dangling', messaging.agentKeys, nobody.subarray(0, 22), Buffer.from('{"publicKey":""}')],
    ['dangling', messaging.keptAgents, nobody, Buffer.from('{"id":"09090909-0909-0909-0909-090909090909"}')],
    ['dangling', messaging.roomKeys, nobody.subarray(0, 16), Buffer.from('x')],
    ['dangling', messaging.roomsByActivity, nobody.subarray(0, 22), none],
  ])('%s in %s', async (kind, family, key, value) => {
    const before = dump();
    await store.transact((tx) => tx.put(family, key, value));
    expect(await findings()).toMatchObject([{ family, kind, repaired: false }]);
    expect(await findings(true)).toMatchObject([{ family, kind, repaired: true }]);
    expect(dump()).toEqual(before);
  });

  it('a second entry of a room, of a token and of a key', async () => {
    const before = dump();
    const [room, token, key] = [messaging.roomsByActivity, tokenFamilies.tokens, messaging.agentsByKey].map(
      (family) => keysIn(family)[0] as Buffer,
    );
    const identity = store.get(messaging.agentsByKey, key as Buffer) as Buffer;
    await store.transact((tx) => {
      tx.put(
        messaging.roomsByActivity,
        Buffer.concat([Buffer.alloc(6, 1), (room as Buffer).subarray(6)]),
        none,
      );
      tx.put(tokenFamilies.tokensByUser, Buffer.concat([nobody, token as Buffer]), none);
      tx.put(messaging.agentsByKey, nobody, identity);
    });
    expect((await findings()).map(({ family, kind }) => [family, kind])).toEqual([
      [tokenFamilies.tokensByUser, 'duplicate'],
      [messaging.agentsByKey, 'duplicate'],
      [messaging.roomsByActivity, 'duplicate'],
    ]);
    expect((await findings(true)).every(({ repaired }) => repaired)).toBe(true);
    expect(dump()).toEqual(before);
  });
});

it('wrong counts are counted again', async () => {
  const before = dump();
  const [notes] = keysIn(dataFamilies.namespaces) as [Buffer];
  await store.transact((tx) =>
    tx.put(dataFamilies.usage, userKey('ada'), encodeUsage({ documents: 1, sizeBytes: 2, namespaces: 3 })),
  );
  expect(await findings(true)).toMatchObject([{ family: dataFamilies.usage, kind: 'wrong', repaired: true }]);
  const { updatedAtMs } = decodeNamespace(store.get(dataFamilies.namespaces, notes) as Buffer);
  await store.transact((tx) =>
    tx.put(dataFamilies.namespaces, notes, encodeNamespace({ count: 99, sizeBytes: 1, updatedAtMs })),
  );
  expect(await findings(true)).toMatchObject([
    { family: dataFamilies.namespaces, kind: 'wrong', repaired: true },
  ]);
  expect(dump()).toEqual(before);
});

it('damage that needs a backup is reported and not changed', async () => {
  const [value] = keysIn(dataFamilies.values) as [Buffer];
  const [token] = keysIn(tokenFamilies.tokens) as [Buffer];
  await store.transact((tx) => {
    tx.delete(dataFamilies.values, value);
    tx.put(tokenFamilies.tokens, token, Buffer.from('{'));
  });
  await expect(stoa.data.get(ada, 'notes', 'b')).rejects.toMatchObject({ code: 'invalid_data' });
  await expect(stoa.data.getEntry(ada, 'notes', 'b')).rejects.toMatchObject({ code: 'invalid_data' });
  const found = await findings(true);
  expect(found.map(({ family, kind, repair, repaired }) => [family, kind, repair, repaired])).toEqual([
    [dataFamilies.values, 'missing', null, false],
    [tokenFamilies.tokens, 'unreadable', null, false],
  ]);
});

describe('an identity whose agent lacks the entry of the link', () => {
  it('is not added to a new agent with the same id', async () => {
    const opened = await openStoa({ data: 'unused', engine: 'memory' });
    try {
      const { registry, messaging } = opened;
      const kernel = kernelOf(opened);
      const ada = operatorCaller('ada');
      const { identity } = await writtenPort(messaging).register({
        publicKey: randomBytes(32).toString('base64'),
        name: null,
        email: null,
        proven: true,
      });
      const agentId = 'ab'.repeat(32);
      const linkedAtMs = kernel.nowMs();
      await writtenPort(messaging).link(identity, {
        user: 'ada',
        agentId,
        agentName: 'scout',
        write: true,
        namespaces: null,
        linkedAtMs,
      });
      await until(() => kernel.nowMs() > linkedAtMs);
      await registry.putAgent(ada, { agent_id: agentId, name: 'scout' });
      expect(await findings(true, kernelOf(opened))).toEqual([]);
      expect(await registry.speaksFor(identity.id, 'ada', agentId)).toBe(false);
    } finally {
      await opened.close();
    }
  });

  it.each([1, 4])('is added to its agent, in %i shards', async (shards) => {
    const opened = await openStoa({ data: 'unused', engine: 'memory', shards });
    try {
      for (const user of ['ada', 'bob', 'cleo']) {
        const { agent_id: agentId, name: agentName } = await opened.registry.createAgent(
          operatorCaller(user),
          { name: 'scout' },
        );
        const { identity } = await writtenPort(opened.messaging).register({
          publicKey: randomBytes(32).toString('base64'),
          name: null,
          email: null,
          proven: true,
        });
        await writtenPort(opened.messaging).link(identity, {
          user,
          agentId,
          agentName,
          write: true,
          namespaces: null,
          linkedAtMs: kernelOf(opened).nowMs(),
        });
        expect((await opened.registry.listIdentities(operatorCaller(user), agentId)).items).toEqual([]);
        expect(await findings(false, kernelOf(opened))).toContainEqual(
          expect.objectContaining({
            family: 'registry/identity_links',
            kind: 'missing',
            repair: 'write the row',
          }),
        );
        expect((await findings(true, kernelOf(opened))).every(({ repaired }) => repaired)).toBe(true);
        expect(await findings(false, kernelOf(opened))).toEqual([]);
        expect((await opened.registry.listIdentities(operatorCaller(user), agentId)).items).toEqual([
          identity.id,
        ]);
        expect(await opened.registry.linkedAgent(identity.id)).toMatchObject({ agent_id: agentId });
      }
    } finally {
      await opened.close();
    }
  });
});
