/** The registry of several servers on one PostgreSQL, with the database's clock. */
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { postgresSteps } from '../../../../src/homes/postgres/write/step.js';
import { agentIn, alice, userCaller } from '../../../../src/registry/conformance/bench.js';
import { type PostgresRegistryBench, openPostgresRegistryBench } from './open-registry.js';

let benches: PostgresRegistryBench[] = [];
afterEach(() => Promise.all(benches.map((bench) => bench.close())));

type Options = Parameters<typeof openPostgresRegistryBench>[0];

async function openServers(count: number, options: Options = {}): Promise<PostgresRegistryBench[]> {
  const first = await openPostgresRegistryBench({ realClock: true, ...options });
  benches = [first];
  while (benches.length < count)
    benches.push(await openPostgresRegistryBench({ realClock: true, ...options, url: first.url }));
  return benches;
}

function fulfilled(outcomes: readonly PromiseSettledResult<unknown>[]): number {
  return outcomes.filter(({ status }) => status === 'fulfilled').length;
}

describe('the registry of several servers on one PostgreSQL', () => {
  it('gives a free lease to exactly one of many holders that ask on all servers at once', async () => {
    const servers = await openServers(3);
    for (let round = 0; round < 5; round += 1) {
      const { agent_id } = await agentIn(servers[0]!, 'running');
      const outcomes = await Promise.allSettled(
        Array.from({ length: 12 }, (_, index) =>
          servers[index % 3]!.registry.heartbeat(alice, agent_id, { holder: `node-${index}` }),
        ),
      );
      expect(fulfilled(outcomes)).toBe(1);
    }
  });

  it('keeps the quota when agents are created on all servers at the same time', async () => {
    const servers = await openServers(3, { limits: { agentsPerUserMax: 7 } });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 30 }, (_, index) =>
        servers[index % 3]!.registry.createAgent(alice, { name: `agent-${index}` }),
      ),
    );
    expect(fulfilled(outcomes)).toBe(7);
    expect(await servers[0]!.findings()).toEqual([]);
  });

  it('refuses the write of a holder whose lease got a new holder while the write was running', async () => {
    const [here, there] = await openServers(2);
    const { agent_id } = await agentIn(here!, 'running');
    const { lease } = await here!.registry.heartbeat(alice, agent_id, { holder: 'old' });
    const old = userCaller('alice', { kind: 'agent', agentId: agent_id, fence: lease.fence });
    const gate = new EventEmitter();
    const opened = once(gate, 'open');
    const passed = new EventEmitter();
    const isPassed = once(passed, 'on');
    // The lease has a new holder in a transaction that is not committed yet.
    const passing = there!.writer.transact(async (work) => {
      const release = there!.port.releaseLease('alice', agent_id, null, { fence: null });
      for (const step of postgresSteps([release])) await step.run(work);
      passed.emit('on');
      await opened;
    });
    await isPassed;
    const late = here!.writer.write({ caller: old }, [
      here!.port.putUser('alice', { email: 'late@example.org' }),
    ]);
    const settledLate = Promise.allSettled([late]);
    await expect
      .poll(async () =>
        query(
          here!.sql,
          "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'",
        ),
      )
      .toHaveLength(1);
    gate.emit('open');
    await passing;
    expect(await settledLate).toMatchObject([{ status: 'rejected', reason: { code: 'fenced' } }]);
    expect((await here!.registry.getUser(alice, 'alice')).email).toBe('');
  });

  it("expires the lease of an inactive holder once, on any server, by the database's clock", async () => {
    const servers = await openServers(3, {
      limits: { leaseSeconds: 1, leaseGraceSeconds: 0, sweepStepMax: 2 },
    });
    const agents = await Promise.all(
      Array.from({ length: 9 }, async () => {
        const { agent_id } = await agentIn(servers[0]!, 'running');
        await servers[0]!.registry.heartbeat(alice, agent_id, { holder: 'silent' });
        return agent_id;
      }),
    );
    await expect
      .poll(
        async () => {
          await Promise.all(servers.map(({ port, writer }) => port.sweep(writer)));
          return servers.flatMap(({ lost }) => lost).length;
        },
        { timeout: 20_000 },
      )
      .toBe(9);
    await Promise.all(servers.map(({ port, writer }) => port.sweep(writer)));
    expect(servers.flatMap(({ lost }) => lost).toSorted()).toEqual(agents.toSorted());
    const announced = (await servers[0]!.commits()).flat().filter(({ kind }) => kind === 'agent.lost');
    expect(announced).toHaveLength(9);
  });

  it('sweeps in small steps', async () => {
    const [server] = await openServers(1, {
      realClock: false,
      limits: { sweepStepMax: 3, agentsPerUserMax: 20 },
    });
    for (let count = 0; count < 10; count += 1) {
      const { agent_id } = await agentIn(server!, 'running');
      await server!.registry.heartbeat(alice, agent_id);
    }
    await server!.pass(100_000);
    expect(server!.lost).toHaveLength(10);
    const lostAtOnce = (await server!.commits()).map(
      (changes) => changes.filter(({ kind }) => kind === 'agent.lost').length,
    );
    expect(Math.max(...lostAtOnce)).toBe(3);
  });

  it('counts the agents of a user correctly while they are created and deleted', async () => {
    const servers = await openServers(2, { limits: { agentsPerUserMax: 100 } });
    const made = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => agentIn(servers[index % 2]!, 'error')),
    );
    await Promise.all([
      ...made.map(({ agent_id }, index) => servers[index % 2]!.registry.deleteAgent(alice, agent_id)),
      ...Array.from({ length: 8 }, (_, index) =>
        servers[index % 2]!.registry.createAgent(alice, { name: `new-${index}` }),
      ),
      ...Array.from({ length: 8 }, (_, index) =>
        servers[index % 2]!.registry.putAgent(alice, {
          agent_id: randomUUID().replaceAll('-', '').repeat(2),
          name: `put-${index}`,
        }),
      ),
    ]);
    expect(await servers[0]!.registry.countAgents(alice)).toBe(16);
    expect(await servers[1]!.findings()).toEqual([]);
  });

  it('stores agents in tables that can be read with SQL', async () => {
    const [server] = await openServers(1);
    await server!.registry.createAgent(alice, { name: 'scout', labels: { team: 'red' } });
    expect(
      await query(
        server!.sql,
        `SELECT u.name AS owner, a.name, a.labels->>'team' AS team
          FROM registry.agents a JOIN registry.users u USING (user_id)`,
      ),
    ).toEqual([{ owner: 'alice', name: 'scout', team: 'red' }]);
  });
});
