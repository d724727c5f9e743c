import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { registryFamilies } from '../../../../src/homes/directory/registry/families.js';
import { decodeEntry } from '../../../../src/homes/directory/inspect.js';
import { operator, startMs, userCaller } from '../../../../src/registry/conformance/bench.js';
import { openRegistry } from './open-registry.js';

const { records } = JSON.parse(
  readFileSync(new URL('../../../vectors/registry-cbor.json', import.meta.url), 'utf8'),
) as { records: Record<string, { cbor_hex: string }> };
const [agentHex, userHex, sessionHex] = Object.values(records).map(({ cbor_hex }) => cbor_hex);

const userId = '01'.repeat(32);
const agentId = 'b0eb0adc4c9a5cf4daed7ec7b5f033b085590ae339a920af277e56272bde5af6';
const sessionId = '550e8400-e29b-41d4-a716-446655440000';
const sessionKey = sessionId.replaceAll('-', '');

describe.each(['memory', 'lmdb', 'rocksdb'] as const)("the rows of the seed's families on %s", (engine) => {
  it("is exactly the vectors, under exactly the seed's keys", async () => {
    const opened = await openRegistry({ engine });
    try {
      const { registry, clock, kernel } = opened;
      const caller = userCaller(userId);
      await registry.putUser(operator, userId, { email: 'test@example.com' });
      await registry.putAgent(caller, { agent_id: agentId, name: 'test-agent' });
      clock.nowMs = startMs + 300_123;
      await registry.updateAgentStatus(caller, agentId, 'running');
      clock.nowMs = startMs + 900_000;
      await registry.openSession(caller, agentId, { session_id: sessionId });
      const rows = (family: string) =>
        Array.from(kernel.root.range(family, {}), ({ key, value }) => [
          key.toString('hex'),
          value.toString('hex'),
        ]);
      expect(rows(registryFamilies.agents)).toEqual([[userId + agentId, agentHex]]);
      expect(rows(registryFamilies.agentsByStatus)).toEqual([[`02${userId}${agentId}`, '']]);
      expect(rows(registryFamilies.sessions)).toEqual([[sessionKey, sessionHex]]);
      expect(rows(registryFamilies.sessionsByAgent)).toEqual([[agentId + sessionKey, '']]);
      expect(rows(registryFamilies.users)).toEqual([[userId, userHex]]);
    } finally {
      await opened.close();
    }
  });
});

describe.each(['lmdb', 'rocksdb'] as const)('a registry on %s over three shards', (engine) => {
  it('is unchanged after closing and opening', async () => {
    const opened = await openRegistry({ engine, shards: 3 });
    try {
      const { agent_id } = await opened.registry.createAgent(userCaller('alice'), {
        name: 'scout',
        labels: { team: 'red' },
      });
      await opened.registry.start(userCaller('alice'), agent_id);
      const session = await opened.registry.openSession(userCaller('alice'), agent_id);
      const before = await opened.registry.getAgent(operator, agent_id);
      await opened.restart(0);
      expect(await opened.registry.getAgent(operator, agent_id)).toEqual(before);
      expect(await opened.registry.getSession(operator, session.session_id)).toEqual(session);
      expect(
        (await opened.registry.listAgents(operator, { label: 'team=red', status: 'running' })).items,
      ).toEqual([before]);
    } finally {
      await opened.close();
    }
  });
});

describe('a row that was damaged by hand', () => {
  it('is an error with the code of its kind, not a crash', async () => {
    const opened = await openRegistry();
    try {
      const { registry, kernel } = opened;
      const alice = userCaller('alice');
      const { agent_id, user_id } = await registry.createAgent(alice, { name: 'scout' });
      const key = Buffer.from(user_id + agent_id, 'hex');
      const stored = kernel.root.get(registryFamilies.agents, key) as Buffer;
      await kernel.root.transact((tx) => tx.put(registryFamilies.agents, key, stored.subarray(0, 100)));
      await expect(registry.getAgent(alice, agent_id)).rejects.toMatchObject({ code: 'serialization' });
      await kernel.root.transact((tx) => tx.put(registryFamilies.agents, key, Buffer.from('a0', 'hex')));
      await expect(registry.getAgent(alice, agent_id)).rejects.toMatchObject({ code: 'invalid_data' });
      expect(() => decodeEntry(registryFamilies.agents, key, Buffer.from('a0', 'hex'))).toThrow(
        expect.objectContaining({ code: 'invalid_data' }),
      );
      await kernel.root.transact((tx) => tx.put(registryFamilies.agents, key, stored));
      await kernel.root.transact((tx) => tx.put(registryFamilies.leases, key, Buffer.from('{')));
      await expect(registry.getAgent(alice, agent_id)).rejects.toMatchObject({ code: 'serialization' });
      await kernel.root.transact((tx) => tx.delete(registryFamilies.leases, key));
      expect((await registry.getAgent(alice, agent_id)).name).toBe('scout');
    } finally {
      await opened.close();
    }
  });
});
